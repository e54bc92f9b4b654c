"""Convert a session's stream to lines of a log. Only stored frames are shown, so a stream that was resumed repeats
nothing. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from interlock.doors.ci.log_lines import LogWriter, block, phrase
from interlock.protocol import payloads as p
from interlock.protocol.answers import FrameEvent
from interlock.protocol.frames import FRAMES
from interlock.session.silence import is_silent

MAX_ANSWER_CHARS = 256 * 1024
"""Characters of the agent's text that are kept for the summary; the beginning of a longer one is dropped."""
CALLS_KEPT = 256
_frame = msgspec.json.Decoder(dict[str, Any])


class ProgressLines:
    """The log lines of a session. `answer` is the end of the agent's text."""

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer
        self._titles: dict[str, str] = {}
        self.answer = ""
        self.is_over = False
        """Whether the turn has ended."""

    def lines(self, event: FrameEvent) -> Iterator[str]:
        """Return the lines for one event of the session's stream."""
        if event.notice is not None:
            yield self._writer.annotation("notice", "Interlock", event.notice.message)
        if not isinstance(event.frame, msgspec.Raw) or event.kind == "refused":
            return
        frame = _frame.decode(event.frame)
        row = FRAMES.get(str(frame.get("type")))
        if row is None or is_silent(row.name, frame.get("payload"), frame.get("metadata")):
            return
        try:
            payload = msgspec.json.decode(msgspec.json.encode(frame.get("payload")), type=row.payload)
        except (msgspec.MsgspecError, UnicodeEncodeError):
            return
        yield from self._of(row.name, payload)

    def _of(self, name: str, payload: p.Payload) -> Iterator[str]:
        match payload:
            case p.TextDone() if name == "agent.text.done":
                self.answer = (self.answer + payload.text)[-MAX_ANSWER_CHARS:]
                yield from block(payload.text)
            case p.ToolRequest():
                self._titles[payload.invocation_id] = payload.title or payload.tool_name
                if len(self._titles) > CALLS_KEPT:
                    del self._titles[next(iter(self._titles))]
            case p.ToolResult():
                title = self._titles.pop(payload.invocation_id, "tool")
                yield from self._writer.opened(f"tool: {phrase(title)} ({payload.status})")
                if text := _text(payload.output):
                    yield from block(text)
                yield from self._writer.closed()
            case p.AgentError():
                yield self._writer.annotation("warning", "The agent reports an error",
                                              f"{payload.message} ({payload.error_code})")
            case p.TurnEnd() if payload.stop_reason != "tool_use":
                self.is_over = True
            case p.SessionClosed():
                self.is_over = True
            case _:
                return


def _text(output: Any) -> str:
    if isinstance(output, dict):
        members = cast("dict[str, Any]", output)
        parts = [members.get(name) for name in ("stdout", "stderr", "text", "message")]
        return "\n".join(part for part in parts if isinstance(part, str) and part)
    return output if isinstance(output, str) else ""
