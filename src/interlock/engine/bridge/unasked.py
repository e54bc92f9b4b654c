"""A tool that ran without a yes, or with another input than the one allowed: what it means for the session (H-3, H-12).

Its runner reports it at once. It cannot be undone, so the turn ends, the command fails, and the agent is no longer
taken to ask: from then on its commands are held, and no rule answers for a person.
"""

from __future__ import annotations

from interlock.command.policy import Verdict
from interlock.engine.bridge.ending import fail
from interlock.engine.bridge.lane import Lane
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.records import CommandRecord
from interlock.protocol.resources import Notice

NOTICES = {Code.RAN_UNASKED: "RanUnasked", Code.RAN_OTHER_THAN_ALLOWED: "RanOtherThanAllowed"}
ASKED_AGAIN = "ask: the agent used a tool without a yes before"
"""The rule of a question that a rule would have answered."""


def reports(payload: p.AgentError) -> bool:
    """Whether a runner reports such a tool."""
    return payload.error_code in NOTICES


def report(lane: Lane, payload: p.AgentError) -> None:
    """Record it, say it on every surface, and end the turn, unless the config says only to tell."""
    code = Code(payload.error_code)
    record = lane.active
    lane.state.unasked = (code.value, payload.message)
    lane.state.fell, lane.state.permission = True, "never"
    lane.notice(Notice(code=NOTICES[code], message=payload.message))
    lane.audit("ran_unasked", {"id": lane.state.runner_id, "role": "runner"}, {"code": code.value},
               command_id=record.command.id if record is not None else None)
    turn = lane.state.machine.turn
    if lane.limits.on_unasked == "cancel" and turn is not None:
        lane.control("control.turn.cancel", p.TurnCancel(reason=code.value, turn_id=turn.turn_id))


def fail_unasked(lane: Lane, record: CommandRecord) -> bool:
    """End the command of the turn in which it happened as failed; False if none happened, or a person ended it."""
    happened, lane.state.unasked = lane.state.unasked, None
    if happened is None or lane.limits.on_unasked == "tell" or record.command.state == "canceling":
        return False
    fail(lane, record, *happened)
    return True


def judged(lane: Lane, verdict: Verdict) -> Verdict:
    """Have a person asked where a rule would allow, once the agent used a tool without a yes."""
    if lane.state.fell and verdict.effect == "allow":
        return Verdict("ask", ASKED_AGAIN)
    return verdict
