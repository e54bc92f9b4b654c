"""A failure of the simulation as a short log: recorded, shrunk, saved, and replayed from its file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from weakref import WeakKeyDictionary

import msgspec

from interlock.engine.bridge.kernel import Decide, decide
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.replay.input_log import (
    BadLog,
    LaneDecision,
    LaneFault,
    LaneSettings,
    LaneStart,
    read_log,
    write_log,
)
from interlock.engine.bridge.replay.input_recorder import InputRecorder, LaneLog
from interlock.engine.bridge.replay.input_replay import LaneReplay
from proof.simulation.input_shrink import Shrunk, shrink
from proof.simulation.lane_breaks import BREAKS
from proof.simulation.lane_rules import LaneRules, shown
from proof.simulation.trial import trial
from proof.simulation.world import Size

SHRUNK_AT_MOST = 3
"""This many lanes that break a rule are shrunk, and the shortest log is kept."""


class Recording:
    """Records every lane of a simulation and holds each decision against the rules."""

    def __init__(self, decide: Decide = decide) -> None:
        self.recorder = InputRecorder(decide, self._look, with_digests=False)
        self.faulty: list[LaneLog] = []
        """Logs of lanes that broke a rule, in the order in which they did."""
        self._rules: WeakKeyDictionary[LaneLog, LaneRules] = WeakKeyDictionary()

    def _look(self, log: LaneLog, lane: Lane) -> None:
        rules = self._rules.get(log)
        if rules is None:
            start = log.lines[0]
            assert isinstance(start, LaneStart), "a log begins with how its lane began"
            rules = self._rules[log] = LaneRules(start)
        if rules.fault is not None:
            return
        rules.look(lane, log.decisions[-1].inputs, log.decisions[-1].failed)
        if rules.fault is not None:
            self.faulty.append(log)

    def shrunk(self, decide: Decide = decide) -> Shrunk | None:
        """Return the shortest log of those that break a rule when they are replayed; None if none does."""
        found = [one for log in self.faulty[:SHRUNK_AT_MOST] if (one := shrink(log.lines, decide)) is not None]
        return min(found, key=lambda one: one.inputs, default=None)


def recorded(seed: int, size: Size, decide: Decide = decide) -> tuple[list[str], Recording]:
    """Run a simulation once more, with every lane recorded: it is the same by its seed."""
    recording = Recording(decide)
    broken, _ = trial(seed, size, decide=recording.recorder.decide)
    return broken, recording


def report(seed: int, size: Size, broken: str = "") -> Shrunk | None:
    """Record a failure, shrink it, save and print it."""
    engine = BREAKS.get(broken, decide)
    _, recording = recorded(seed, size, engine)
    found = recording.shrunk(engine)
    if found is None:
        print(f"  no single lane breaks a rule when it is replayed ({len(recording.faulty)} of "
              f"{len(recording.recorder.logs)} broke one in the run): the failure lies between lanes")
        return None
    path = save(found, Path(tempfile.mkdtemp(prefix="interlock-simulation-")) / f"{seed}.jsonl", broken)
    print(f"  {found.fault}: shrunk from {found.before} inputs to {found.inputs}, by {found.replays} replays")
    _print(found)
    print(f"  replay it: python -m proof simulation --replay {path}")
    return found


def save(found: Shrunk, path: Path, broken: str = "") -> Path:
    """Write a shrunk log, with what it breaks, and how the engine was broken on purpose, if it was."""
    path.write_bytes(write_log([msgspec.structs.replace(line, broken=broken) if isinstance(line, LaneFault) else line
                                for line in found.lines]))
    return path


def _print(found: Shrunk) -> None:
    for number, line in enumerate((one for one in found.lines if isinstance(one, LaneDecision)), 1):
        for given in line.inputs:
            print(f"  {number:>3}  {shown(given)}")


def replay_file(path: Path, broken: str = "") -> bool:
    """Replay a saved log, on the engine as it is or as it is broken on purpose; returns whether every rule holds."""
    try:
        lines = read_log(path.read_bytes())
    except (OSError, BadLog) as error:
        print(f"FAILED: {path} cannot be replayed: {error}")
        return False
    start = lines[0]
    assert isinstance(start, LaneStart), "a log that was read begins with how its lane began"
    named = next((line for line in lines if isinstance(line, LaneFault)), None)
    if named is not None:
        how = f", of an engine that was broken on purpose (--break {named.broken})" if named.broken else ""
        print(f"  recorded{how}: {named.sentence}")
    again, rules, number = LaneReplay(start, BREAKS.get(broken, decide)), LaneRules(start), 0
    for line in lines:
        if isinstance(line, LaneSettings):
            again.settle(line)
        elif isinstance(line, LaneDecision):
            failed = ""
            try:
                again.decide(line)
            except Exception as error:  # noqa: BLE001  # Every exception in the lane is its fault.
                failed = repr(error)
            for given in line.inputs:
                number += 1
                print(f"  {number:>3}  {shown(given)}")
            rules.look(again.lane, line.inputs, failed)
            if rules.fault is not None:
                print(f"FAILED: {rules.fault}: {rules.about}")
                return False
    print(f"  every rule holds of {number} inputs")
    return True
