"""Tools that ran without a yes, or with another input than the allowed one, and agents that stopped asking: the effects
on the session (H-3, H-11, H-12).

Its runner reports it at once. A runner's report that it allowed a question to which no yes was sent counts as one. It
cannot be undone, so the turn ends, the command fails, and the agent is no longer assumed to ask: its later commands are
held. After a tool without a yes, no rule answers for a person, and no report of the agent changes that; an agent that
was only switched to another mode is assumed to ask again once it is switched back.
"""

from __future__ import annotations

from interlock.command.policy.policy import PolicyVerdict, RuleSet
from interlock.engine.bridge.approvals import held
from interlock.engine.bridge.commands.command_door import hold_queued
from interlock.engine.bridge.commands.command_end import fail
from interlock.engine.bridge.lane import Lane
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.records import CommandRecord
from interlock.protocol.resources import Notice

CONDITIONS = (Code.NOT_ASKING, Code.NOT_BOXED)
"""A turn that started without what its command requires is ended, whatever `on_unasked` is."""

NOTICES = {Code.RAN_UNASKED: "RanUnasked", Code.RAN_OTHER_THAN_ALLOWED: "RanOtherThanAllowed",
           Code.STOPPED_ASKING: "StoppedAsking"}
_TOOLS = frozenset({Code.RAN_UNASKED, Code.RAN_OTHER_THAN_ALLOWED})
ASKED_AGAIN = "ask: the agent used a tool without a yes before"
"""The rule of a question that a rule would have answered."""


def reports(payload: p.AgentError) -> bool:
    """Return whether a runner's error reports such a tool."""
    return payload.error_code in _TOOLS


def report(lane: Lane, payload: p.AgentError, policy: RuleSet) -> None:
    """Audit the tool, report it on every surface, and end the turn, unless the config asks for the report only."""
    code = Code(payload.error_code)
    held.has_fallen(lane.state)
    _fall(lane, "ran_unasked", code, payload.message, policy)


def allowed_without_yes(lane: Lane, interaction_id: str, approval_id: str, policy: RuleSet) -> None:
    """Treat a runner's report that it allowed a question to which no yes was sent as a tool that ran without one.
    `approval_id` is "" if policy denied the question."""
    held.has_fallen(lane.state)
    allowed = f"what approval {approval_id} is about" if approval_id else "what a policy rule denies"
    sentence = f"Runner {lane.state.runner_id} reports that it allowed {allowed}, but no yes was sent to it."
    _fall(lane, "ran_unasked", Code.RAN_UNASKED, sentence, policy, interaction_id, approval_id or None)


def asking_changed(lane: Lane, payload: p.AskingChanged, policy: RuleSet) -> None:
    """Hold the session's commands from now on if its agent stopped asking; stop holding them if it asks again."""
    state = lane.state
    permission = "asks" if payload.asks and not state.fell else "never"
    if permission == state.permission:
        return
    if permission == "never":
        _fall(lane, "asking_stopped", Code.STOPPED_ASKING, payload.message, policy)
        return
    held.take_asking(state, asks=True)
    lane.audit("asking_resumed", {"id": state.runner_id, "role": "runner"}, {})


def _fall(lane: Lane, action: str, code: Code, sentence: str, policy: RuleSet, interaction_id: str = "",
          approval_id: str | None = None) -> None:
    record, turn = lane.active, lane.state.machine.turn
    held.take_asking(lane.state, asks=False)
    lane.notice(Notice(code=NOTICES[code], message=sentence))
    lane.audit(action, {"id": lane.state.runner_id, "role": "runner"},
               {"code": code.value, **({"interaction": interaction_id} if interaction_id else {})},
               command_id=record.command.id if record is not None else None, approval_id=approval_id)
    if turn is not None:
        lane.state.unasked = (code.value, sentence)
        if lane.limits.on_unasked == "cancel":
            lane.control("control.turn.cancel", p.TurnCancel(reason=code.value, turn_id=turn.turn_id))
    hold_queued(lane, policy, sentence)


def started_all_the_same(lane: Lane, code: Code, because: str) -> None:
    """End a turn that a runner started although its command's condition does not hold, because the runner does not know
    the condition. `because` states which condition the agent does not meet."""
    turn = lane.state.machine.turn
    assert turn is not None, "a turn has started"
    sentence = f"{lane.state.agent_id} {because}, and the command was not approved."
    lane.state.unasked = (code.value, sentence)
    lane.control("control.turn.cancel", p.TurnCancel(reason=code.value, turn_id=turn.turn_id))


def begin_turn(lane: Lane) -> None:
    """Clear the record of tools without a yes for a new turn."""
    lane.state.unasked = None


def fail_unasked(lane: Lane, record: CommandRecord) -> bool:
    """End the command of the turn in which a tool ran without a yes as failed; False if there was none, or a person
    ended the command."""
    happened, lane.state.unasked = lane.state.unasked, None
    only_reported = lane.limits.on_unasked == "tell" and happened is not None and happened[0] not in CONDITIONS
    if happened is None or only_reported or record.command.state == "canceling":
        return False
    fail(lane, record, *happened)
    return True


def judged(lane: Lane, verdict: PolicyVerdict) -> PolicyVerdict:
    """Return the verdict, or ask instead of allow once the agent has used a tool without approval."""
    return when_fallen(verdict, fell=lane.state.fell)


def when_fallen(verdict: PolicyVerdict, *, fell: bool) -> PolicyVerdict:
    """Return the verdict, or ask instead of allow if the agent `fell`: it has used a tool without approval."""
    return PolicyVerdict("ask", ASKED_AGAIN) if fell and verdict.effect == "allow" else verdict
