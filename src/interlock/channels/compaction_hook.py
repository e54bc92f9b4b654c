"""A hook that is asked before a conversation is compacted: one POST, signed as Standard Webhooks says, answered with
`{}`, `{"cancel": true, "reason": "…"}` or `{"summary": "…"}` (Z-6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import structlog

from interlock.channels.webhook import signature
from interlock.ports.clock import Clock
from interlock.ports.compaction_hook import BeforeCompact, CompactionHook, CompactionVeto, Supply
from interlock.ports.outbound_http import Outgoing, Unreached, UrlRefused
from interlock.protocol.clock import iso

EVENT = "session_before_compact"
ANSWER_BYTES = 2 * 1024 * 1024
"""A summary is far shorter; more than this is no answer."""
MAX_REASON_CHARS = 300

log = structlog.get_logger("interlock.compaction")


class CompactionHookSettings(NamedTuple):
    """Where it is, what signs the question, how long is waited; and whether no answer is a no."""

    url: str
    secret: bytes
    timeout_s: float
    required: bool


class _Answer(msgspec.Struct):
    cancel: bool = False
    reason: str = ""
    summary: str | None = None


class HttpCompactionHook(CompactionHook):
    """Asks over the one way out that the gateway has, with its guards."""

    def __init__(self, hook: CompactionHookSettings, outgoing: Outgoing, clock: Clock,
                 new_id: Callable[[], str]) -> None:
        self._hook = hook
        self._outgoing = outgoing
        self._clock = clock
        self._new_id = new_id

    async def before_compact(self, about: BeforeCompact) -> CompactionVeto | Supply | None:
        """Ask. A hook that fails is passed over, or is a no where it is required."""
        at_ms = self._clock.now_ms()
        body = msgspec.json.encode({"type": EVENT, "timestamp": iso(at_ms), "data": about})
        asked, seconds = f"hook_{self._new_id()}", str(at_ms // 1000)
        headers = {"content-type": "application/json", "webhook-id": asked, "webhook-timestamp": seconds,
                   "webhook-signature": signature(self._hook.secret, asked, seconds, body)}
        try:
            answer = await self._outgoing.send("POST", self._hook.url, headers=headers, body=body,
                                               max_bytes=ANSWER_BYTES, timeout_s=self._hook.timeout_s)
        except (UrlRefused, Unreached) as error:
            return self._failed(about, str(error))
        if answer.status == 204 or (answer.status == 200 and not answer.body.strip()):
            return None
        if answer.status != 200:
            return self._failed(about, f"it answered with status {answer.status}")
        try:
            said = msgspec.json.decode(answer.body, type=_Answer)
        except (msgspec.MsgspecError, RecursionError) as error:
            return self._failed(about, f"its answer cannot be read: {error}")
        if said.cancel:
            return CompactionVeto(" ".join(said.reason.split())[:MAX_REASON_CHARS] or "it gave no reason")
        return Supply(said.summary) if said.summary is not None else None

    def _failed(self, about: BeforeCompact, why: str) -> CompactionVeto | None:
        log.warning("the hook before a compaction did not answer", session_id=about.session_id, reason=why,
                    goes_on=not self._hook.required)
        if not self._hook.required:
            return None
        return CompactionVeto(f"it is required, and did not answer: {why}"[:MAX_REASON_CHARS])
