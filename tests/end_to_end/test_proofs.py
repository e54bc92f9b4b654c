"""The full reliability proofs, in a size that the ordinary suite can bear."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from proof.agents.held_tool_call import hold_once, met
from proof.recovery.disk_full import refuse
from proof.recovery.graceful_stop import GONE_S, stop_and_resume
from proof.recovery.soak import Look, held, wrong
from proof.sessions.cancel_race import races
from proof.sessions.fan_out import fan_out
from proof.sessions.link_faults import Storm as Chaotic
from proof.sessions.stream_resume import resume
from proof.sessions.timers import timers
from proof.workload.clients import Pace

from agents.third_party import ThirdParty

pytestmark = pytest.mark.long

FULL_DISKS = 1
STREAMS = 20
RESUMED_EVENTS = 30
CROWD = 60
HOLD_S = 2.0
CHAOTIC_TURNS = 40
RACES = 60
TIMERS = 30


@pytest.mark.req("D-1", "C-4", "U-1", "X-3", "N-3")
def test_a_full_disk_refuses_and_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R14 --rounds {FULL_DISKS} --seed {seed}")
    seen = refuse(tmp_path, seed, FULL_DISKS, Pace(writers=4, sessions=2, rest_s=0.3))

    print(seen.table())
    assert seen.passed
    assert seen.answered[503] > 0


@pytest.mark.req("S-1", "S-3", "G-3")
def test_streams_that_were_open_at_a_sigterm_go_on_where_they_were(tmp_path: Path) -> None:
    seen = stop_and_resume(tmp_path, STREAMS, sessions=2)

    assert seen.wrong == []
    assert seen.ended == STREAMS
    assert seen.gone_s < GONE_S


def test_growth_is_found_and_what_only_comes_and_goes_is_not() -> None:
    steady = [Look(at_s, 100_000_000 + at_s % 7 * 1_000_000, 40 + at_s % 5) for at_s in range(600)]
    assert wrong("gateway", held(steady)) == []
    growing = [Look(at_s, rss + at_s * 25_000, descriptors + at_s // 10) for at_s, rss, descriptors in steady]
    assert held(growing).mb_a_minute == pytest.approx(1.5, abs=0.1)
    assert len(wrong("gateway", held(growing))) == 2
    cold = [look._replace(rss_bytes=look.rss_bytes - 50_000_000) if look.at_s < 60 else look for look in steady]
    assert wrong("gateway", held(cold)) == []


@pytest.mark.req("S-1", "S-2", "S-4")
def test_a_stream_cut_at_every_position_is_resumed_in_four_ways_to_read_it(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R10 --rounds {RESUMED_EVENTS} --seed {seed}")
    seen = resume(tmp_path, seed, RESUMED_EVENTS)

    assert seen.wrong == []
    assert set(seen.cuts.values()) == {RESUMED_EVENTS + 1}


@pytest.mark.req("S-3", "S-4")
def test_a_crowd_of_viewers_is_shown_all_that_is_said(tmp_path: Path) -> None:
    seen = fan_out(tmp_path, viewers=CROWD, frozen=0, a_second=50, measured_s=1.0)

    assert seen.alone.count > seen.said / 2


@pytest.mark.req("A-5", "P-6", "A-7")
@pytest.mark.parametrize("decision", ["grant", "deny"])
def test_a_real_agent_is_held_at_a_tool_call(goose: ThirdParty, decision: str) -> None:
    seen = hold_once(goose.command, HOLD_S, decision)

    assert met(seen, decision), seen


@pytest.mark.req("D-1", "D-2", "D-3", "D-4", "E-3", "L-2", "L-5")
def test_a_bad_network_costs_no_frame_that_is_not_counted(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R12 --rounds {CHAOTIC_TURNS} --seed {seed}")
    seen = Chaotic(tmp_path, seed).run(CHAOTIC_TURNS)

    assert seen.wrong == []
    assert seen.lost == seen.told_lost
    assert seen.applied > CHAOTIC_TURNS
    assert seen.states.total() == CHAOTIC_TURNS
    assert seen.mischief["links"] > 0


@pytest.mark.req("C-0", "C-1", "U-1")
@pytest.mark.anyio
async def test_cancel_completion_and_timeout_at_once_end_a_command_once() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R8 --rounds {RACES} --seed {seed}")
    seen = await races(RACES, seed)
    assert seen.wrong == []
    assert seen.states.total() == RACES


@pytest.mark.req("C-1", "C-4")
@pytest.mark.anyio
async def test_timers_ring_in_time_whatever_the_clock_and_the_gateway_do(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R9 --rounds {TIMERS} --seed {seed}")
    seen = await timers(tmp_path, TIMERS, seed)
    assert (seen.early, seen.missing, seen.restarts, seen.jumps) == (0, 0, 2, 4)
