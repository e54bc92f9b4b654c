"""Convert a session's stream to ACP's session updates (O-3). Text is sent by its offset, so a reattached stream repeats
nothing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, cast

import msgspec

from interlock.doors.acp.prompt import user_blocks
from interlock.doors.acp.settings import EditorSettings
from interlock.protocol import payloads as p
from interlock.protocol.frames import FRAMES
from interlock.protocol.resources import Notice
from interlock.session.silence import is_silent

Update = dict[str, Any]

OUTPUT_SHOWN_CHARS = 4_000
"""The end of a tool's output that an update carries: ACP replaces the content with each one."""
BLOCKS_KEPT = 256
"""Open text blocks and tool calls whose state is kept; the oldest is dropped."""
KINDS = frozenset({"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"})
_STATUS = {"ok": "completed"}
_CHUNKS = {"text": "agent_message_chunk", "thinking": "agent_thought_chunk"}
_SUBJECT = msgspec.json.Decoder(p.InteractionSubject)


class _Frame(msgspec.Struct):
    type: str
    payload: msgspec.Raw
    metadata: Any = None


_FRAME = msgspec.json.Decoder(_Frame)


@lru_cache(maxsize=len(FRAMES))
def _payload(kind: type[p.Payload]) -> msgspec.json.Decoder[p.Payload]:
    return msgspec.json.Decoder(kind)


class EditorView:
    """The updates of one session that an editor has received. `is_own` returns whether a command's prompt is the
    editor's own."""

    def __init__(self, is_own: Callable[[str], bool]) -> None:
        self._is_own = is_own
        self._sent: dict[str, int] = {}
        self._output: dict[str, str] = {}
        self.settings = EditorSettings()
        """The agent's settings, by its last report."""

    def updates(self, raw: bytes) -> Iterator[Update]:
        """Return the updates for one frame of the stream; none for frames that an editor does not show."""
        try:
            frame = _FRAME.decode(raw)
            if (row := FRAMES.get(frame.type)) is None:
                return
            payload = _payload(row.payload).decode(frame.payload)
        except msgspec.MsgspecError:
            return
        if not (is_silent(row.name, None, frame.metadata) or (isinstance(payload, p.PromptRequest) and payload.silent)):
            yield from self._of(row.name, payload)

    def notice(self, notice: Notice) -> Iterator[Update]:
        """Return the update for a notice of the gateway."""
        yield _chunk("thinking", notice.message + "\n")

    def _of(self, name: str, payload: p.Payload) -> Iterator[Update]:
        match payload:
            case p.PromptRequest(origin="user") if not (payload.command_id and self._is_own(payload.command_id)):
                for block in user_blocks(payload):
                    yield {"sessionUpdate": "user_message_chunk", "content": block}
            case p.TextDelta():
                yield from self._text(name.split(".")[1], _block(payload), payload.offset, payload.text)
            case p.TextDone():
                yield from self._text(name.split(".")[1], _block(payload), 0, payload.text, done=True)
            case p.ToolRequest():
                yield {"sessionUpdate": "tool_call", "toolCallId": payload.invocation_id,
                       "title": payload.title or payload.tool_name, "status": "pending",
                       "rawInput": _loaded(payload.input)}
            case p.ToolStream():
                yield from self._streamed(payload)
            case p.ToolResult():
                self._output.pop(payload.invocation_id, None)
                yield {"sessionUpdate": "tool_call_update", "toolCallId": payload.invocation_id,
                       "status": _STATUS.get(payload.status, "failed"), "rawOutput": payload.output,
                       **_shown_output(payload)}
            case p.InteractionRequest(context=p.InteractionContext(invocation_id=str() as call_id)):
                yield {"sessionUpdate": "tool_call_update", "toolCallId": call_id, **about(payload.context)}
            case p.Usage():
                yield from _usage(payload)
            case p.AgentError():
                yield _chunk("thinking", f"{payload.message} ({payload.error_code})\n")
            case p.PlanChanged():
                yield {"sessionUpdate": "plan", "entries": [
                    {"content": step.content, "status": step.status, "priority": step.priority or "medium"}
                    for step in payload.steps]}
            case p.Capabilities():
                self.settings.take(payload.settings, [str(mode) for mode in payload.features.get("modes") or ()])
            case p.AgentSettings():
                self.settings.take(payload)
            case _:
                return

    def _text(self, kind: str, block_id: str, offset: int, text: str, *, done: bool = False) -> Iterator[Update]:
        sent = self._sent.get(block_id, 0)
        if offset > sent:
            return  # A piece is missing: the closed block has the whole text.
        if fresh := text[sent - offset:]:
            yield _chunk(kind, fresh)
            sent = offset + len(text)
        if done:
            self._sent.pop(block_id, None)
        else:
            _keep(self._sent, block_id, sent)

    def _streamed(self, piece: p.ToolStream) -> Iterator[Update]:
        shown = (self._output.get(piece.invocation_id, "") + piece.text)[-OUTPUT_SHOWN_CHARS:]
        _keep(self._output, piece.invocation_id, shown)
        yield {"sessionUpdate": "tool_call_update", "toolCallId": piece.invocation_id, "status": "in_progress",
               "content": [text_content(shown)]}


def about(context: p.InteractionContext) -> Update:
    """Return the members of an ACP tool call for the subject of a permission request: input, diffs, files, kind."""
    found: Update = {}
    if isinstance(context.subject, msgspec.Raw):
        found = of_subject(bytes(context.subject))
    if "rawInput" not in found and isinstance(context.input, msgspec.Raw):
        found["rawInput"] = _loaded(context.input)
    return found


def of_subject(subject: bytes) -> Update:
    """Return the members of an ACP tool call for the bytes that a yes covers."""
    try:
        asked = _SUBJECT.decode(subject)
    except msgspec.MsgspecError:
        return {}
    found: Update = {"kind": asked.kind} if asked.kind in KINDS else {}
    if isinstance(asked.input, msgspec.Raw):
        found["rawInput"] = _loaded(asked.input)
    if asked.locations:
        found["locations"] = [{"path": path} for path in asked.locations]
    if isinstance(asked.content, msgspec.Raw) and (content := list(_content(_loaded(asked.content)))):
        found["content"] = content
    return found


def text_content(text: str) -> Update:
    """Return text as an element of a tool call's content."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def _content(items: Any) -> Iterator[Update]:
    for item in cast("list[Any]", items) if isinstance(items, list) else ():
        member = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        if member.get("type") == "diff" and isinstance(member.get("path"), str) \
                and isinstance(member.get("newText"), str):
            old = member.get("oldText")
            yield {"type": "diff", "path": member["path"], "newText": member["newText"],
                   **({"oldText": old} if isinstance(old, str) else {})}
        elif isinstance(inner := member.get("content"), dict):
            text = cast("dict[str, Any]", inner).get("text")
            if isinstance(text, str):
                yield text_content(text)


def _shown_output(result: p.ToolResult) -> Update:
    output = result.output
    if isinstance(output, dict):
        parts = [cast("dict[str, Any]", output).get(name) for name in ("stdout", "stderr", "text", "message")]
        output = "\n".join(part for part in parts if isinstance(part, str) and part)
    return {"content": [text_content(output[-OUTPUT_SHOWN_CHARS:])]} if isinstance(output, str) and output else {}


def _usage(usage: p.Usage) -> Iterator[Update]:
    window = usage.context_window
    if window.used is not None and window.capacity is not None:
        cost = usage.cost_usage.used
        yield {"sessionUpdate": "usage_update", "used": window.used, "size": window.capacity,
               "cost": {"amount": float(cost), "currency": "USD"}}


def _block(text: p.TextDelta | p.TextDone) -> str:
    return f"{text.turn_id}/{text.block_id}"


def _chunk(kind: str, text: str) -> Update:
    return {"sessionUpdate": _CHUNKS[kind], "content": {"type": "text", "text": text}}


def _loaded(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except msgspec.MsgspecError:
        return bytes(raw).decode(errors="replace")


def _keep(kept: dict[str, Any], name: str, value: Any) -> None:
    kept[name] = value
    if len(kept) > BLOCKS_KEPT:
        del kept[next(iter(kept))]
