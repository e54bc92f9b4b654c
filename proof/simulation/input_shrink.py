"""Shrinks a log of inputs to a minimum that still breaks the same rule, by delta debugging (ddmin)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from interlock.engine.bridge.inputs import AnyInput
from interlock.engine.bridge.inputs.runner import FrameRun, FramesReceived
from interlock.engine.bridge.kernel import Decide, decide
from interlock.engine.bridge.replay.input_log import AnyLine, LaneDecision, LaneFault, LaneSettings, LaneStart
from interlock.engine.bridge.replay.input_replay import LaneReplay
from proof.simulation.lane_rules import LaneRules

MAX_REPLAYS = 3_000
"""Then the smallest log so far is good enough."""


class Unit(NamedTuple):
    """One input on its own, as a decision of its own. `follows` if its frame followed the one that the lane had."""

    decision: LaneDecision
    follows: bool


class Shrunk(NamedTuple):
    """The smallest log that was found: its lines, the rule that it breaks, how many inputs it has, of how many."""

    lines: list[AnyLine]
    fault: str
    inputs: int
    before: int
    replays: int


class _Shrinking:
    def __init__(self, lines: Sequence[AnyLine], decide: Decide) -> None:
        start = lines[0]
        assert isinstance(start, LaneStart), "a log begins with how its lane began"
        self.start = start
        self.settings = [line for line in lines if isinstance(line, LaneSettings)]
        self.replays = 0
        self._decide = decide

    def replay(self, units: Sequence[Unit | LaneSettings]) -> tuple[str | None, list[AnyLine]]:
        """Replay units: the first fault, and the lines up to it as they were decided."""
        self.replays += 1
        rules, again = LaneRules(self.start), LaneReplay(self.start, self._decide)
        lines: list[AnyLine] = [self.start]
        for unit in units:
            if isinstance(unit, LaneSettings):
                again.settle(unit)
                lines.append(unit)
                continue
            line, failed = _placed(unit, again.lane.state.last_seq), ""
            try:
                again.decide(line)
            except Exception as error:  # noqa: BLE001  # Every exception in the lane is its fault.
                failed = repr(error)
            lines.append(msgspec.structs.replace(line, failed=failed))
            rules.look(again.lane, line.inputs, failed)
            if rules.fault is not None:
                return rules.fault, [*lines, LaneFault(sentence=f"{rules.fault}: {rules.about}")]
        return None, lines


def _placed(unit: Unit, last_seq: int) -> LaneDecision:
    """A frame that followed its predecessor follows the one that is now before it."""
    [given] = unit.decision.inputs
    if not unit.follows or not isinstance(given, FramesReceived):
        return unit.decision
    return msgspec.structs.replace(unit.decision, inputs=[msgspec.structs.replace(given, after=last_seq)])


def units_of(lines: Sequence[AnyLine], decide: Decide = decide) -> list[Unit | LaneSettings]:
    """Take a log's decisions apart: one input each, one frame each."""
    start = lines[0]
    assert isinstance(start, LaneStart), "a log begins with how its lane began"
    again, units = LaneReplay(start, decide), list[Unit | LaneSettings]()
    for line in lines:
        if isinstance(line, LaneSettings):
            again.settle(line)
            units.append(line)
        elif isinstance(line, LaneDecision):
            last_seq = again.lane.state.last_seq
            for at, given in enumerate(line.inputs):
                tail = line.drawn[-1] if at == len(line.inputs) - 1 else []
                for alone, follows in _alone(given, last_seq):
                    units.append(Unit(msgspec.structs.replace(
                        line, inputs=[alone], kept=[line.kept[at]], drawn=[line.drawn[at], tail], state="",
                        effects="", failed=""), follows))
                    last_seq = _reached(alone, last_seq)
            try:
                again.decide(line)
            except Exception:  # noqa: BLE001  # The lane broke here, as it did when it was recorded.
                break
    return units


def _alone(given: AnyInput, last_seq: int) -> list[tuple[AnyInput, bool]]:
    if not isinstance(given, FramesReceived):
        return [(given, False)]
    found, after = list[tuple[AnyInput, bool]](), given.after
    for frame, raw in given.run.entries:
        found.append((FramesReceived(after, FrameRun([(frame, raw)])), after == last_seq))
        if frame.seq is not None:
            last_seq = frame.seq if after == last_seq else last_seq
            after = frame.seq
    return found


def _reached(given: AnyInput, last_seq: int) -> int:
    if isinstance(given, FramesReceived) and given.after == last_seq:
        return given.run.entries[0][0].seq or last_seq
    return last_seq


def shrink(lines: Sequence[AnyLine], decide: Decide = decide) -> Shrunk | None:
    """Shrink a log; None if its replay breaks no rule, or the log holds too little to be replayed."""
    one = _Shrinking(lines, decide)
    if not one.start.whole:
        return None
    units = units_of(lines, decide)
    fault, _ = one.replay(units)
    if fault is None:
        return None
    before = sum(isinstance(unit, Unit) for unit in units)
    kept = _smallest(one, units, fault)
    _, least = one.replay(kept)
    return Shrunk(least, fault, sum(isinstance(line, LaneDecision) for line in least), before, one.replays)


def _smallest(one: _Shrinking, units: list[Unit | LaneSettings], fault: str) -> list[Unit | LaneSettings]:
    """Leave parts out, larger ones first, as long as the same rule is broken (ddmin)."""
    parts = 2
    while len(units) > 1 and one.replays < MAX_REPLAYS:
        size = max(1, len(units) // parts)
        for first in range(0, len(units), size):
            rest = units[:first] + units[first + size:]
            if any(isinstance(unit, Unit) for unit in rest) and one.replay(rest)[0] == fault:
                units, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(len(units), parts * 2)
    return units
