"""`agent.` frames by their own tables (W-1, E-1): required fields, and the accepted values and figures."""

from __future__ import annotations

import pytest

from protocol.seed_frames import TEXTS, Seed, check_field, check_sender, check_words, fields, words

SEEDS: dict[str, Seed] = {
    "agent.error": Seed("C", {"severity": "fatal", "error_code": "SIGNAL_EXIT", "message": "m"},
                        {"severity": words("fatal"), "error_code": TEXTS, "message": TEXTS}),
    "agent.interaction.request": Seed("C", {
        "interaction_id": "i", "interaction_type": "PERMISSION", "title": "t", "context": {"tool_name": "shell"},
    }, {"interaction_id": TEXTS, "interaction_type": words("PERMISSION"), "context": ["x", 1, [], None],
        "context.tool_name": TEXTS}),
}
ENUMERATIONS = {
    ("agent.error", "severity"): ["fatal", "error", "warning"],
    ("agent.interaction.request", "interaction_type"): ["PERMISSION", "QUESTION"],
}


@pytest.mark.req("W-1", "E-1")
@pytest.mark.parametrize("kind", SEEDS)
def test_each_frame_is_accepted_only_from_its_sender(kind: str) -> None:
    check_sender(kind, SEEDS[kind])


@pytest.mark.req("W-1", "E-1")
@pytest.mark.parametrize(("kind", "field"), fields(SEEDS))
def test_a_wrong_or_missing_field_is_refused_with_its_place(kind: str, field: str) -> None:
    check_field(kind, SEEDS[kind], field)


@pytest.mark.req("W-1")
@pytest.mark.parametrize(("kind", "field"), ENUMERATIONS)
def test_each_value_of_an_enumeration_is_accepted(kind: str, field: str) -> None:
    check_words(kind, SEEDS[kind], field, ENUMERATIONS[kind, field])
