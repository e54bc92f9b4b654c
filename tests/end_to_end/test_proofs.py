"""The full reliability proofs, in a size that the ordinary suite can bear."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from proof.cancel_race import races
from proof.crew import Pace
from proof.disk_full import refuse
from proof.fail_everywhere import fail_everywhere
from proof.fan_out import fan_out
from proof.hold import hold_once, met
from proof.house import House
from proof.kill import Storm
from proof.kill_many import quick as kill_many
from proof.link_chaos import Storm as Chaotic
from proof.orphans import orphans
from proof.power_cut import cut_power
from proof.resume import resume
from proof.sigterm import GONE_S, stop_and_resume
from proof.soak import Look, held, wrong
from proof.timers import timers

from agents.third_party import ThirdParty

KILLS = 3
WRITERS = 2
MANY_KILLS = 3
POWER_CUTS = 3
FAILPOINTS = 2
FULL_DISKS = 1
STREAMS = 20
RESUMED_EVENTS = 30
CROWD = 60
HOLD_S = 2.0
CHAOTIC_TURNS = 40
FORKERS = 5
RACES = 60
TIMERS = 30


@pytest.mark.req("D-6", "D-7", "C-4", "D-1", "S-3", "A-4", "U-2")
def test_nothing_is_lost_by_kill_9_of_either_side(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof kill --rounds {KILLS} --seed {seed}")
    house = House(tmp_path)
    try:
        findings = Storm(house, seed, WRITERS).run(KILLS)
    finally:
        house.down()

    print(findings.table())
    assert (findings.lost, findings.doubled, findings.unseen_text, findings.orphans) == ([], [], [], 0)
    assert findings.audit_ok, findings.audit
    assert findings.commands > 0
    assert findings.kills == {"gateway": KILLS, "runner": KILLS}
    assert findings.in_turn * 3 >= 2 * KILLS


@pytest.mark.req("D-1", "D-6", "D-7", "C-4", "U-2", "X-3", "S-3")
def test_nothing_acknowledged_is_lost_or_doubled_by_kills_under_writers_voters_and_viewers(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R2 --rounds {MANY_KILLS} --seed {seed}")
    seen = kill_many(tmp_path, seed, MANY_KILLS)

    print(seen.table())
    assert seen.reckoned.passed
    assert seen.kills.total() == MANY_KILLS
    assert seen.reckoned.votes > 0
    assert seen.reckoned.frames > 0
    assert seen.reckoned.files > 0


@pytest.mark.req("D-1", "D-6", "D-7", "C-4", "U-2", "X-3", "X-4", "E-5")
def test_nothing_acknowledged_is_lost_when_power_is_cut_and_what_was_not_synced_is_gone(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R3 --rounds {POWER_CUTS} --seed {seed}")
    seen = cut_power(tmp_path, seed, POWER_CUTS, Pace(writers=4, sessions=2, rest_s=0.3))

    print(seen.reckoned.table())
    assert seen.reckoned.passed
    assert seen.cuts >= POWER_CUTS
    assert seen.reckoned.entries > 0


@pytest.mark.req("D-1", "D-7", "C-4", "U-2", "A-4", "A-5", "X-3")
def test_the_invariants_hold_wherever_a_process_dies_beside_a_commit_an_acknowledgement_or_a_release(
    tmp_path: Path,
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R4 --rounds 1 --seed {seed}")
    seen = fail_everywhere(tmp_path, seed, 1, few=FAILPOINTS)

    print(seen.reckoned.table())
    assert seen.passed
    assert seen.deaths.total() == 2 * FAILPOINTS


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


@pytest.mark.req("A-4")
def test_nothing_is_left_of_agents_that_fork_away_when_their_runner_is_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R15 --rounds {FORKERS} --seed {seed}")
    seen = orphans(tmp_path, seed, FORKERS)

    assert seen.left == []
    assert seen.kills == 1


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
