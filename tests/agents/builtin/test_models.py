"""Models as they are driven, and how one is set for a prompt (B-1)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from interlock.agents.builtin.choice import ModelChoice
from lazily import lazily

models = lazily("interlock.agents.builtin.models")

pytestmark = pytest.mark.req("B-1")


@pytest.fixture
async def http(anyio_backend: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=60, verify=False) as client:  # Nothing is sent.
        yield client


@pytest.mark.anyio
@pytest.mark.parametrize(("choice", "kind"), [
    (ModelChoice("openai", "m", "", "k"), "OpenAIResponsesModel"),
    (ModelChoice("openai", "m", "", "k", "chat"), "OpenAIChatModel"),
    (ModelChoice("local", "m", "http://127.0.0.1:1/", "k"), "OpenAIChatModel"),
    (ModelChoice("local", "m", "http://127.0.0.1:1", "k", "responses"), "OpenAIResponsesModel"),
])
async def test_another_server_uses_the_older_openai_api(
        http: httpx2.AsyncClient, choice: ModelChoice, kind: str) -> None:
    model = models.make_model(choice, http)
    assert (type(model).__name__, model.model_name) == (kind, "m")


@pytest.mark.anyio
async def test_the_context_window_is_the_configured_or_the_catalogs_value(http: httpx2.AsyncClient) -> None:
    model = models.make_model(ModelChoice("openai", "no-such-model", "", "k"), http)
    assert models.window_of(model, 5_000) == 5_000
    assert models.window_of(model, 0) == model.context_window


@pytest.mark.parametrize(("options", "level"), [
    ({}, None), ({"thinking": "high"}, "high"), ({"thinkingLevel": "HIGH"}, "high"), ({"thinking": "off"}, False),
    ({"thinking": True}, True), ({"reasoning": "low"}, "low"), ({"reasoning": "low", "thinking": "off"}, False),
    ({"reasoningLevel": "none"}, False),
])
def test_the_thinking_setting_of_a_prompt_is_used(options: dict[str, Any], level: Any) -> None:
    assert models.thinking_of(options) == level


@pytest.mark.parametrize(("options", "sentence"), [
    ({"temperature": 1}, "does not know the option 'temperature'; known: thinking"),
    ({"thinking": "very"}, "cannot set thinking to 'very'; known: off"), ({"thinking": 7}, "to '7'"),
    ({"thinking": "x" * 500}, "x" * 40 + "'"),
])
def test_an_unknown_option_gives_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        models.thinking_of(options)
    assert len(str(caught.value)) < 200


def test_client_retries_are_off_and_unset_options_are_not_sent() -> None:
    plain = models.settings_of(None, None, 10, 5)
    assert plain.get("max_retries") == 0
    assert "max_tokens" not in plain
    assert "thinking" not in plain
    full = models.settings_of(False, 100, 10, 5)
    assert (full.get("max_tokens"), full.get("thinking")) == (100, False)


def test_the_clients_own_timeout_is_later_than_ours() -> None:
    assert models.read_timeout_s(10, 5) > 10
    assert models.read_timeout_s(5, 10) > 10
