"""The state of each ACP tool call, whose parts arrive in a different order from each agent. Pure."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any, NamedTuple, cast

import msgspec

from interlock.agents.acp.content import file_of
from interlock.agents.acp.wire import AcpToolCallWire, Location, text_of
from interlock.agents.call_ids import digest_id, invocation_id
from interlock.command.card.request import same_effect
from interlock.ports.agent import AgentFile
from interlock.protocol.payloads import Channel, OutputType, ToolStatus

MAX_CLOSED_CALLS = 1_024
"""Ids of finished calls that are remembered, so that a late update is not treated as a call; the oldest are forgotten.
"""
MAX_KEPT_INPUT = 4_096
"""Longest input of a finished call that is stored for comparison with a late update; of a longer one, its digest."""
AGAIN = "~"
"""Separates a number in the invocation id of a call that reuses the id of an ended one. An agent's own id that contains
it is hashed, so that it cannot collide with another call's."""
ENDED = frozenset({"completed", "failed"})
STARTED = ENDED | {"in_progress"}
_BY_KIND: dict[str, OutputType] = {"read": "file_content", "fetch": "web_content"}
_SUBAGENTS = frozenset({"Task", "Agent"})
_NAMES = (("claudeCode", "toolName"), ("goose", "toolCall", "toolName"), ("interlock", "toolName"), ("toolName",))
"""Members of `_meta` in which agents name a tool; the last is qwen's."""
_EMPTY = (b"", b"null", b"{}", b"[]", b'""')


def is_empty(raw: msgspec.Raw) -> bool:
    """Return whether a member is absent or empty."""
    return b"".join(bytes(raw).split()) in _EMPTY


class AcpToolCall:
    """The known state of one tool call."""

    def __init__(self, call_id: str) -> None:
        self.invocation_id = digest_id(call_id) if AGAIN in call_id else invocation_id(call_id)
        self.kind: str | None = None
        self.title: str | None = None
        self.parent: str | None = None
        self.input_json = b"{}"
        """As it was announced or asked about last."""
        self.announced_json = b"{}"
        """As in the agent's updates, regardless of its permission requests."""
        self.begun = False
        """The agent has reported that it begins to run, with its whole input; it may still wait for an answer."""
        self.announced = False
        self.streamed = False
        self.cut = False
        """The agent reported that its streamed output is incomplete."""
        self.repeated = False
        """Another call was announced under the same id."""
        self.content: list[dict[str, Any]] = []
        self.locations: list[Location] = []
        self._vendor_name: str | None = None
        self._shown = ""
        self._raw_output = b""
        self._exit: tuple[int | None, Any] | None = None
        """Exit code and signal of a command that did not end with 0."""

    def note_announced(self) -> None:
        """Note that it has been reported to the turn writer."""
        self.announced = True

    @property
    def name(self) -> str:
        """Return the vendor's name, else ACP's kind, else `unknown`."""
        return self._vendor_name or self.kind or "unknown"

    def merge(self, update: AcpToolCallWire, *, asks: bool = False) -> None:
        """Apply an update; members that it lacks stay. `asks` means that a permission is requested for the call."""
        self.kind = update.kind or self.kind
        self.title = update.title or self.title
        if not is_empty(update.raw_input):
            self.input_json = bytes(update.raw_input)
        if not asks and not is_empty(update.raw_input):
            self.announced_json = bytes(update.raw_input)
        if not asks and update.status in STARTED:
            self.begun = True
        if bytes(update.raw_output) not in _EMPTY:
            self._raw_output = bytes(update.raw_output)
        if update.content:
            self.content = update.content
        self.locations = update.locations or self.locations
        meta = update.meta or {}
        self._vendor_name = _name_in(meta) or update.name or self._vendor_name
        self._exit = _bad_exit(meta) or self._exit
        parent = _at(meta, "claudeCode", "parentToolUseId")
        self.parent = parent if isinstance(parent, str) else self.parent

    def ready(self, status: str | None) -> bool:
        """Return whether enough is known to announce it without a permission request."""
        return self.input_json != b"{}" or status in STARTED

    def runs(self, update: AcpToolCallWire) -> bool:
        """Return whether an update shows that the call runs: it completed, or its program has printed or ended."""
        return update.status == "completed" or self.printed(update)

    def printed(self, update: AcpToolCallWire) -> bool:
        """Return whether an update contains output of the call's program, or how it ended. codex closes the terminal of
        a denied call without an exit code or a signal: nothing has run."""
        meta = update.meta or {}
        printed = _own_stream(meta) or _terminal_stream(meta) or self._goose_stream(meta)
        return bool(printed) or any(_at(meta, "terminal_exit", how) is not None for how in ("exit_code", "signal"))

    def live(self, update: AcpToolCallWire) -> list[tuple[Channel, str]]:
        """Return output in this update that was not streamed yet."""
        meta = update.meta or {}
        spans = _own_stream(meta) + _terminal_stream(meta) + self._goose_stream(meta)
        if not spans and update.status not in ENDED:
            spans = self._content_stream()
        # Our own agent sends an empty piece if a command printed nothing, so its output is empty.
        self.streamed = self.streamed or bool(spans) or _at(meta, "interlock", "stream") is not None
        return spans

    def _goose_stream(self, meta: dict[str, Any]) -> list[tuple[Channel, str]]:
        if _at(meta, "toolNotification", "type") != "live_output":
            return []
        self.cut = self.cut or _at(meta, "toolNotification", "params", "truncated") is True
        chunks = _at(meta, "toolNotification", "params", "chunks")
        spans: list[tuple[Channel, str]] = []
        for chunk in cast("list[Any]", chunks) if isinstance(chunks, list) else []:
            text = _at(chunk, "output")
            if isinstance(text, str) and text:
                spans.append(("stderr" if _at(chunk, "stream") == "stderr" else "stdout", text))
        return spans

    def _content_stream(self) -> list[tuple[Channel, str]]:
        # ACP replaces a call's content: an added end is streamed, anything else waits for the result.
        text = text_of(self.content)
        if len(text) <= len(self._shown) or not text.startswith(self._shown):
            return []
        grown = text[len(self._shown) :]
        self._shown = text
        return [("stdout", grown)]

    def status(self, reported: str | None) -> ToolStatus:
        """Return the result's status: `completed` is ok, unless the agent's command had an exit code other than 0."""
        return "ok" if reported == "completed" and self._exit is None else "error"

    @property
    def files(self) -> list[AgentFile]:
        """Return images and other files in its content."""
        found = (file_of(item.get("content")) for item in self.content if item.get("type") == "content")
        return [file for file in found if file is not None]

    def output(self) -> tuple[OutputType, Any]:
        """Return the result's type and output; None means the streamed output."""
        diffs = [_diff(item) for item in self.content if item.get("type") == "diff"]
        if diffs:
            return "diff", diffs
        if self.streamed and not self.cut and self._shown in ("", text_of(self.content)):
            return "text", None
        kind = "agent_result" if self.name in _SUBAGENTS else _BY_KIND.get(self.kind or "", "text")
        raw: Any = _json(self._raw_output)
        text = raw if isinstance(raw, str) else text_of(self.content)
        if text:
            return kind, text
        if raw is None and self._exit is not None:
            return "text", _exit_sentence(*self._exit)
        return ("empty", "") if raw is None else ("structured", raw)


class ClosedCall(NamedTuple):
    """A call that has ended: the input that it ran with, and how many calls had its id."""

    input: bytes
    times: int


class AcpToolCalls:
    """The calls of one agent's session. A reused id starts another call, which is shown and decided separately: else
    the agent could run anything under an id that was allowed once."""

    def __init__(self) -> None:
        self._open: dict[str, AcpToolCall] = {}
        self._closed: OrderedDict[str, ClosedCall] = OrderedDict()

    def find(self, update: AcpToolCallWire, *, begins: bool = False, asks: bool = False) -> AcpToolCall | None:
        """Return the call with the update applied; None for a late update of an ended call. `begins` means that it
        announces a call, `asks` that a permission is requested for it."""
        call = self._open.get(update.tool_call_id)
        if call is None and (ended := self._closed.get(update.tool_call_id)) is not None:
            if not asks and _is_late(update, ended, begins=begins):
                return None
            call = self._open[update.tool_call_id] = AcpToolCall(update.tool_call_id)
            call.invocation_id += f"{AGAIN}{ended.times + 1}"
            begins = False
        if call is not None and begins:
            call.repeated = True
        if call is None:
            call = self._open[update.tool_call_id] = AcpToolCall(update.tool_call_id)
        call.merge(update, asks=asks)
        return call

    def open(self, call_id: str | None) -> AcpToolCall | None:
        """Return the call with this id, if it has been announced or asked about and has not ended."""
        return self._open.get(call_id or "")

    def others(self, call_id: str) -> tuple[AcpToolCall, ...]:
        """Return the open calls except the one with this id."""
        return tuple(call for other, call in self._open.items() if other != call_id)

    def end(self, call_id: str) -> None:
        """Close the call that has its result."""
        call, before = self._open.pop(call_id, None), self._closed.pop(call_id, None)
        if call is not None:
            self._closed[call_id] = ClosedCall(_kept(call.input_json), 1 if before is None else before.times + 1)
        elif before is not None:
            self._closed[call_id] = before
        while len(self._closed) > MAX_CLOSED_CALLS:
            self._closed.popitem(last=False)

    def end_all(self) -> None:
        """Close every call, at the turn's end."""
        for call_id in list(self._open):
            self.end(call_id)


def _is_late(update: AcpToolCallWire, ended: ClosedCall, *, begins: bool) -> bool:
    """Return whether an update is about the ended call and not about another one with its id: its input is the same,
    and it does not begin a new call."""
    known = ended.input != b"{}" and not is_empty(update.raw_input)
    raw = bytes(update.raw_input)
    if known and _kept(raw) != ended.input and not same_effect(raw, ended.input):
        return False
    return not begins or update.status in ENDED


def _kept(raw: bytes) -> bytes:
    return raw if len(raw) <= MAX_KEPT_INPUT else hashlib.sha256(raw).hexdigest().encode()


def _at(value: Any, *path: str) -> Any:
    for name in path:
        if not isinstance(value, dict):
            return None
        value = cast("dict[str, Any]", value).get(name)
    return value


def _name_in(meta: dict[str, Any]) -> str | None:
    for path in _NAMES:
        name = _at(meta, *path)
        if isinstance(name, str) and name:
            return name
    return None


def _own_stream(meta: dict[str, Any]) -> list[tuple[Channel, str]]:
    stream = _at(meta, "interlock", "stream")
    text, channel = _at(stream, "text"), _at(stream, "channel")
    if not isinstance(text, str) or not text:
        return []
    return [("stderr" if channel == "stderr" else "stdout", text)]


def _terminal_stream(meta: dict[str, Any]) -> list[tuple[Channel, str]]:
    """Return output of a terminal that the agent itself has (codex-acp, pi-acp); each piece is new."""
    pieces = (_at(meta, name, "data") for name in ("terminal_output", "terminal_output_delta"))
    return [("stdout", piece) for piece in pieces if isinstance(piece, str) and piece]


def _bad_exit(meta: dict[str, Any]) -> tuple[int | None, Any] | None:
    code, signal = _at(meta, "terminal_exit", "exit_code"), _at(meta, "terminal_exit", "signal")
    code = code if isinstance(code, int) else None
    return (code, signal) if code or (code is None and isinstance(signal, str | int)) else None


def _exit_sentence(code: int | None, signal: Any) -> str:
    return f"The command ended with exit code {code}." if code is not None else f"The command was ended by {signal}."


def _diff(item: dict[str, Any]) -> dict[str, Any]:
    return {"path": item.get("path"), "old_text": item.get("oldText"), "new_text": item.get("newText")}


def _json(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw) if raw else None
    except msgspec.DecodeError:
        return None
