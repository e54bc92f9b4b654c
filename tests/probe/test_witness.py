"""The record of one turn of a checked agent: what it asked, whether that showed the effect, and what ran before."""

from __future__ import annotations

import pytest

from interlock.ports.agent import AgentQuestion, CompactionFailed, Option
from interlock.probe import witness as bounds
from interlock.probe.witness import Witness

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-10")]
OPTIONS = [Option("yes", "Yes", "allow_once"), Option("no", "No", "reject_once")]


def question(text: bytes = b"touch there", **more: object) -> AgentQuestion:
    return AgentQuestion(None, "shell", "run it", text, OPTIONS, **more)  # type: ignore[arg-type]


async def test_the_witness_answers_as_the_step_requires_with_the_agents_option() -> None:
    yes = await Witness(True, lambda: False).ask(question())
    no = await Witness(False, lambda: False).ask(question())

    assert (yes.allow, yes.option_id) == (True, "yes")
    assert (no.allow, no.option_id) == (False, "no")


async def test_an_effect_that_exists_at_the_first_question_ran_before_it() -> None:
    happened = [False]
    before, after = Witness(False, lambda: True), Witness(False, lambda: happened[0])
    await before.ask(question())
    await after.ask(question())
    happened[0] = True
    await after.ask(question())

    assert (before.ran_before, after.ran_before) == (True, False)


async def test_a_question_that_lacks_the_effect_only_describes_it() -> None:
    shown, lacking, announced = (Witness(False, lambda: False, effect=(b"there",)) for _ in range(3))
    await shown.ask(question())
    await lacking.ask(question(b"{}"))
    await announced.ask(question(described=True))

    assert (shown.shown, lacking.shown, announced.shown) == ("input", "described", "described")


async def test_delegation_is_recorded_separately_and_granted_if_the_step_is_about_it() -> None:
    delegating, other = Witness(False, lambda: False, delegating=True), Witness(False, lambda: False)
    task = question(b"[[tool:shell]]")

    assert (await delegating.ask(task)).allow
    assert not (await other.ask(task)).allow
    assert (delegating.delegated, delegating.questions, other.delegated, other.questions) == (True, 0, True, 1)


async def test_a_tool_that_succeeds_without_a_question_is_recorded() -> None:
    unasked, asked, failed = (Witness(True, lambda: False) for _ in range(3))
    await asked.ask(question())
    for one, status in ((unasked, "ok"), (asked, "ok"), (failed, "error")):
        await one.tool_result("i", status, "text", "")  # type: ignore[arg-type]

    assert (unasked.finished, asked.finished, failed.finished) == (True, False, False)


async def test_past_the_limit_every_request_is_denied_and_text_questions_never_answered(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MAX_QUESTIONS", 1)
    one = Witness(True, lambda: False)
    assert (await one.ask(question())).allow
    assert not (await one.ask(question())).allow
    assert not (await one.ask(question(interaction_type="QUESTION"))).allow
    with pytest.raises(CompactionFailed):
        await one.overflow("too long")
