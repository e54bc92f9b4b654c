"""A compaction that the gateway asked for: the agent's work like a turn, but none (T-1, T-6)."""

from __future__ import annotations

import structlog

from interlock.ports.agent import CompactionFailed, Compacts
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.payloads import SessionCompact
from interlock.runner.journal import Journal

BROKEN_OFF = "The session was closed before the agent had compacted its context."

log = structlog.get_logger()


async def compact(agent: Compacts, journal: Journal, asked: Frame, request: SessionCompact) -> None:
    """Have the agent compact its context, and answer `asked`: `session.compacted`, or `session.error`
    COMPACTION_FAILED, also where this is broken off."""
    answer = journal.session_error(Code.COMPACTION_FAILED, BROKEN_OFF, False, asked.message_id)
    await journal.write(*journal.state_changed("compacting"))
    try:
        report = await agent.compact(request)
        answer = journal.frame("session.compacted", report, {"in_reply_to": asked.message_id})
    except CompactionFailed as error:
        answer = journal.session_error(Code.COMPACTION_FAILED, str(error), False, asked.message_id)
    except Exception as error:
        # The adapter has a mistake in it, and the request is owed its answer all the same.
        log.exception("the adapter of an agent failed")
        sentence = f"Interlock's adapter for this agent failed: {error!r}."
        answer = journal.session_error(Code.COMPACTION_FAILED, sentence, False, asked.message_id)
    finally:
        await journal.write(answer, *journal.state_changed("idle"))
