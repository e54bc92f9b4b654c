"""Handle people's requests to a lane: commands, votes, changes of sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from interlock.engine.bridge import archive, entries, staged_changes
from interlock.engine.bridge.approvals import asking_agents, votes
from interlock.engine.bridge.commands import cancellation, control_commands, submission
from interlock.engine.bridge.commands.dispatch import open_session
from interlock.engine.bridge.commands.verbs import LaneVerb, under_policy
from interlock.engine.bridge.context import compaction
from interlock.engine.bridge.inputs import people as i
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.link import mismatch
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal, SessionRecord
from interlock.protocol.resources import Approval
from interlock.session.transfers import TransferRefused


def vote(lane: Lane, input_: i.VoteCast) -> Approval | Problem | None:
    """Count a vote (P-3); None if the approval is decided already."""
    if input_.approval_id not in lane.approvals:
        return None
    findings = mismatch.stored_otherwise(lane, input_.approval, input_.command)
    if findings:
        return mismatch.refuse(lane, findings)
    context = votes.VoteContext(lane.conditions.policy, input_.key, input_.remembered)
    return votes.vote(lane, input_.principal, input_.approval_id, input_.body, context)


def withdraw(lane: Lane, input_: i.VoteWithdrawn) -> Approval | None:
    """Withdraw a vote (P-3); None if the approval is decided already."""
    if input_.approval_id not in lane.approvals:
        return None
    return votes.take_back(lane, input_.principal, input_.approval_id)


def report_cards(lane: Lane, input_: i.CardsReported) -> Approval:
    """Record the chats where an approval was posted (J-5)."""
    return votes.report_cards(lane, input_.principal, input_.approval_id, input_.service, input_.chats)


def answer_late(_lane: Lane, input_: i.LateVoteAnswered) -> Approval:
    """Return the approval with its decision."""
    return input_.approval


def answer(lane: Lane, input_: i.QuestionAnswered) -> Approval | None:
    """Send the answer to the agent that asked (C-8); None if the question is over already."""
    record = lane.approvals.get(input_.approval_id)
    return None if record is None else asking_agents.answer(lane, input_.principal, record, input_.text)


def ask_policy(lane: Lane, input_: i.PolicyAsked) -> bool | Problem:
    """Return True if the action is permitted, which consumes a yes (P-1)."""
    return under_policy(lane, lane.conditions.policy, input_.verb, lambda: True)


# --- sessions ---
_CHANGES: dict[str, Callable[[Lane, dict[str, str], Mapping[str, Any]], None]] = {
    "close": lambda lane, who, body: cancellation.close_session(lane, who, body["reason"]),
    "patch": lambda lane, who, body: entries.patch(lane, who, body, keep_unknown=True),
    "archive": lambda lane, who, body: archive.archive(lane, who, body["reason"]),
    "restore": lambda lane, who, _body: archive.restore(lane, who),
    "release": lambda lane, who, body: control_commands.release_session(lane, who, body["to"]),
    "discard": lambda lane, who, body: staged_changes.discard(lane, who, body["files"]),
}


def change(lane: Lane, input_: i.SessionChange) -> SessionRecord | Problem:
    """Change the session, subject to policy (V-2); returns its row."""
    return _changed(lane, LaneVerb(input_.name, input_.principal, input_.body),
                    lambda: _CHANGES[input_.name](lane, input_.principal.who, input_.body))


def put_away(lane: Lane, input_: i.SessionPutAway) -> SessionRecord | Problem:
    """Archive a session without running work, subject to policy (N-1); returns its row."""
    return _changed(lane, LaneVerb("archive", input_.principal, {}),
                    lambda: archive.put_away(lane, input_.principal.who))


def _changed(lane: Lane, verb: LaneVerb, do: Callable[[], None]) -> SessionRecord | Problem:
    def row() -> SessionRecord:
        do()
        return lane.snapshot().record

    return under_policy(lane, lane.conditions.policy, verb, row)


def reset(lane: Lane, input_: i.SessionReset) -> SessionRecord:
    """Start the key's next session after another one (I-1); returns the row."""
    entries.begin_again(lane, input_.principal.who, input_.before, "asked", None)
    return lane.snapshot().record


def retire(lane: Lane, input_: i.SessionRetired) -> None:
    """End the work of the session that a reset replaces (I-1)."""
    archive.retire(lane, input_.who, asked=input_.asked)


def leave(lane: Lane, _input: i.PredecessorLeft) -> None:
    """Forget the previous session (I-1)."""
    entries.has_left(lane)


# --- compaction on request ---
def check_compaction(lane: Lane, input_: i.CompactionChecked) -> None:
    """Raise Problem if the context cannot be compacted now (T-6)."""
    asking_agents.check_compact(lane, input_.instructions)


def compact_by_agent(lane: Lane, input_: i.AgentCompaction) -> compaction.RequestedCompaction | Problem | None:
    """Request that the agent compacts its context, subject to policy (T-6); None if the gateway is to plan it."""
    if input_.planned_here and compaction.owns(lane.state):
        return None
    return under_policy(lane, lane.conditions.policy, compact_verb(input_.principal, input_.instructions),
                        lambda: asking_agents.compact(lane, input_.principal, input_.instructions))


def compact_verb(principal: Principal, instructions: str | None) -> LaneVerb:
    """Return the action that policy is asked about (P-1)."""
    return LaneVerb("compact", principal, {"instructions": instructions} if instructions is not None else {})


def request_compaction(lane: Lane, input_: i.CompactionRequested) -> compaction.RequestedCompaction | None:
    """Request the planned compaction (Z-4); None if the conversation continued since it was planned."""
    asking_agents.check_compact(lane, input_.instructions)
    if input_.request.tip != lane.state.context.leaf:
        return None
    if input_.summary is not None:
        return compaction.supplied(lane, input_.request, input_.summary)
    if lane.state.opening == "closed":
        open_session(lane)
    try:
        return compaction.request(lane, input_.request, input_.prepared)
    except TransferRefused as refused:
        raise Problem("Conflict", f"The conversation cannot be sent to its agent: {refused}") from None


HANDLERS: dict[type[Any], Any] = {
    i.CommandSubmitted: submission.accept, i.VoteCast: vote, i.VoteWithdrawn: withdraw,
    i.CardsReported: report_cards, i.LateVoteAnswered: answer_late,
    i.QuestionAnswered: answer, i.PolicyAsked: ask_policy, i.SessionChange: change, i.SessionPutAway: put_away,
    i.SessionReset: reset, i.SessionRetired: retire, i.PredecessorLeft: leave,
    i.CompactionChecked: check_compaction, i.AgentCompaction: compact_by_agent,
    i.CompactionRequested: request_compaction,
}
