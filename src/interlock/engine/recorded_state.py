"""A recorded session as it was at each of its tool calls: cost, whether its agent asked, its box (P-1, H-11, H-12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from interlock.command.budget import MICROS, grown
from interlock.engine.bridge import unapproved_tools
from interlock.protocol import payloads as p
from interlock.protocol.box import Box, parts


class RecordedState:
    """What policy goes by beside a call itself, folded from a session's frames in their order, as the gateway does."""

    def __init__(self) -> None:
        self.asks = True
        self.fell = False
        """The agent had used a tool without a yes, so that no rule allowed for a person any more."""
        self._micros = 0
        self._reported: float | None = None
        self._box: Box | None = None
        self._opening = ""

    def known(self) -> dict[str, Any]:
        """Give fields of `Subject` as they were."""
        return {"permission": "asks" if self.asks else "never", "cost_usd": self._micros / MICROS,
                "box": parts(self._box)}

    def take(self, frame_type: str, message_id: str, metadata: Mapping[str, Any], payload: msgspec.Raw) -> None:
        """Take the next frame, of either direction but for `session.usage` and `session.capabilities`, which are those
        of the runner. Raises MsgspecError."""
        match frame_type:
            case "control.session.open":
                self._opening = message_id
            case "session.capabilities":
                said = msgspec.json.decode(payload, type=p.Capabilities)
                self.asks = said.features.get("permission") == "asks" and not self.fell
                self._box = said.box if metadata.get("in_reply_to") == self._opening else None
            case "session.closed":
                self._box = None
            case "x-interlock.asking.changed":
                self.asks = msgspec.json.decode(payload, type=p.AskingChanged).asks and not self.fell
            case "agent.error":
                if unapproved_tools.reports(msgspec.json.decode(payload, type=p.AgentError)):
                    self.asks, self.fell = False, True
            case "session.usage":
                self._spend(msgspec.json.decode(payload, type=p.Usage), estimated=metadata.get("estimated") is True)
            case _:
                pass

    def _spend(self, usage: p.Usage, *, estimated: bool) -> None:
        if usage.cost_usage.unit != "USD":
            return
        before = self._micros / MICROS if self._reported is None else self._reported
        spent = grown(before, usage.cost_usage.used, estimated=estimated)
        if spent is not None:
            self._reported = usage.cost_usage.used
            self._micros += max(0, spent)
