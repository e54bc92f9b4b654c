"""What survives killed processes and power cuts, in a size that the ordinary suite can bear (R2 to R4, R15)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from proof.processes.stack import Stack
from proof.recovery.acp_client_kills import kill_in_turns
from proof.recovery.failpoint_kills import fail_everywhere
from proof.recovery.kills_under_load import quick as kill_many
from proof.recovery.orphaned_agents import orphans
from proof.recovery.power_cut import cut_power
from proof.recovery.random_kills import RandomKills
from proof.workload.clients import Pace

pytestmark = pytest.mark.long

KILLS = 1
WRITERS = 2
EDITOR_KILLS = 3
MANY_KILLS = 3
POWER_CUTS = 3
FAILPOINTS = 2
FORKERS = 5


@pytest.mark.on_cluster
@pytest.mark.req("D-6", "D-7", "C-4", "D-1", "S-3", "A-4", "U-2")
def test_kill_9_of_either_side_loses_nothing(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof kill --rounds {KILLS} --seed {seed}")
    stack = Stack(tmp_path)
    try:
        findings = RandomKills(stack, seed, WRITERS).run(KILLS)
    finally:
        stack.down()

    print(findings.table())
    assert (findings.lost, findings.doubled, findings.unseen_text, findings.orphans) == ([], [], [], 0)
    assert findings.audit_ok, findings.audit
    assert findings.commands > 0
    assert findings.kills == {"gateway": KILLS, "runner": KILLS}
    assert findings.in_turn * 3 >= 2 * KILLS


@pytest.mark.req("D-1", "D-6", "D-7", "C-4", "U-2", "X-3", "S-3")
def test_kills_under_writers_voters_and_viewers_lose_and_double_nothing_acknowledged(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R2 --rounds {MANY_KILLS} --seed {seed}")
    seen = kill_many(tmp_path, seed, MANY_KILLS)

    print(seen.table())
    assert seen.outcomes.passed
    assert seen.kills.total() == MANY_KILLS
    assert seen.outcomes.votes > 0
    assert seen.outcomes.frames > 0
    assert seen.outcomes.files > 0


@pytest.mark.req("D-1", "D-6", "D-7", "C-4", "U-2", "X-3", "X-4", "E-5")
def test_a_power_cut_loses_only_unsynced_data_and_nothing_acknowledged(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R3 --rounds {POWER_CUTS} --seed {seed}")
    seen = cut_power(tmp_path, seed, POWER_CUTS, Pace(writers=4, sessions=2, rest_s=0.3))

    print(seen.outcomes.table())
    assert seen.outcomes.passed
    assert seen.cuts >= POWER_CUTS
    assert seen.outcomes.entries > 0


@pytest.mark.req("D-1", "D-7", "C-4", "U-2", "A-4", "A-5", "X-3")
def test_the_invariants_hold_at_every_death_beside_a_commit_acknowledgement_or_release(
    tmp_path: Path,
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R4 --rounds 1 --seed {seed}")
    seen = fail_everywhere(tmp_path, seed, 1, few=FAILPOINTS)

    print(seen.outcomes.table())
    assert seen.passed
    assert seen.deaths.total() == 2 * FAILPOINTS


@pytest.mark.on_cluster
@pytest.mark.req("A-4")
def test_no_process_remains_of_forking_agents_when_their_runner_is_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof R15 --rounds {FORKERS} --seed {seed}")
    seen = orphans(tmp_path, seed, FORKERS)

    assert seen.left == []
    assert seen.kills == 1


@pytest.mark.on_cluster
@pytest.mark.req("O-3", "O-6")
def test_each_prompt_of_an_editor_ends_once_and_completely_through_gateway_kills(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof acp --rounds {EDITOR_KILLS} --seed {seed}")
    found = kill_in_turns(tmp_path, seed, EDITOR_KILLS)
    print(found.table())
    assert found.passed
    assert found.prompts == EDITOR_KILLS
