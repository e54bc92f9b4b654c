"""The table of error codes (F-1): each has a status, a title, and a sentence with the remedy."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from interlock.protocol.problems import PROBLEMS, Place, Problem, full_sentence, malformed

pytestmark = pytest.mark.req("F-1")
SOURCE = Path(__file__).parents[2] / "src" / "interlock"


@pytest.mark.parametrize("code", PROBLEMS)
def test_each_code_has_its_status_and_its_remedy(code: str) -> None:
    kind = PROBLEMS[code]
    assert code.isalpha()
    assert code[0].isupper()
    assert 400 <= kind.status < 600
    assert not kind.title.endswith(".")
    assert kind.hint.endswith(".")


def test_a_problem_is_retryable_if_only_time_is_missing() -> None:
    assert {code for code, kind in PROBLEMS.items() if kind.retryable} == {
        "RateLimited", "QuotaExceeded", "Timeout", "IdempotencyKeyInUse", "InternalError", "UpstreamError",
        "Unavailable", "RequestTimeout"}
    assert all(kind.retryable for kind in PROBLEMS.values() if kind.status >= 500)


def test_a_problem_has_its_codes_hint_unless_it_has_one_of_its_own() -> None:
    plain = Problem("NotFound", "There is no session s.")
    assert (str(plain), plain.hint) == ("NotFound: There is no session s.", PROBLEMS["NotFound"].hint)
    assert (plain.kind.status, plain.errors, plain.headers, plain.approval_id) == (404, (), {}, None)
    assert Problem("NotFound", "No.", hint="Do that.").hint == "Do that."


def test_an_unknown_code_is_a_programming_error() -> None:
    with pytest.raises(KeyError):
        Problem("Oops", "no such code")


def test_a_wrong_place_is_in_the_sentence_and_in_the_list() -> None:
    problem = malformed("/target/agent_id", "is missing", hint="Name an agent.")
    assert problem.detail == "/target/agent_id: is missing."
    assert problem.errors == (Place("/target/agent_id", "is missing"),)
    assert (problem.code, problem.hint) == ("InvalidPayload", "Name an agent.")


@pytest.mark.parametrize(("text", "sentence"), [
    ("It is so", "It is so."), ("It is so.", "It is so."), ("Really?", "Really?"), ("Stop!", "Stop!"),
    (" a\n", "a."), ("", ""), ("   ", ""), ("an ellipsis…", "an ellipsis….")])
def test_a_detail_ends_like_a_sentence(text: str, sentence: str) -> None:
    assert full_sentence(text) == sentence


def test_what_a_problem_states_is_a_whole_sentence() -> None:
    """A hint follows it, at the terminal as in a chat; a detail of another program may end as it likes."""
    assert Problem("Conflict", "The session is archived").detail == "The session is archived."


def test_every_problem_in_the_source_begins_as_a_sentence() -> None:
    """A placeholder, a field in backticks and a JSON pointer have letters of their own."""
    small = [f"{path.name}:{call.lineno}: {first}" for path in SOURCE.rglob("*.py")
             for call in ast.walk(ast.parse(path.read_text("utf-8")))
             if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Problem"
             for first in _beginnings(call) if first[:1].islower()]
    assert small == []


def _beginnings(call: ast.Call) -> list[str]:
    """The literal beginning of a problem's detail: of both, if there is a choice."""
    detail = call.args[1]
    choices = [detail.body, detail.orelse] if isinstance(detail, ast.IfExp) else [detail]
    firsts = [one.values[0] if isinstance(one, ast.JoinedStr) else one for one in choices]
    return [str(first.value) for first in firsts if isinstance(first, ast.Constant)]
