"""Credentials that an agent gets from the runner's environment: those that its table names (Y-12)."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.agents.credentials import not_passed_on, not_set
from interlock.ports.agent import AgentSpec

HERE = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "GEMINI_API_KEY": "", "GITHUB_TOKEN": "k", "PATH": "/bin"}


def spec(command: str, adapter: str = "acp", **more: Any) -> AgentSpec:
    return AgentSpec(adapter=adapter, command=command, **more)


@pytest.mark.parametrize(("agent", "left"), [
    (spec("/usr/bin/claude-agent-acp"), ["ANTHROPIC_API_KEY"]),
    (spec("", "claude"), ["ANTHROPIC_API_KEY"]),
    (spec("codex-acp"), ["OPENAI_API_KEY"]),
    (spec("goose"), ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"]),
    (spec("goose", env_pass=["OPENAI_API_KEY"]), ["ANTHROPIC_API_KEY"]),
    (spec("goose", env={"ANTHROPIC_API_KEY": "mine"}), ["OPENAI_API_KEY"]),
    (spec("gemini"), []),
    (spec("/bin/sh", "exec"), []),
])
def test_a_set_credential_that_is_not_passed_is_named_for_programs_that_could_use_it(
    agent: AgentSpec, left: list[str]
) -> None:
    assert not_passed_on(agent, HERE) == left


def test_a_credential_to_pass_that_is_not_set_is_named() -> None:
    assert not_set(spec("goose", env_pass=["OPENAI_API_KEY", "GEMINI_API_KEY", "XAI_API_KEY"]), HERE) == [
        "GEMINI_API_KEY", "XAI_API_KEY"]


@pytest.mark.parametrize(("name", "sentence"), [
    ("GOOSE_MODE", "in `env`"), ("LD_PRELOAD", "in `env`"), ("PATH", "in `env`"),
    ("GOOSE_DISABLE_KEYRING", "in `env`"), ("MAX_TOKENS", "in `env`"), ("TOKEN_LIMIT", "in `env`"),
    ("INTERLOCK_KEY", "not the name"),
    ("RAWP_TOKEN", "not the name"), ("A KEY", "not the name"), ("", "not the name"), ("K=KEY", "not the name"),
    ("KEY" * 50, "not the name")])
def test_only_credentials_may_be_passed_on(name: str, sentence: str) -> None:
    # Another variable could end an agent's asking, and no check would have seen it.
    with pytest.raises(ValueError, match=sentence):
        spec("goose", env_pass=[name])


def test_a_credential_is_configured_in_one_place() -> None:
    with pytest.raises(ValueError, match="leave one of the two out"):
        spec("goose", env={"OPENAI_API_KEY": "k"}, env_pass=["OPENAI_API_KEY"])


@pytest.mark.parametrize("name", [
    "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "AWS_ACCESS_KEY_ID", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS", "OPENAI_APIKEY", "PASSWORD", "MISTRAL_API_KEY_2"])
def test_the_usual_names_of_credentials_are_known(name: str) -> None:
    assert spec("goose", env_pass=[name]).env_pass == [name]
