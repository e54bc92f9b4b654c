"""Replay of a log of inputs: the same lane decides the same inputs again (`input_log`)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from interlock.command.policy.budget import Spending
from interlock.command.policy.policy import RuleSet
from interlock.engine.bridge.conditions import Conditions
from interlock.engine.bridge.context.transcriber import FoldedFrame, Transcriber, fold_again
from interlock.engine.bridge.kernel import Decide, decide
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.lane_state import LaneHome, LaneState, Limits
from interlock.engine.bridge.replay.input_log import (
    AnyLine,
    LaneDecision,
    LaneSettings,
    LaneStart,
    canonical_effects,
    canonical_state,
    digest,
)
from interlock.ports.ledger import LedgerWrite, PutIdempotency
from interlock.protocol.frames import Direction, decode
from interlock.protocol.records import IdempotencyRecord
from interlock.session.transcript.transcript import TranscriptFold
from interlock.session.turn_output import TurnFold

_KEPT = PutIdempotency(IdempotencyRecord(tenant_id="", scope="", fingerprint="", status=0, headers={}, body=b"",
                                         created_ms=0))
"""The write that a replay stores with each answer that was stored."""


class Tape:
    """Random bytes as they were drawn; after their end, others that are the same in each replay."""

    def __init__(self) -> None:
        self._lane: Lane | None = None
        self._drawn: list[list[str]] = []
        self._beyond = 0

    def follow(self, lane: Lane) -> None:
        """Return the bytes that were drawn for the input that this lane is deciding."""
        self._lane = lane

    def wind(self, drawn: Sequence[Sequence[str]]) -> None:
        """Continue with what a decision drew."""
        self._drawn = [list(reversed(one)) for one in drawn]

    def __call__(self, count: int) -> bytes:
        lane = self._lane
        assert lane is not None, "a tape is drawn from by the lane that it follows"
        left = self._drawn[lane.at_input] if lane.at_input < len(self._drawn) else []
        data = bytes.fromhex(left.pop()) if left else b""
        if len(data) != count:
            self._beyond += 1
            data = hashlib.shake_256(f"{lane.state.session_id} {self._beyond}".encode()).digest(count)
        return data


class Replayed(NamedTuple):
    """A decision that was repeated."""

    decision: LaneDecision
    lane: Lane
    answers: list[Any]
    state: bytes
    effects: bytes

    @property
    def same(self) -> bool:
        """Return whether lane and effects are equal to the recorded ones, byte for byte."""
        return (digest(self.state), digest(self.effects)) == (self.decision.state, self.decision.effects)


def lane_from(start: LaneStart) -> tuple[Lane, Tape]:
    """Return a lane in its recorded state, and the tape that it draws from."""
    state = msgspec.json.decode(msgspec.json.encode(start.state), type=LaneState)
    transcriber, named = None, start.transcript
    if named is not None:
        transcriber = Transcriber(state.tenant_id, state.session_id, TranscriptFold(state.agent_id, state.model),
                                  named.leaf, set(named.ids), named.context_leaf, named.reserved)
    fold = TurnFold()
    for received, raw, at_ms in start.folded:
        frame = decode(raw.encode(), Direction.C if received else Direction.M)
        fold_again(fold, transcriber, FoldedFrame(received, frame, at_ms))
    tape, home = Tape(), LaneHome(start.gateway_id, start.keeps_objects, Spending())
    lane = Lane(state, start.commands, start.approvals, fold, tape, Limits(), home, transcriber, start.recent)
    tape.follow(lane)
    lane.unconfirmed.update((seq, raw.encode()) for seq, raw in start.unconfirmed)
    lane.note_sealed(start.sealed)
    return lane, tape


class LaneReplay:
    """A lane that repeats the decisions of a log."""

    def __init__(self, start: LaneStart, decide: Decide = decide) -> None:
        self.lane, self._tape = lane_from(start)
        self._decide = decide
        self._policy = RuleSet()

    def settle(self, settings: LaneSettings) -> None:
        """Use these settings from here on."""
        self.lane.configure(settings.limits)
        self.lane.spending.replace(settings.spending)
        self._policy = RuleSet(settings.rules, settings.remembered, remember_described=settings.remember_described)

    def decide(self, line: LaneDecision) -> list[Any]:
        """Repeat a decision; returns the answers. Raises what `decide` raises: then the lane fails as it may have
        failed when the log was recorded."""
        self._tape.wind(line.drawn)
        return self._decide(self.lane, line.inputs, Conditions(
            line.now_ms, line.wall_ms, self._policy, line.draining, line.unsigned, line.offer), kept_as(line))

    def effects(self) -> bytes:
        """Return the effects of the last decision in their canonical form."""
        return canonical_effects(self.lane.out, (_KEPT,))


def replay(lines: Sequence[AnyLine], decide: Decide = decide) -> Iterator[Replayed]:
    """Repeat a log's decisions, one at a time. Raises what `decide` raises."""
    start = lines[0]
    assert isinstance(start, LaneStart), "a log begins with how its lane began"
    again = LaneReplay(start, decide)
    for line in lines[1:]:
        if isinstance(line, LaneSettings):
            again.settle(line)
        elif isinstance(line, LaneDecision):
            answers = again.decide(line)
            yield Replayed(line, again.lane, answers, canonical_state(again.lane), again.effects())


def kept_as(decision: LaneDecision) -> Callable[[int, Any], Sequence[LedgerWrite]]:
    """Return the writes for each answer that were stored with it."""
    return lambda at, _answer: (_KEPT,) if decision.kept[at] else ()
