"""The inputs of a lane: a closed union of plain data. `engine.bridge.kernel` decides each of them."""

from __future__ import annotations

from typing import TypeAlias

from interlock.engine.bridge.inputs import gateway, people, runner
from interlock.engine.bridge.inputs.lane_input import LaneInput

RunnerInput: TypeAlias = (
    runner.FramesReceived | runner.PoisonFrameReceived | runner.InvalidFrameReceived | runner.GapGivenUp
    | runner.HistoryBegun | runner.ControlsConfirmed | runner.ControlsRefused | runner.AgentReported
    | runner.RunnerAttached | runner.RunnerDetached | runner.RunnerCompared | runner.ObservationBegun
)
GatewayInput: TypeAlias = (
    gateway.ClockTicked | gateway.StartLooked | gateway.BudgetsChanged | gateway.RulesChanged | gateway.RowsDiffered
    | gateway.SealsBroken | gateway.UnstartedClosed | gateway.ContextViewed | gateway.ContextUnreadable
    | gateway.ContextLooked | gateway.ContextPrepared | gateway.CompactionDropped | gateway.CompactionPlanned
)
PeopleInput: TypeAlias = (
    people.CommandSubmitted | people.VoteCast | people.VoteWithdrawn | people.CardsReported
    | people.LateVoteAnswered | people.QuestionAnswered | people.PolicyAsked | people.SessionChange
    | people.SessionPutAway
    | people.SessionReset | people.SessionRetired | people.PredecessorLeft | people.ChatMessageReceived
    | people.SystemMessageReceived | people.ChatWord | people.EntryAdded | people.TranscriptBegun | people.RepairBegun
    | people.RepairDone | people.CompactionChecked | people.AgentCompaction | people.CompactionRequested
)
AnyInput: TypeAlias = RunnerInput | GatewayInput | PeopleInput
"""Every input that there is."""

__all__ = ["AnyInput", "LaneInput"]
