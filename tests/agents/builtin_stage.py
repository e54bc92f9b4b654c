"""The builtin agent on a stage: configured against the tests' model server, in each API that it supports."""

from __future__ import annotations

from typing import Any

from interlock.model_stand_in import ModelServer
from interlock.ports.agent import AgentSpec

FORMS = {"anthropic": "anthropic/claude-sonnet-5-5", "chat": "openai-chat/gpt-5", "responses": "openai-responses/gpt-5",
         "gemini": "google/gemini-3.8-flash"}
KEY = "secret-key-of-the-test"


def builtin(server: ModelServer, form: str = "anthropic", **fields: Any) -> AgentSpec:
    """An agent that asks the model server."""
    base_url = server.url if form in ("anthropic", "gemini") else f"{server.url}/v1"
    wanted: dict[str, Any] = {"model": FORMS[form], "base_url": base_url, "api_key_env": "OWN_KEY",
                              "env": {"OWN_KEY": KEY}, **fields}
    return AgentSpec(adapter="builtin", **wanted)
