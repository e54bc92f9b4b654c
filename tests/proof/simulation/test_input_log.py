"""A failure of the simulation becomes a short log of one lane's inputs, which can be replayed from its file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from interlock.engine.bridge.replay.input_log import LaneDecision, read_log, write_log
from proof.simulation import LANE_BREAKS, SHRUNK_BELOW
from proof.simulation.input_log import Recording, recorded, replay_file, save
from proof.simulation.lane_breaks import BREAKS
from proof.simulation.world import Size

SIZE = Size(runners=12, sessions=40, viewers=10, gateways=3, steps=40)
SEED = 3
TAKEN_OVER = (62, 64)
"""In these a gateway compares a session with its runner that another one has had meanwhile: its decision is refused."""
DEAD_TWICE = (77, 148)
"""In these a runner that is down is to die once more."""
pytestmark = pytest.mark.req("C-4", "E-1", "P-2")


@cache
def whole(seed: int) -> tuple[list[str], Recording]:
    """A run of a whole engine."""
    return recorded(seed, SIZE)


@pytest.mark.parametrize("seed", [SEED, *TAKEN_OVER, *DEAD_TWICE])
def test_no_lane_of_an_intact_engine_breaks_a_rule(seed: int) -> None:
    broken, recording = whole(seed)
    assert (broken, recording.faulty) == ([], [])
    assert sum(len(log.decisions) for log in recording.recorder.logs) > 250


def test_a_run_is_reproduced_by_its_seed() -> None:
    first, second = whole(SEED)[1].recorder.logs, recorded(SEED, SIZE)[1].recorder.logs
    assert [write_log(log.lines) for log in first] == [write_log(log.lines) for log in second]


@pytest.mark.parametrize("name", sorted(BREAKS))
def test_a_deliberately_broken_engine_shrinks_to_a_few_inputs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = BREAKS[name]
    broken, recording = recorded(SEED, SIZE, engine)
    assert broken, "the whole world notices it too"
    found = recording.shrunk(engine)
    assert found is not None
    assert found.inputs < min(SHRUNK_BELOW, found.before)
    path = save(found, tmp_path / "failure.jsonl", name)
    decisions = [line for line in read_log(path.read_bytes()) if isinstance(line, LaneDecision)]
    assert sum(len(line.inputs) for line in decisions) == found.inputs
    assert not replay_file(path, name)
    assert f"--break {name}): {found.fault}" in capsys.readouterr().out
    assert replay_file(path), "the engine as it is does not fail there"
    assert set(BREAKS) == set(LANE_BREAKS)


def test_a_file_that_is_not_a_log_is_refused_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text('{"line": "LaneFault", "sentence": "alone"}\n')
    assert not replay_file(path)
    assert not replay_file(tmp_path / "absent.jsonl")
    printed = capsys.readouterr().out
    assert "line 1 does not say how the lane began" in printed
    assert "No such file" in printed
