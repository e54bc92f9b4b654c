"""Failures of a request to a model (B-1): one sentence, without the key, and whether a retry may help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from interlock.agents.builtin.choice import NO_KEY, ModelChoice
from interlock.protocol.codes import Code
from lazily import lazily

errors, failures = lazily("pydantic_ai.exceptions"), lazily("interlock.agents.builtin.failures")

pytestmark = pytest.mark.req("B-1")
KEY = "sk-" + "s" * 40
CHOICE = ModelChoice("openai", "m", "", KEY)


def model_error(kind: Any, message: str = "It is so", **more: Any) -> Exception:
    return kind("m", "around it", body={"error": {"message": message}}, **more)


def refused(message: str = "It is so", **more: Any) -> Exception:
    return errors.ModelHTTPError(400, "m", {"error": {"message": message}}, **more)


@pytest.mark.parametrize(("error", "passing", "sentence"), [
    (lambda: model_error(errors.ModelRateLimitError), True, "openai/m is asked too often: It is so."),
    (lambda: model_error(errors.ModelServerError), True, "openai/m failed: It is so."),
    (lambda: model_error(errors.ModelUnavailableError), True, "openai/m failed: It is so."),
    (lambda: model_error(errors.ModelAuthenticationError), False,
     "openai/m refused the API key: It is so. Set the right one where the runner is started."),
    (lambda: model_error(errors.ModelNotFoundError), False, "openai/m is not known to openai: It is so."),
    (lambda: model_error(errors.ModelQuotaExceededError), False, "openai/m has no quota left: It is so."),
    (refused, False, "openai/m refused the request (400): It is so."),
    (lambda: errors.ModelConnectionError("m", "refused"), True, "openai/m cannot be reached at openai: "),
    (lambda: errors.ModelRequestTimeout("m", 5), True, "openai/m did not answer in time."),
    (lambda: TimeoutError(), False, "openai/m stopped in the middle of its answer."),
    (lambda: failures.Unfinished("no end"), True, "broke off its answer"),
    (lambda: errors.UserError("wrong"), False, "openai/m could not be asked: wrong."),
    (lambda: KeyError("x"), False, "openai/m broke off its answer"),
])
def test_a_failure_is_one_sentence_and_states_whether_to_retry(
        error: Callable[[], Exception], passing: bool, sentence: str) -> None:
    found = failures.failure_of(error(), CHOICE)
    assert sentence in found.sentence
    assert (found.passing, found.code) == (passing, Code.UPSTREAM_ERROR)


@pytest.mark.req("Z-1")
def test_a_context_that_is_too_long_has_its_own_code() -> None:
    found = failures.failure_of(model_error(errors.ModelContextWindowExceededError), CHOICE)
    assert (found.code, found.passing) == (Code.CONTEXT_OVERFLOW, False)


def test_a_retry_after_header_is_read() -> None:
    assert failures.failure_of(model_error(errors.ModelServerError, retry_after=7), CHOICE)[2:] == (True, 7)


@pytest.mark.parametrize("kept", [None, 20, len(KEY)])
@pytest.mark.req("K-4")
def test_no_part_of_the_key_is_in_the_sentence_at_any_cut(kept: int | None) -> None:
    limit = failures.MAX_REASON_CHARS
    before = 0 if kept is None else limit - kept
    found = failures.failure_of(model_error(errors.ModelAuthenticationError, "x" * before + KEY + " is wrong"), CHOICE)
    assert "sk-s" not in found.sentence
    assert len(found.sentence) < limit + 200


def test_the_placeholder_for_a_missing_key_is_not_redacted() -> None:
    found = failures.failure_of(refused("none of it"), CHOICE._replace(key=NO_KEY))
    assert "none of it." in found.sentence


@pytest.mark.parametrize(("body", "model_error"), [
    ({"message": "short"}, "short."), ({"error": {"message": "a\n  b"}}, "a b."), ({"error": "x", "message": "y!"},
    "y!"),
])
def test_the_providers_message_is_found_in_its_body(body: Any, model_error: str) -> None:
    assert failures.failure_of(errors.ModelHTTPError(400, "m", body), CHOICE).sentence.endswith(model_error)
