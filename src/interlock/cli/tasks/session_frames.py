"""The frames of a session's stream that belong to one command: from its prompt to the end of its last turn (C-8)."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import msgspec

from interlock.cli.tasks.cursors import Phase
from interlock.protocol import payloads as p
from interlock.protocol.frames import FRAMES
from interlock.protocol.resources import Notice
from interlock.session.silence import is_silent


class Shown(NamedTuple):
    """A frame to be shown."""

    frame_type: str
    payload: p.Payload


class CommandFrames:
    """A command's part of its session's stream; without a command, all of the stream."""

    def __init__(self, command_id: str | None, phase: Phase = "before", turn_id: str | None = None) -> None:
        self.phase: Phase = phase if command_id is not None else "inside"
        self.turn_id = turn_id
        self._command_id = command_id
        self._prompt_id: str | None = None

    @property
    def is_over(self) -> bool:
        """Return whether all of the part was shown."""
        return self.phase == "after"

    def take(self, event: dict[str, Any]) -> Shown | Notice | None:
        """Process one event of the stream; returns what is to be shown of it."""
        notice = event.get("notice")
        if isinstance(notice, dict):
            return _converted(cast("dict[str, Any]", notice), Notice) if self.phase == "inside" else None
        frame = event.get("frame")
        if not isinstance(frame, dict) or event.get("kind") == "refused":
            return None
        members = cast("dict[str, Any]", frame)
        name = members.get("type")
        row = FRAMES.get(name) if isinstance(name, str) else None
        payload = _converted(members.get("payload"), row.payload) if row is not None else None
        if row is None or payload is None:
            return None
        # A frame that ends the part still belongs to it.
        was_inside = self.phase == "inside"
        metadata = members.get("metadata")
        self._move(payload, metadata)
        if is_silent(row.name, members.get("payload"), metadata):
            return None  # What the agent does for itself is not shown (Z-5).
        return Shown(row.name, payload) if was_inside or self.phase == "inside" else None

    def _move(self, payload: p.Payload, metadata: Any) -> None:
        if self._command_id is None:
            return
        match payload:
            case p.PromptRequest(command_id=self._command_id):
                self.phase = "inside" if self.phase == "before" else self.phase
                self._prompt_id = payload.prompt_id
            case p.TurnStart() if self._is_ours(metadata):
                self.turn_id = payload.turn_id
            case p.TurnEnd(turn_id=self.turn_id) if payload.stop_reason != "tool_use" and self.phase == "inside":
                self.phase = "after"
            case p.SessionClosed() if self.phase == "inside" and self.turn_id is not None:
                self.phase = "after"
            case _:
                pass

    def _is_ours(self, metadata: Any) -> bool:
        if self.phase != "inside":
            return False
        named: Any = cast("dict[str, Any]", metadata).get("prompt_id") if isinstance(metadata, dict) else None
        return named is None or self._prompt_id is None or named == self._prompt_id


def _converted(value: Any, kind: type[Any]) -> Any | None:
    # Encoded and decoded again, since a frame's payload may have raw JSON, which conversion does not support.
    try:
        return msgspec.json.decode(msgspec.json.encode(value), type=kind)
    except (msgspec.DecodeError, msgspec.EncodeError, UnicodeEncodeError):
        return None
