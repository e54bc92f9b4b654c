"""The choice of model, address and key (B-1): the prompt's, the config's, or the one whose key is set."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.agents.builtin.choice import NO_KEY, PROVIDERS, ModelUnavailable, choose, why_not
from interlock.ports.agent import AgentSpec, Secrets

pytestmark = pytest.mark.req("B-1")
ALL = {"ANTHROPIC_API_KEY": "ka", "OPENAI_API_KEY": "ko", "GEMINI_API_KEY": "kg"}
OWN = {"model": "local/llama", "base_url": "http://127.0.0.1:1"}


def spec(**fields: Any) -> AgentSpec:
    return AgentSpec(adapter="builtin", **fields)


@pytest.mark.parametrize(("fields", "wanted", "name", "key"), [
    ({}, None, f"anthropic/{PROVIDERS['anthropic'].default}", "ka"), ({"model": "openai/x"}, None, "openai/x", "ko"),
    ({"model": "openai/x"}, "y", "openai/y", "ko"), ({"model": "openai/x"}, "anthropic/z", "anthropic/z", "ka"),
    ({"model": "gemini/x"}, None, "google/x", "kg"), ({"model": "openai-chat/x"}, None, "openai/x", "ko"), (OWN, None,
    "local/llama",
                                                                                                   NO_KEY),
    (OWN, "other", "local/other", NO_KEY), ({**OWN, "api_key_env": "OPENAI_API_KEY"}, None, "local/llama", "ko"),
    ({"model": "a/b/c", "base_url": "http://x"}, None, "a/b/c", NO_KEY),
])
def test_a_model_is_chosen_with_its_key(fields: dict[str, Any], wanted: str | None, name: str, key: str) -> None:
    found = choose(spec(**fields), ALL, wanted)
    assert (found.name, found.key) == (name, key)


def test_a_custom_server_and_other_providers_never_share_key_or_address() -> None:
    assert choose(spec(**OWN, api_key_env="LOCAL"), {**ALL, "LOCAL": "kl"}).key == "kl"
    there = choose(spec(**OWN, api_key_env="LOCAL"), {**ALL, "LOCAL": "kl"}, "anthropic/z")
    assert (there.base_url, there.key) == ("", "ka")


@pytest.mark.parametrize(("prefix", "api"), [
    ("openai", ""), ("openai-chat", "chat"), ("openai-responses", "responses")])
def test_either_of_openais_two_apis_can_be_chosen(prefix: str, api: str) -> None:
    assert choose(spec(model=f"{prefix}/x"), ALL).api == api


@pytest.mark.parametrize(("fields", "keys", "wanted", "sentence"), [
    ({}, {}, None, "No model is named and no API key was found"), ({}, {}, "llama", "names no provider"),
    ({"model": "openai/x"}, {}, None, "no API key for openai: set OPENAI_API_KEY"), ({"model": "/x"}, ALL, None,
    "no provider"),
    ({"model": "openai/"}, ALL, None, "no provider"), ({"model": "mistral/x"}, ALL, None,
    "'mistral' is not known; known: anth"),
    ({"model": "google/x"}, {}, None, "GEMINI_API_KEY or GOOGLE_API_KEY"), (OWN, ALL, "mistral/x",
    "'mistral' is not known"),
    ({"model": "openai/x"}, {"OPENAI_API_KEY": ""}, None, "no API key"),
    ({"model": "openai/x", "api_key_env": "MINE"}, ALL, None, "no API key for openai: set MINE"),
])
def test_an_unusable_model_gives_one_sentence(
        fields: dict[str, Any], keys: dict[str, str], wanted: str | None, sentence: str
                                              ) -> None:
    with pytest.raises(ModelUnavailable, match=sentence):
        choose(spec(**fields), keys, wanted)


def test_the_reason_continues_a_sentence() -> None:
    assert why_not(spec(), ALL) is None
    reason = why_not(spec(), {}) or ""
    assert reason.startswith("no model is named")
    assert not reason.endswith(".")


@pytest.mark.req("K-4")
def test_a_key_is_never_printed() -> None:
    found = choose(spec(**OWN, api_key_env="OPENAI_API_KEY"), {"OPENAI_API_KEY": "sesame"})
    assert "sesame" not in f"{found!r} {found}"
    assert "local/llama at http://127.0.0.1:1" in repr(found)


def test_the_chosen_model_and_key_are_used() -> None:
    both = Secrets({"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"})
    plain = AgentSpec(adapter="builtin")
    assert choose(plain, both).key == "a"
    assert choose(plain, both, "openai/gpt-5")[:4] == ("openai", "gpt-5", "", "o")
    assert choose(plain, both, "claude-opus-5-5").name == "anthropic/claude-opus-5-5"
    own = AgentSpec(adapter="builtin", model="local/m", base_url="http://127.0.0.1:1/v1")
    assert choose(own, both)[:4] == ("local", "m", "http://127.0.0.1:1/v1", "none")
    assert choose(own, both, "anthropic/x").base_url == ""
    for spec, wanted in ((own, "other/m"), (AgentSpec(adapter="builtin", model="openai/m", api_key_env="NONE"), None)):
        with pytest.raises(ModelUnavailable):
            choose(spec, both, wanted)
    assert "secret" not in f"{Secrets({'K': 'secret'})} {choose(plain, Secrets({'OPENAI_API_KEY': 'secret'}))}"
