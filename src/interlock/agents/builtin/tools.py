"""The agent's tools: their descriptions for the model, the questions about them, and their execution (B-1)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from interlock.agents.builtin import files, search_tool
from interlock.agents.builtin.places import ToolFailed, Workspace, resolved
from interlock.agents.builtin.shell import TIMEOUT_DEFAULT_S, TIMEOUT_MAX_S, Ran, Shell
from interlock.protocol.payloads import OutputType

MAX_TITLE_CHARS = 160
Access = Literal["rw", "ro", "none"]
Kind = Literal["read", "search", "edit", "execute"]


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of a tool's arguments."""


class ReadInput(Arguments, frozen=True):
    path: str
    offset: int = 1
    limit: int = files.MAX_READ_LINES


class WriteInput(Arguments, frozen=True):
    path: str
    content: str
    append: bool = False


class EditInput(Arguments, frozen=True):
    path: str
    old_text: str
    new_text: str
    all: bool = False


class List(Arguments, frozen=True):
    path: str = "."
    depth: int = 1


class SearchInput(Arguments, frozen=True):
    pattern: str
    path: str = "."
    glob: str = "*"
    ignore_case: bool = False


class RunShell(Arguments, frozen=True):
    command: str
    timeout_s: float = TIMEOUT_DEFAULT_S


class ToolOutcome(NamedTuple):
    """A tool's result: the model sees the same as the transcript. `whole` is for the user alone."""

    text: str
    ok: bool = True
    output_type: OutputType = "text"
    whole: str | None = None


class BuiltinTool(NamedTuple):
    """One tool: its description for the model, its kind for policy."""

    name: str
    kind: Kind
    arguments: type[Arguments]
    description: str
    parameters: dict[str, Any]


def _schema(required: tuple[str, ...], **properties: tuple[str, str]) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "additionalProperties": False,
            "properties": {name: {"type": kind, "description": description}
                           for name, (kind, description) in properties.items()}}


_PATH = ("string", "Relative to the workspace.")
TOOLS: tuple[BuiltinTool, ...] = (
    BuiltinTool("read", "read", ReadInput, "Read lines of a text file; each comes behind its number and a tab.",
                _schema(("path",), path=_PATH, offset=("integer", "First line, from 1."),
                        limit=("integer", f"How many lines, {files.MAX_READ_LINES} at the most."))),
    BuiltinTool("list", "read", List, "List a directory.",
                _schema((), path=_PATH,
                        depth=("integer", f"How many levels, {files.MAX_DEPTH} at the most; 1 by default."))),
    BuiltinTool("search", "search", SearchInput,
                "Search the text of files line by line with a regular expression (RE2).",
                _schema(("pattern",), pattern=("string", "The regular expression."), path=_PATH,
                        glob=("string", "Which files, such as *.py; all by default."),
                        ignore_case=("boolean", "Whether case counts not."))),
    BuiltinTool("write", "edit", WriteInput,
                "Write a whole text file, new or in the place of the one that is there; directories "
                "are made where they are missing.",
                _schema(("path", "content"), path=_PATH, content=("string", "All of the file, or what is added."),
                        append=("boolean", "Add to the end of the file instead."))),
    BuiltinTool("edit", "edit", EditInput,
                "Change a part of a text file: `old_text` must stand in it exactly, and once.",
                _schema(("path", "old_text", "new_text"), path=_PATH,
                        old_text=("string", "The text to replace, to the letter."),
                        new_text=("string", "What is to stand there."),
                        all=("boolean", "Change every place that fits."))),
    BuiltinTool("shell", "execute", RunShell,
                "Run a shell command in the workspace. What it leaves running is ended with it.",
                _schema(("command",), command=("string", "The command."),
                        timeout_s=("number", f"Seconds that it may take, {TIMEOUT_DEFAULT_S} by default."))),
)  # fmt: skip
BY_NAME: Mapping[str, BuiltinTool] = {tool.name: tool for tool in TOOLS}
READING: frozenset[Kind] = frozenset({"read", "search"})


def offered(access: Access, mode: str) -> list[BuiltinTool]:
    """Return the tools that the model may use: none without access to the workspace, only reading ones if it may only
    be read, or in plan mode."""
    if access == "none":
        return []
    return [tool for tool in TOOLS if tool.kind in READING or (access == "rw" and mode != "plan")]


class ModelToolCall(NamedTuple):
    """A call as a model made it, valid or not. `input` is JSON, always an object."""

    name: str
    tool: BuiltinTool | None
    arguments: Arguments | None
    input: dict[str, Any]
    wrong: str | None = None
    """Why it cannot run, for the model."""


def understood(name: str, call_input: Any, tools: list[BuiltinTool]) -> ModelToolCall:
    """Validate a model's call: `call_input` is an object, or text that should be one."""
    value = call_input
    wrong = None
    if isinstance(call_input, str):
        try:
            value = msgspec.json.decode(call_input or "{}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            wrong = f"Its arguments are not JSON: {error}."
    if wrong is None and not isinstance(value, dict):
        wrong = "Its arguments are not a JSON object."
    args = _sound(value if isinstance(value, dict) else {"input": value})  # pyright: ignore[reportUnknownArgumentType]
    tool = BY_NAME.get(name)
    if tool is None or tool not in tools:
        there = ", ".join(one.name for one in tools) or "none"
        because = "cannot be used now" if tool is not None else "does not exist"
        return ModelToolCall(name, None, None, args, f"The tool {name[:80]!r} {because}; there are: {there}.")
    if wrong is not None:
        return ModelToolCall(name, tool, None, args, wrong)
    try:
        return ModelToolCall(name, tool, msgspec.convert(args, tool.arguments), args)
    except (msgspec.ValidationError, RecursionError) as error:
        return ModelToolCall(name, tool, None, args, f"Its arguments are wrong: {error}.")


def _sound(value: dict[str, Any]) -> dict[str, Any]:
    """Return the object in a form that JSON can carry: half a surrogate pair becomes a question mark, excessive nesting
    a note."""
    try:
        msgspec.json.encode(value)
        return value
    except UnicodeEncodeError:
        return msgspec.json.decode(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError:
        return {"input": "(nested too deep)"}


def title(call: ModelToolCall) -> str:
    """Return one line for a person: the tool and its target."""
    about = next((str(call.input[key]) for key in ("command", "path", "pattern") if key in call.input), "")
    line = f"{call.name}: {about}" if about else call.name
    return line if len(line) <= MAX_TITLE_CHARS else line[: MAX_TITLE_CHARS - 1] + "…"


Emit = Callable[[str], Awaitable[None]]
T = TypeVar("T")


class ToolRunner:
    """Runs allowed calls, inside the workspace."""

    def __init__(self, workspace: str, shell: Shell, hidden: Sequence[str] = ()) -> None:
        self._workspace = Workspace(workspace, hidden)
        self._shell = shell
        self._only_adds = False

    def begin_turn(self, *, silent: bool) -> None:
        """Only append to files in a silent turn: it writes notes, and must not lose earlier ones (Z-5)."""
        self._only_adds = silent

    def check(self, call: ModelToolCall) -> None:
        """Check whether the call can run at all, before a person is asked. Raises ToolFailed."""
        path = getattr(call.arguments, "path", None)
        if isinstance(path, str):
            resolved(self._workspace, path)
        if isinstance(call.arguments, RunShell) and not 0 < call.arguments.timeout_s <= TIMEOUT_MAX_S:
            raise ToolFailed(f"`timeout_s` must be more than 0 and at most {TIMEOUT_MAX_S}.")

    async def instructions(self) -> str:
        """Return the content of the workspace's AGENTS.md; "" without one."""
        return await _aside(lambda: files.instructions(self._workspace))

    async def run(self, call: ModelToolCall, emit: Emit) -> ToolOutcome:
        """Run the call. Raises ToolFailed with one sentence."""
        here = self._workspace
        match call.arguments:
            case ReadInput(path, offset, limit):
                return ToolOutcome(await _aside(lambda: files.read(here, path, offset, limit)),
                                   output_type="file_content")
            case WriteInput(path, content, append):
                add = append or self._only_adds
                return ToolOutcome(await _aside(lambda: files.write(here, path, content, append=add)))
            case EditInput(path, old, new, every):
                return ToolOutcome(await _aside(lambda: files.edit(here, path, old, new, every)))
            case List(path, depth):
                return ToolOutcome(await _aside(lambda: files.listing(here, path, depth)))
            case SearchInput(pattern, path, glob, ignore_case):
                return ToolOutcome(await _aside(
                    lambda: search_tool.search(here, pattern, path, glob, ignore_case=ignore_case)))
            case RunShell(command, timeout_s):
                ran: Ran = await self._shell.run(command, timeout_s, emit)
                return ToolOutcome(ran.text, ran.ok, whole=ran.whole)
            case _:
                raise ToolFailed(call.wrong or "There is no such tool.")

    async def close(self) -> None:
        """End what still runs."""
        await self._shell.close()


async def _aside(work: Callable[[], T]) -> T:
    """Run work in a separate thread: a large file must not block the runner's other sessions."""
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise ToolFailed(f"{error.strerror or error}.") from None
