"""The proof of what is shown, in a size that the ordinary suite can bear: python -m proof shown."""

from __future__ import annotations

import pytest

from proof.policy.approval_display import PARTS, attack, long_one, out_of_action, subjects, typed

EVERY = 7
"""One hostile request in so many is tried here."""
FEW = 3 * EVERY
"""One in so many is enough to notice a part that is out of action."""


@pytest.mark.req("P-2", "H-4")
def test_no_grant_is_possible_without_the_full_display() -> None:
    requests = subjects()
    assert len(requests) >= 200
    assert not any(attack(requests[::EVERY]).values())


@pytest.mark.req("H-4", "Y-2")
@pytest.mark.parametrize("width", [40, 200])
def test_in_a_real_terminal_a_grant_counts_only_after_the_full_display(width: int) -> None:
    assert typed([*subjects()[::60], long_one()], width) == []


@pytest.mark.parametrize("part", PARTS)
def test_the_proof_detects_a_disabled_part(part: str) -> None:
    with out_of_action(part):
        assert any(attack(subjects()[::FEW]).values())
