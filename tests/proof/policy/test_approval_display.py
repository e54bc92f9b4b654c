"""The proof of what is shown, in a size that the ordinary suite can bear: python -m proof shown."""

from __future__ import annotations

import pytest

from proof.policy.approval_display import PARTS, attack, long_one, out_of_action, subjects, typed

EVERY = 7
"""One hostile request in so many is tried here."""
FEW = 3 * EVERY
"""One in so many is enough to notice a part that is out of action."""


@pytest.mark.req("P-2", "H-4")
def test_no_yes_is_possible_on_what_was_not_shown() -> None:
    requests = subjects()
    assert len(requests) >= 200
    assert not any(attack(requests[::EVERY]).values())


@pytest.mark.req("H-4", "Y-2")
@pytest.mark.parametrize("width", [40, 200])
def test_in_a_real_terminal_a_yes_counts_only_once_all_was_shown(width: int) -> None:
    assert typed([*subjects()[::60], long_one()], width) == []


@pytest.mark.parametrize("part", PARTS)
def test_the_proof_notices_a_part_that_is_out_of_action(part: str) -> None:
    with out_of_action(part):
        assert any(attack(subjects()[::FEW]).values())
