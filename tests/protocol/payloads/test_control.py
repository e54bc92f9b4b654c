"""`control.` frames by their own tables (W-1, E-1): what is required, which words and figures they accept."""

from __future__ import annotations

import pytest

from protocol.seed_frames import TEXTS, Seed, check_field, check_sender, fields

SEEDS: dict[str, Seed] = {
    "control.interaction.timeout": Seed("M", {"interaction_id": "i"}, {"interaction_id": TEXTS}),
    "control.mode.switch": Seed("M", {"mode": "plan"}, {"mode": TEXTS}),
}


@pytest.mark.req("W-1", "E-1")
@pytest.mark.parametrize("kind", SEEDS)
def test_each_is_accepted_from_its_sender_alone(kind: str) -> None:
    check_sender(kind, SEEDS[kind])


@pytest.mark.req("W-1", "E-1")
@pytest.mark.parametrize(("kind", "field"), fields(SEEDS))
def test_a_field_is_refused_by_its_place_if_it_is_wrong_or_missing(kind: str, field: str) -> None:
    check_field(kind, SEEDS[kind], field)
