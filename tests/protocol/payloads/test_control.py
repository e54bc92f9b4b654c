"""`control.` frames by their own tables (W-1, E-1): required fields, and the accepted values and figures."""

from __future__ import annotations

import pytest

from protocol.seed_frames import TEXTS, Seed, check_field, check_sender, fields

SEEDS: dict[str, Seed] = {
    "control.interaction.timeout": Seed("M", {"interaction_id": "i"}, {"interaction_id": TEXTS}),
    "control.mode.switch": Seed("M", {"mode": "plan"}, {"mode": TEXTS}),
}


@pytest.mark.req("W-1", "E-1")
@pytest.mark.parametrize("kind", SEEDS)
def test_each_frame_is_accepted_only_from_its_sender(kind: str) -> None:
    check_sender(kind, SEEDS[kind])


@pytest.mark.req("W-1", "E-1")
@pytest.mark.parametrize(("kind", "field"), fields(SEEDS))
def test_a_wrong_or_missing_field_is_refused_with_its_place(kind: str, field: str) -> None:
    check_field(kind, SEEDS[kind], field)
