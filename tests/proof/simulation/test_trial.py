"""The simulated cluster in a size that the ordinary suite can bear: what holds, and that it would be noticed if not."""

from __future__ import annotations

import pytest

from proof.simulation.cascade import SIZE, cascade
from proof.simulation.costs import Readers
from proof.simulation.trial import trial
from proof.simulation.world import FAILURES, Size

SMALL = Size(runners=30, sessions=200, viewers=20, gateways=3, steps=50)
pytestmark = pytest.mark.req("C-4", "S-1", "S-3", "M-1", "P-2", "U-1", "K-1")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_invariants_of_a_cluster_hold_through_every_failure(seed: int) -> None:
    broken, counted = trial(seed, SMALL)
    assert broken == [], f"repeat with: python -m proof simulation --seed {seed}, and the counts of {SMALL}"
    assert counted["acknowledged"] > 10
    assert counted["turns"] > 10
    assert counted["given to viewers"] > 100


def test_a_run_with_failures_is_reproduced_by_its_seed() -> None:
    few = SMALL._replace(runners=8, sessions=16, viewers=5, steps=20)
    first, again = trial(7, few), trial(7, few)
    assert first == again
    assert sum(first[1][name] for name in FAILURES) > 5


def test_a_ledger_that_does_not_check_epochs_is_detected() -> None:
    seed, size = 12, SMALL._replace(failures=4.0)
    assert trial(seed, size)[1]["fenced"] > 0, "with this seed no write is stale, so nothing could be noticed"
    broken, counted = trial(seed, size, checks_epochs=False)
    assert counted["stands"] > 0
    assert any("stale epoch" in sentence for sentence in broken)
    assert any("stale epoch" not in sentence for sentence in broken), "it is seen by its effects too"


def test_the_other_gateways_survive_the_death_of_one_on_a_slow_network() -> None:
    """With renewals on the connection that takes lanes, and one lane after another, seed 1 had 26 false deaths."""
    found = cascade(1, SIZE._replace(rtt=10.0))
    assert found.falsely_dead == 0
    assert found.served_s < 5.0
    assert found.broken == []


MANY_REQUESTS = SIZE._replace(rtt=10.0, looks=1_500)


def test_a_takeover_does_not_wait_for_requests_of_users() -> None:
    found = cascade(1, MANY_REQUESTS._replace(readers=Readers(any=1, lanes=1)))
    assert found.served_s < 5.0
    assert found.falsely_dead == 0
    assert found.broken == []


@pytest.mark.long
def test_a_takeover_that_reads_among_all_requests_is_detected() -> None:
    """1,500 requests at two gateways with one connection each are 7.5 s of reading at 10 ms."""
    assert cascade(1, MANY_REQUESTS._replace(readers=Readers(any=1, lanes=0))).served_s > 7.0


@pytest.mark.long
def test_the_former_takeover_is_detected_by_its_cascade() -> None:
    size = SIZE._replace(rtt=10.0)
    found = cascade(1, size, earlier=True)
    assert found.falsely_dead > 5
    assert found.served_s > 30.0
