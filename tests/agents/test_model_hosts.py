"""The address of an agent's model, from its config and environment (H-19)."""

from __future__ import annotations

import pytest

from interlock.agents.model_hosts import ModelHostUnknown, model_endpoints
from interlock.ports.agent import AgentSpec

pytestmark = pytest.mark.req("H-19")


def hosts(environment: dict[str, str], *command: str, **fields: str) -> list[str]:
    spec = AgentSpec(adapter="acp", command=command[0] if command else "x", args=list(command[1:]), **fields)
    return [str(one) for one in model_endpoints(spec, environment)]


def test_a_configured_api_host_replaces_the_providers_hosts() -> None:
    moved = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "http://127.0.0.1:4000"}
    assert hosts(moved, "claude-agent-acp") == ["127.0.0.1:4000"]
    assert hosts({"OPENAI_HOST": "http://127.0.0.1:4000"}, "goose", "acp") == ["127.0.0.1:4000"]
    assert hosts(moved, base_url="https://llm.example") == ["llm.example:443"], "the config comes first"


def test_a_key_names_its_provider() -> None:
    assert hosts({"OPENAI_API_KEY": "k"}, "opencode", "acp") == ["api.openai.com:443"]
    assert hosts({"ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k"}) == [
        "api.anthropic.com:443", "generativelanguage.googleapis.com:443"]


def test_a_program_with_its_own_login_is_known_by_its_name() -> None:
    assert hosts({}, "/opt/bin/claude-agent-acp") == ["api.anthropic.com:443"]
    assert "chatgpt.com:443" in hosts({}, "npx", "codex-acp")


def test_an_agent_without_a_known_model_host_is_refused() -> None:
    with pytest.raises(ModelHostUnknown, match="the address of its model is unknown"):
        hosts({}, "unknown")
    with pytest.raises(ModelHostUnknown, match=r"ANTHROPIC_BASE_URL: .* is not an http"):
        hosts({"ANTHROPIC_BASE_URL": "ftp://x"})
