"""Pure: where each agent puts the effect of a permission request, if that is not in its raw input (H-2).

A reader is only for the versions that were tried. It returns what runs byte for byte, or nothing: then the request
counts as described. What a reader takes from an announcement it takes only if the id was announced once; what then runs
is compared with it (H-3).

| agent | what its request holds | read from |
|---|---|---|
| Gemini CLI | a title; for edits a diff with the whole new text | the diff; the title, if it is the bare command |
| Kimi Code | the title, shortened to a line | the arguments that it announced, if the request's words fit them |
| Mistral Vibe | an id | the call that it announced |
| OpenCode, Kilo | the command, or a path and a diff | the request; the directory as announced, or the workspace |
| Copilot, qwen, goose, claude-agent-acp, codex-acp (commands) | the whole input | the request itself |

Not read, so described: Gemini CLI's commands that come with a description, which may take the title's place; its
fetches, whose title is cut; Kimi's tools other than Bash, Write and Edit; file changes of codex-acp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from interlock.agents.acp.calls import Call, is_empty
from interlock.agents.acp.wire import AskedCall, Implementation, text_of

_KIMI_ASKS = "Requesting approval to "
_CUT = "…"


class Effect(NamedTuple):
    """What a request asks for: its tool call as a whole. `whole` says that the content holds the effect, so that the
    request is not only described although its input is empty."""

    call: AskedCall
    whole: bool = False


Reader = Callable[[AskedCall, Call, str], Effect | None]
"""From the request's own tool call, what was announced of it, and the workspace; None if the effect is not there."""


def _gemini(own: AskedCall, announced: Call, workspace: str) -> Effect | None:
    content = _content(own)
    if own.kind == "edit":
        return Effect(own, whole=True) if _is_one_diff(content, [one.path for one in own.locations or []]) else None
    # Behind the directory stands the model's own description, if there is one; then the title may be that.
    if own.kind == "execute" and own.title and text_of(content) == f"[current working directory {workspace}]":
        return Effect(_with_input(own, {"command": own.title}))
    return None


def _kimi(own: AskedCall, announced: Call, workspace: str) -> Effect | None:
    arguments = _object(text_of(announced.content).encode())
    words = text_of(_content(own))
    if arguments is None or not words.startswith(_KIMI_ASKS):
        return None
    tool, said = own.title, words.removeprefix(_KIMI_ASKS)
    expected = {"Bash": ("Running: ", "command"), "Write": ("Writing ", "path"), "Edit": ("Editing ", "path")}
    act, member = expected.get(tool or "", ("", ""))
    value = arguments.get(member)
    if not act or not isinstance(value, str) or not said.startswith(act) or not _fits(said.removeprefix(act), value):
        return None
    kind = "execute" if tool == "Bash" else "edit"
    return Effect(msgspec.structs.replace(_with_input(own, arguments), kind=kind))


def _vibe(own: AskedCall, announced: Call, workspace: str) -> Effect | None:
    if own.title or own.content or not is_empty(own.raw_input) or announced.input_json == b"{}":
        return None
    return Effect(AskedCall(
        title=announced.title, kind=announced.kind, raw_input=msgspec.Raw(announced.input_json),
        content=msgspec.Raw(msgspec.json.encode(announced.content)), locations=announced.locations))


def _open_code(own: AskedCall, announced: Call, workspace: str) -> Effect | None:
    asked, before = _object(bytes(own.raw_input)), _object(announced.input_json)
    if own.kind != "execute" or asked is None or before is None:
        return None
    before = before or {"cwd": workspace}  # Its announcement may come after its request; it then holds no other one.
    if any(before.get(name, value) != value for name, value in asked.items()):
        return None  # What was announced is another call.
    return Effect(_with_input(own, {**before, **asked}))


READERS: Mapping[tuple[str, str], Reader] = {
    ("gemini-cli", "0.61.0"): _gemini,
    ("kimi code cli", "2.1.0"): _kimi,
    ("@mistralai/mistral-vibe", "3.0.2"): _vibe,
    ("opencode", "1.18.33"): _open_code,
    ("kilo", "7.7.7"): _open_code,
}
"""By `agentInfo.name` in lower case, and version."""


def reader_of(agent: Implementation) -> Reader | None:
    """The reader for an agent of this version; None for one that puts all into the input, or was not tried."""
    return READERS.get((agent.name.casefold(), agent.version or ""))


def read(reader: Reader | None, own: AskedCall, announced: Call, workspace: str) -> Effect:
    """The request with its effect, as far as it can be read."""
    found = None if reader is None or announced.repeated else reader(own, announced, workspace)
    return found or Effect(own)


def _with_input(own: AskedCall, value: dict[str, Any]) -> AskedCall:
    return msgspec.structs.replace(own, raw_input=msgspec.Raw(msgspec.json.encode(value)))


def _fits(said: str, value: str) -> bool:
    """Whether a line that may have been cut is the value's beginning."""
    return value.startswith(said.removesuffix(_CUT)) if said.endswith(_CUT) else said == value


def _content(own: AskedCall) -> list[dict[str, Any]]:
    try:
        return msgspec.json.decode(own.content, type=list[dict[str, Any]]) if own.content else []
    except msgspec.MsgspecError:
        return []


def _is_one_diff(content: list[dict[str, Any]], paths: list[str]) -> bool:
    """Whether the content is one diff, of the one file that the request names."""
    if len(content) != 1 or len(paths) != 1 or content[0].get("type") != "diff":
        return False
    old = content[0].get("oldText")
    return content[0].get("path") == paths[0] and isinstance(content[0].get("newText"), str) and (
        old is None or isinstance(old, str))


def _object(raw: bytes) -> dict[str, Any] | None:
    """A JSON object, of whose members with one name the last counts, as for the agents; None for anything else."""
    try:
        value: Any = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return None
    if not isinstance(value, dict):
        return None
    return cast("dict[str, Any]", value)
