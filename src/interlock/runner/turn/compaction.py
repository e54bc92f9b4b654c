"""A compaction that the gateway requested: the agent works as in a turn, but it is not a turn (T-1, T-6)."""

from __future__ import annotations

import structlog

from interlock.ports.agent import CompactionFailed, Compacts, TurnUsage
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import InvalidFrame, encode
from interlock.protocol.payloads import Compacted, SessionCompact
from interlock.runner.journal import Journal
from interlock.runner.turn.endings import compaction_usage

TOO_LONG = "The agent's summary cannot be sent: {}."
BROKEN_OFF = "The session was closed before the agent had compacted its context."

log = structlog.get_logger()


def reported(journal: Journal, report: Compacted, reply_to: str) -> Frame:
    """Make the frame that answers a plan. Raises CompactionFailed for a summary too large for a frame (L-2): otherwise
    the gateway and the session would wait until the gateway's timeout."""
    frame = journal.frame("session.compacted", report, {"in_reply_to": reply_to})
    try:
        encode(frame)
    except (InvalidFrame, UnicodeEncodeError, RecursionError) as error:
        raise CompactionFailed(TOO_LONG.format(str(error).removeprefix("$: ").rstrip("."))) from None
    return frame


async def compact(agent: Compacts, journal: Journal, frame: Frame, request: SessionCompact) -> None:
    """Let the agent compact its context, and answer `asked` with `session.compacted`, or with `session.error`
    COMPACTION_FAILED, also if it is cancelled. The usage follows if the agent reports it: it counts towards the budget
    of the day as a turn's does (P-7)."""
    usages: list[TurnUsage] = []
    answer = journal.session_error(Code.COMPACTION_FAILED, BROKEN_OFF, False, frame.message_id)
    await journal.write(*journal.state_changed("compacting"))
    try:
        report = await agent.compact(request, usages.append)
        answer = reported(journal, report, frame.message_id)
    except CompactionFailed as error:
        answer = journal.session_error(Code.COMPACTION_FAILED, str(error), False, frame.message_id)
    except Exception as error:
        # A bug in the adapter: the request must be answered all the same.
        log.exception("the adapter of an agent failed")
        sentence = f"Interlock's adapter for this agent failed: {error!r}."
        answer = journal.session_error(Code.COMPACTION_FAILED, sentence, False, frame.message_id)
    finally:
        took = [compaction_usage(journal, usages[-1])] if usages else []
        await journal.write(answer, *took, *journal.state_changed("idle"))
