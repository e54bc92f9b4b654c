"""A denial in one sentence, the same for people and agents (Y-5)."""

from __future__ import annotations

import pytest

from interlock.protocol.denial_text import MAX_REASON_CHARS, No

pytestmark = pytest.mark.req("Y-5")


@pytest.mark.parametrize(("denial", "sentence", "rule"), [
    (No("user:owner", "I still need it"), "denied by user:owner: I still need it", None),
    (No("user:owner", "  "), "denied by user:owner", None),
    (No("policy:no rm", "it deletes"), 'denied by the policy rule "no rm": it deletes', "no rm"),
    (No("policy:policy:odd"), 'denied by the policy rule "policy:odd"', "policy:odd"),
    (No("gateway", "no one answered in time"), "denied by gateway: no one answered in time", None),
])
def test_the_sentence_names_the_person_or_the_rule_and_the_reason(denial: No, sentence: str, rule: str | None) -> None:
    assert (denial.sentence(), denial.rule) == (sentence, rule)


def test_a_long_reason_is_cut() -> None:
    assert len(No("user:a", "x" * 9_000).sentence()) == len("denied by user:a: ") + MAX_REASON_CHARS
