"""A hook that is called before a conversation is compacted: one POST, signed according to Standard Webhooks, answered
with `{}`, `{"cancel": true, "reason": "…"}` or `{"summary": "…"}` (Z-6)."""

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
"""A summary is far shorter; a longer answer is invalid."""
MAX_REASON_CHARS = 300

log = structlog.get_logger("interlock.compaction")


class CompactionHookSettings(NamedTuple):
    """Its URL, the secret that signs requests, the timeout; and whether a missing answer is a no."""

    url: str
    secret: bytes
    timeout_s: float
    required: bool


class _Answer(msgspec.Struct):
    cancel: bool = False
    reason: str = ""
    summary: str | None = None


class HttpCompactionHook(CompactionHook):
    """Sends requests with the gateway's guarded outgoing client."""

    def __init__(self, hook: CompactionHookSettings, outgoing: Outgoing, clock: Clock,
                 new_id: Callable[[], str]) -> None:
        self._hook = hook
        self._outgoing = outgoing
        self._clock = clock
        self._new_id = new_id

    async def before_compact(self, about: BeforeCompact) -> CompactionVeto | Supply | None:
        """Call the hook. One that fails is ignored, or is a no if it is required."""
        at_ms = self._clock.now_ms()
        body = msgspec.json.encode({"type": EVENT, "timestamp": iso(at_ms), "data": about})
        request_id, seconds = f"hook_{self._new_id()}", str(at_ms // 1000)
        headers = {"content-type": "application/json", "webhook-id": request_id, "webhook-timestamp": seconds,
                   "webhook-signature": signature(self._hook.secret, request_id, seconds, body)}
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
            decision = msgspec.json.decode(answer.body, type=_Answer)
        except (msgspec.MsgspecError, RecursionError) as error:
            return self._failed(about, f"its answer cannot be read: {error}")
        if decision.cancel:
            return CompactionVeto(" ".join(decision.reason.split())[:MAX_REASON_CHARS] or "it gave no reason")
        return Supply(decision.summary) if decision.summary is not None else None

    def _failed(self, about: BeforeCompact, why: str) -> CompactionVeto | None:
        log.warning("the hook before a compaction did not answer", session_id=about.session_id, reason=why,
                    goes_on=not self._hook.required)
        if not self._hook.required:
            return None
        return CompactionVeto(f"it is required, and did not answer: {why}"[:MAX_REASON_CHARS])
