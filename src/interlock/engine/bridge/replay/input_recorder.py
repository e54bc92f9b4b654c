"""Recording of lanes' inputs around the kernel's `decide`, for tests and for the simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

import msgspec

from interlock.engine.bridge.conditions import Conditions
from interlock.engine.bridge.inputs import AnyInput, LaneInput
from interlock.engine.bridge.kernel import Decide, Kept, decide
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.bridge.replay.input_log import (
    AnyLine,
    FoldedLine,
    LaneDecision,
    LaneSettings,
    LaneStart,
    TranscriptStart,
    canonical_effects,
    canonical_state,
    digest,
)
from interlock.ports.ledger import LedgerWrite
from interlock.protocol.frames import encode

Entropy = Callable[[int], bytes]
_state_decoder = msgspec.json.Decoder(LaneState)


class LaneLog:
    """The log of one lane, from when it was read until it was evicted."""

    def __init__(self, lane: Lane) -> None:
        self.session_id = lane.state.session_id
        self.lines: list[AnyLine] = [start_of(lane)]
        self._settings: tuple[Any, ...] = ()

    @property
    def decisions(self) -> list[LaneDecision]:
        """Return the decisions, in their order."""
        return [line for line in self.lines if isinstance(line, LaneDecision)]

    def settle(self, lane: Lane, conditions: Conditions) -> None:
        """Record the settings of the decisions, if they have changed."""
        spending = lane.spending.records() if lane.limits.budgets else []
        settings = (lane.limits, conditions.policy, spending)
        if self._settings and settings[:2] == self._settings[:2] and spending == self._settings[2]:
            return
        self._settings, policy = settings, conditions.policy
        self.lines.append(LaneSettings(
            limits=lane.limits, rules=list(policy.configured), remembered=list(policy.remembered),
            remember_described=policy.remember_described, spending=spending))


class InputRecorder:
    """A `decide` that calls the kernel's and keeps a log of each lane. `check` inspects each decision before its
    commit."""

    def __init__(self, decide: Decide = decide, check: Callable[[LaneLog, Lane], None] | None = None, *,
                 with_digests: bool = True) -> None:
        """Create a recorder. Without digests a log is cheaper, but a replay can compare less."""
        self.logs: list[LaneLog] = []
        self._decide = decide
        self._check = check
        self._with_digests = with_digests
        self._log_of: WeakKeyDictionary[Lane, LaneLog] = WeakKeyDictionary()

    def decide(self, lane: Lane, inputs: Sequence[LaneInput], conditions: Conditions, kept: Kept) -> list[Any]:
        """Decide and log the decision, including one in which the lane fails."""
        log = self._log_of.get(lane)
        if log is None:
            log = self._log_of[lane] = LaneLog(lane)
            self.logs.append(log)
        log.settle(lane, conditions)
        stored, stored_rows = [False] * len(inputs), list[LedgerWrite]()
        drawn: list[list[str]] = [[] for _ in range(len(inputs) + 1)]

        def noted(at: int, answer: Any) -> Sequence[LedgerWrite]:
            rows = kept(at, answer)
            stored[at] = bool(rows)
            stored_rows.extend(rows)
            return rows

        entropy = lane.draw_from(_noting(lane, drawn))
        failed = state = effects = ""
        try:
            answers = self._decide(lane, inputs, conditions, noted)
            if self._with_digests:
                state, effects = digest(canonical_state(lane)), digest(canonical_effects(lane.out, stored_rows))
        except Exception as error:
            failed = repr(error)
            raise
        finally:
            lane.draw_from(entropy)
            log.lines.append(LaneDecision(
                now_ms=conditions.now_ms, wall_ms=conditions.wall_ms, draining=conditions.draining,
                unsigned=conditions.unsigned, offer=conditions.offer, inputs=cast("list[AnyInput]", list(inputs)),
                kept=stored, drawn=drawn, state=state, effects=effects, failed=failed))
            if self._check is not None:
                self._check(log, lane)
        return answers


def _noting(lane: Lane, drawn: list[list[str]]) -> Entropy:
    """Draw random bytes as before, and record for which input."""
    entropy = lane.entropy

    def draw(count: int) -> bytes:
        data = entropy(count)
        drawn[lane.at_input].append(data.hex())
        return data

    return draw


def start_of(lane: Lane) -> LaneStart:
    """Return the initial state of a lane that has decided nothing yet."""
    transcriber = lane.transcriber
    return LaneStart(
        # A copy, since the lane continues to change its own.
        state=_state_decoder.decode(msgspec.json.encode(lane.state)),
        commands=list(lane.commands.values()), approvals=list(lane.approvals.values()),
        unconfirmed=[(seq, raw.decode()) for seq, raw in lane.unconfirmed.items()], recent=lane.recent.listed(),
        folded=[FoldedLine(one.received, encode(one.frame).decode(), one.at_ms) for one in lane.folded],
        sealed=lane.sealed, gateway_id=lane.gateway_id, keeps_objects=lane.keeps_objects,
        transcript=None if transcriber is None else TranscriptStart(
            transcriber.leaf, transcriber.context_leaf, transcriber.known, transcriber.reserved),
        whole=not lane.digests)
