"""Conversion of frames to transcript entries (X-8). Pure: frames in, drafts of complete entries out.

Open state (an assistant message that is still growing) is held in the fold only. After a restart the open turn's frames
are replayed to the fold and its drafts are dropped: the same transaction that stored those frames stored their
lines.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from interlock.protocol import payloads as p
from interlock.protocol.clock import parse_iso
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import MAX_JSON_DEPTH
from interlock.protocol.resources import Approval, Notice
from interlock.session.transcript.entries import (
    AssistantMessage,
    Custom,
    Draft,
    FileStop,
    ImagePart,
    MessagePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    UserEntry,
)
from interlock.session.transcript.request_usage import RequestUsage, turn_figures

API = "rawp"
"""`api` of every assistant message that came over RAWP (X-8)."""
UNKNOWN_MODEL = "unknown"
MAX_OPEN_CHARS = 1024 * 1024
"""Text and arguments that one assistant message collects. Beyond it the message is appended with stopReason length and
the next one continues, so that lines are bounded."""
TOO_DEEP = "(nested too deep to be written here)"
"""Replaces a value that nests deeper than an encoder can follow; the ledger's frame has it."""

STOP_REASONS: dict[p.StopReason, FileStop] = {
    "end_turn": "stop", "max_tokens": "length", "tool_use": "toolUse", "cancelled": "aborted", "error": "error",
    "awaiting_input": "stop",
}
"""How a turn's end reads in the file (X-8)."""


class _Block(msgspec.Struct):
    """A text or thinking block of the open message; its continuations join it."""

    block_id: str
    thinking: bool
    text: str

    def part(self) -> MessagePart:
        return ThinkingPart(self.text) if self.thinking else TextPart(self.text)


class _No(msgspec.Struct):
    """The denial of a question: by whom, and why."""

    by: str
    why: str | None

    def sentence(self) -> str:
        return f"Denied by {self.by}: {self.why}" if self.why else f"Denied by {self.by}."


class TranscriptFold:
    """A fold over one session's durable frames of both directions, in the order of its stream."""

    def __init__(self, agent_id: str, model: str = "") -> None:
        self._agent_id = agent_id
        self.model = model
        """The agent's model as its capabilities name it, "" while it is unknown."""
        self._reset()

    def _reset(self) -> None:
        self._parts: list[_Block | ToolCallPart] = []
        self._began_ms = 0
        self._chars = 0
        self._tools: dict[str, str] = {}
        self._last_tool = ""
        self._asked: dict[str, str] = {}
        self._noes: dict[str, _No] = {}
        self._refusals: dict[str, _No] = {}
        self._error: str | None = None
        self._ended: p.StopReason | None = None
        self._usage = RequestUsage()

    def feed(self, frame: Frame, now_ms: int) -> list[Draft]:
        """Process one durable frame of either direction; returns the entries that it completes, in order.

        `now_ms` is used if the frame has no time. A prompt completes nothing here: see `prompt_draft`.
        """
        payload = frame.payload
        if frame.metadata.get("delegation_chain") and frame.type.startswith(("agent.", "tool.")):
            return [_subagent_draft(frame)]
        match payload:
            case p.Capabilities():
                self._capable(payload)
            case p.TurnStart():
                drafts = self.abandon("the turn was left without an end", _moment(frame, now_ms))
                self._reset()
                return drafts
            case p.TextDone():
                return self._text(frame, payload, now_ms)
            case p.ToolRequest():
                return self._call(frame, payload, now_ms)
            case p.ToolResult():
                at_ms = _moment(frame, now_ms)
                return [*self._flush("toolUse", at_ms), self._result(payload, at_ms)]
            case p.InteractionRequest() | p.InteractionResponse() | p.InteractionTimeout() | p.InteractionResolved():
                self._interaction(payload)
            case p.AgentError() | p.SessionError():
                self._trouble(payload)
            case p.TurnEnd():
                self._ended = payload.stop_reason
            case p.Usage():
                self._usage.note(payload)
                if self._ended is not None:
                    return self._finish(self._ended, payload, _moment(frame, now_ms))
            case p.SessionClosed():
                return self.abandon(f"the session was closed: {payload.reason}", _moment(frame, now_ms))
            case _:
                pass
        return []

    def abandon(self, reason: str, at_ms: int) -> list[Draft]:
        """Complete what is open without its usage, so that no text is lost with its agent."""
        if not self._parts:
            self._reset()
            return []
        if self._ended is None:
            self._error = self._error or reason
        return self._finish(self._ended or "error", None, at_ms)

    # --- open messages ---
    def _capable(self, payload: p.Capabilities) -> None:
        if payload.agent is not None and payload.agent.model:
            self.model = payload.agent.model

    def _text(self, frame: Frame, payload: p.TextDone, now_ms: int) -> list[Draft]:
        if not payload.text:
            return []
        drafts = self._room(len(payload.text), frame, now_ms)
        continued = frame.metadata.get("continues")
        for part in self._parts if continued else ():
            if isinstance(part, _Block) and part.block_id == continued:
                part.text += payload.text
                part.block_id = payload.block_id  # The next continuation names this block, not the first one.
                return drafts
        self._open(_Block(payload.block_id, frame.type == "agent.thinking.done", payload.text), frame, now_ms)
        return drafts

    def _call(self, frame: Frame, payload: p.ToolRequest, now_ms: int) -> list[Draft]:
        drafts = self._room(len(payload.input), frame, now_ms)
        self._tools[payload.invocation_id] = payload.tool_name
        self._last_tool = payload.invocation_id
        self._open(ToolCallPart(payload.invocation_id, payload.tool_name, _arguments(payload.input)), frame, now_ms)
        return drafts

    def _room(self, chars: int, frame: Frame, now_ms: int) -> list[Draft]:
        drafts: list[Draft] = []
        if self._chars + chars > MAX_OPEN_CHARS:
            drafts += self._flush("length", _moment(frame, now_ms))
        self._chars += chars
        return drafts

    def _open(self, part: _Block | ToolCallPart, frame: Frame, now_ms: int) -> None:
        if not self._parts:  # Only the first part dates the message: parsing an instant costs more than the rest.
            self._began_ms = _moment(frame, now_ms)
        self._parts.append(part)

    def _interaction(
        self, payload: p.InteractionRequest | p.InteractionResponse | p.InteractionTimeout | p.InteractionResolved
    ) -> None:
        """Remember who denied which call, and why: the result alone does not state it."""
        name = payload.interaction_id
        match payload:
            case p.InteractionRequest():
                self._asked[name] = payload.context.invocation_id or ""
            case p.InteractionResponse():
                if payload.decision == "deny":
                    self._noes[name] = _No(payload.by, payload.message)
            case p.InteractionTimeout():
                self._noes[name] = _No("the gateway", "no one answered in time")
            case p.InteractionResolved():
                if payload.outcome != "allowed":
                    why = {"expired": "no one answered in time", "void": "the question was withdrawn"}
                    refused = self._noes.get(name) or _No(payload.by or "the runner", why.get(payload.outcome))
                    self._refusals[self._asked.get(name, "")] = refused

    def _trouble(self, payload: p.AgentError | p.SessionError) -> None:
        if isinstance(payload, p.SessionError):
            if payload.fatal:
                self._error = payload.message
        elif payload.severity != "warning":
            self._error = payload.message
        elif self._last_tool in self._tools:
            # A call that the runner refuses without a question is explained by a warning just before its result.
            self._refusals.setdefault(self._last_tool, _No("the runner", payload.message))

    # --- complete entries ---
    def _flush(self, stop: FileStop, at_ms: int, error: str | None = None) -> list[AssistantMessage]:
        if not self._parts:
            return []
        content = [part.part() if isinstance(part, _Block) else part for part in self._parts]
        self._parts = []
        self._chars = 0
        return [
            AssistantMessage(
                content=content, api=API, provider=self._agent_id, model=self.model or UNKNOWN_MODEL,
                usage=self._usage.take(), stop_reason=stop, error_message=error, timestamp=self._began_ms or at_ms,
            )
        ]

    def _finish(self, ended: p.StopReason, usage: p.Usage | None, at_ms: int) -> list[Draft]:
        stop = STOP_REASONS[ended]
        if stop == "stop" and self._tools:
            stop = "toolUse"
        error = (self._error or "the agent reported an error") if stop == "error" else None
        drafts: list[Draft] = [*self._flush(stop, at_ms, error)]
        last = drafts[0].usage if drafts and isinstance(drafts[0], AssistantMessage) else None
        # The turn's total is kept for accounting if the last message alone does not show it.
        if usage is not None and last != turn_figures(usage):
            data: dict[str, Any] = {"usage": msgspec.to_builtins(turn_figures(usage)), "stopReason": stop}
            if error is not None and not drafts:
                data["errorMessage"] = error
            drafts.append(Custom("interlock.usage", data))
        self._reset()
        return drafts

    def _result(self, payload: p.ToolResult, at_ms: int) -> ToolResultMessage:
        text = _output_text(payload)
        details: dict[str, Any] = {"status": payload.status, "outputType": payload.output_type,
                                   "durationMs": payload.duration_ms}
        refusal = self._refusals.pop(payload.invocation_id, None)
        if payload.status == "denied":
            refused = (refusal or _No("the agent or its runner", None)).sentence()
            text = f"{refused}\n{text}" if text else refused
        elif payload.status == "cancelled" and not text:
            text = "Cancelled."
        if payload.truncated is not None:
            details["truncated"] = msgspec.to_builtins(payload.truncated)
        return ToolResultMessage(
            tool_call_id=payload.invocation_id, tool_name=self._tools.pop(payload.invocation_id, "unknown"),
            content=[TextPart(text)] if text else [], is_error=payload.status != "ok", details=details,
            timestamp=at_ms,
        )


def prompt_draft(prompt: p.PromptRequest, now_ms: int) -> UserEntry:
    """Return the user's message of a prompt (X-5, X-8)."""
    if prompt.content is None:
        return UserEntry(content=prompt.text or "", timestamp=now_ms)
    return UserEntry(content=[_prompt_part(block) for block in prompt.content], timestamp=now_ms)


def notice_draft(notice: Notice) -> Custom:
    """Return the entry of a notice: in the tree, never in context (X-8)."""
    return Custom("interlock.notice", {
        name: value for name in ("code", "message", "since", "lost_frame_count")
        if (value := getattr(notice, name)) is not None
    })


def approval_draft(approval: Approval, by: str) -> Custom:
    """Return the entry of one step of an approval: in the tree, never in context (X-8)."""
    data: dict[str, Any] = {"approval_id": approval.id, "state": approval.state, "door": approval.door,
                            "title": approval.title, "digest": approval.digest, "rule": approval.rule, "by": by}
    for name in ("tool_name", "invocation_id", "command_id", "comment"):
        value = getattr(approval, name)
        if value is not None:
            data[name] = value
    return Custom("interlock.approval", data)


def _subagent_draft(frame: Frame) -> Custom:
    chain = frame.metadata["delegation_chain"]
    return Custom("interlock.subagent", {
        "type": frame.type, "payload": _plain(_encoded(frame.payload)),
        "delegation_chain": chain if _shallow(chain, MAX_JSON_DEPTH) else TOO_DEEP,
    })


def _prompt_part(block: dict[str, Any]) -> MessagePart:
    if block.get("type") == "text":
        return TextPart(str(block.get("text", "")))
    media_type = str(block.get("media_type") or "application/octet-stream")
    data = str(block.get("data") or "")
    if block.get("type") == "image":
        return ImagePart(data, media_type)
    # The format has no part for other media: a note states it, and the ledger's frame has the bytes.
    return TextPart(f"[{block.get('type', 'file')}, {media_type}, {len(data) * 3 // 4} bytes]")


def _arguments(raw: msgspec.Raw) -> dict[str, Any]:
    """Return a call's arguments as an object, on one line whatever white space the agent wrote."""
    value = _plain(bytes(raw))
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {"input": value}


def _plain(raw: bytes) -> Any:
    """Decode a raw field of a frame; as text if it is not JSON, or nests so deeply that a reader might fail."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # A raw field is skipped when its frame is parsed, so its faults first appear here.
        return raw.decode("utf-8", "replace")
    return value if _shallow(value, MAX_JSON_DEPTH) else raw.decode("utf-8", "replace")


def _shallow(value: Any, depth: int) -> bool:
    if isinstance(value, dict):
        return depth > 0 and all(_shallow(item, depth - 1) for item in cast("dict[str, Any]", value).values())
    if isinstance(value, list):
        return depth > 0 and all(_shallow(item, depth - 1) for item in cast("list[Any]", value))
    return True


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except RecursionError:
        return msgspec.json.encode(TOO_DEEP)


def _output_text(payload: p.ToolResult) -> str:
    output = payload.output
    if output is None:
        return ""
    return output if isinstance(output, str) else _encoded(output).decode()


def _moment(frame: Frame, now_ms: int) -> int:
    try:
        return parse_iso(frame.timestamp)
    except ValueError:
        return now_ms
