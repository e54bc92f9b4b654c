"""The proof of policy, in a size that the ordinary suite can bear: python -m proof policy."""

from __future__ import annotations

import pytest
from proof.policy import PARTS, attack, every_rule, of_presets, out_of_action
from proof.policy_hostile import ORDINARY, hostile_commands, hostile_inputs

EVERY = 12
"""One hostile command in so many is tried here."""


def test_the_proof_is_as_large_as_it_says() -> None:
    assert len(hostile_commands()) >= 400
    assert len(hostile_inputs()) >= 150
    assert len(ORDINARY) >= 100


@pytest.mark.req("P-1", "A-9", "H-7", "Y-4")
def test_nothing_hostile_passes_a_rule_and_the_ordinary_passes_the_presets() -> None:
    found = attack(hostile_commands()[::EVERY], every_rule())

    print(found.table())
    assert found.passed_hostile == []
    assert found.passed


@pytest.mark.parametrize("part", PARTS)
def test_the_proof_notices_a_part_that_is_out_of_action(part: str) -> None:
    with out_of_action(part):
        found = attack(hostile_commands()[::EVERY], list(of_presets())[:2])
    assert found.passed_hostile
    assert not found.passed, "it prints FAILED and ends with 1"
