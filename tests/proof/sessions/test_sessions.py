"""Streams, links, cancels and timers of sessions under pressure, in a size that the suite can bear (R8 to R12)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from proof.sessions.cancel_race import races
from proof.sessions.fan_out import fan_out
from proof.sessions.link_faults import LinkFaults
from proof.sessions.stream_resume import resume
from proof.sessions.timers import timers

pytestmark = pytest.mark.long

RESUMED_EVENTS = 30
CROWD = 60
CHAOTIC_TURNS = 40
RACES = 60
TIMERS = 30


@pytest.mark.on_cluster
@pytest.mark.req("S-1", "S-2", "S-4")
def test_a_stream_cut_at_every_position_is_resumed_by_all_four_readers(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R10 --rounds {RESUMED_EVENTS} --seed {seed}")
    seen = resume(tmp_path, seed, RESUMED_EVENTS)

    assert seen.wrong == []
    assert set(seen.cuts.values()) == {RESUMED_EVENTS + 1}


@pytest.mark.on_cluster
@pytest.mark.req("S-3", "S-4")
def test_many_viewers_receive_every_event(tmp_path: Path) -> None:
    seen = fan_out(tmp_path, viewers=CROWD, frozen=0, a_second=50, measured_s=1.0)

    assert seen.alone.things > seen.sent / 2


@pytest.mark.on_cluster
@pytest.mark.req("D-1", "D-2", "D-3", "D-4", "E-3", "L-2", "L-5")
def test_a_bad_network_loses_no_frame_uncounted(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R12 --rounds {CHAOTIC_TURNS} --seed {seed}")
    seen = LinkFaults(tmp_path, seed).run(CHAOTIC_TURNS)

    assert seen.wrong == []
    assert seen.lost == seen.reported_lost
    assert seen.applied > CHAOTIC_TURNS
    assert seen.states.total() == CHAOTIC_TURNS
    assert seen.mischief["links"] > 0


@pytest.mark.req("C-0", "C-1", "U-1")
@pytest.mark.anyio
async def test_simultaneous_cancel_completion_and_timeout_end_a_command_once() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R8 --rounds {RACES} --seed {seed}")
    seen = await races(RACES, seed)
    assert seen.wrong == []
    assert seen.states.total() == RACES


@pytest.mark.req("C-1", "C-4")
@pytest.mark.anyio
async def test_timers_fire_in_time_despite_clock_jumps_and_restarts(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R9 --rounds {TIMERS} --seed {seed}")
    seen = await timers(tmp_path, TIMERS, seed)
    assert (seen.early, seen.missing, seen.restarts, seen.jumps) == (0, 0, 2, 4)
