"""A context that is too long for the model in mid-turn: reported to the gateway, which answers with a plan (Z-2, Z-4).

The turn waits meanwhile. The agent's summary answers the plan, and the turn continues.
"""

from __future__ import annotations

import asyncio

from interlock.ports.agent import CompactionFailed
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.payloads import Compacted, SessionCompact, SessionError
from interlock.runner.journal import Journal
from interlock.runner.turn.compaction import reported

PLAN_WAIT_S = 600.0
"""A gateway that has not answered within this, connected or not, will not: the turn ends with the error."""


class Overflow:
    """One turn's exchange with the gateway about its context. One overflow waits at a time."""

    def __init__(self, journal: Journal, turn_id: str, wait_s: float = PLAN_WAIT_S) -> None:
        self._journal = journal
        self._turn_id = turn_id
        self._wait_s = wait_s
        self._reported = ""
        self._answer: asyncio.Future[tuple[str, SessionCompact]] | None = None
        self._request_message_id = ""

    async def report_overflow(self, sentence: str) -> SessionCompact:
        """Report the overflow, and wait for the plan. Raises CompactionFailed if the gateway does not change the
        context, or never answers."""
        frame = self._journal.agent_error("warning", Code.CONTEXT_OVERFLOW, sentence, self._turn_id)
        answer = self._answer = asyncio.get_running_loop().create_future()
        self._reported = frame.message_id
        try:
            await self._journal.write(frame)
            async with asyncio.timeout(self._wait_s):
                self._request_message_id, request = await answer
        except TimeoutError:
            raise CompactionFailed("The gateway did not send a compaction plan.") from None
        finally:
            self._answer, self._reported = None, ""
        await self._journal.write(*self._journal.state_changed("compacting"))
        return request

    async def report(self, made: Compacted | CompactionFailed) -> None:
        """Answer the plan with the summary or the reason that there is none. The turn continues. Raises
        CompactionFailed for a summary that cannot be sent, once the reason is queued for the gateway."""
        reply_to = self._request_message_id
        unsent: CompactionFailed | None = None
        try:
            frame = reported(self._journal, made, reply_to) if isinstance(made, Compacted) else \
                self._journal.session_error(Code.COMPACTION_FAILED, str(made), False, reply_to)
        except CompactionFailed as failed:
            unsent = failed
            frame = self._journal.session_error(Code.COMPACTION_FAILED, str(failed), False, reply_to)
        await self._journal.write(frame, *self._journal.state_changed("running"))
        if unsent is not None:
            raise unsent

    # --- from the gateway ---
    def take(self, frame: Frame, request: SessionCompact) -> bool:
        """Accept a plan. Return False if none is expected: then the frame requests a compaction outside of turns."""
        if self._answer is None or self._answer.done():
            return False
        self._answer.set_result((frame.message_id, request))
        return True

    def refused(self, frame: Frame, error: SessionError) -> None:
        """Fail the waiting overflow: the gateway found nothing to compact."""
        if self._answer is not None and not self._answer.done() and frame.metadata.get("in_reply_to") == self._reported:
            self._answer.set_exception(CompactionFailed(error.message))
