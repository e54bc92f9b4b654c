"""Real ACP agents that a developer has installed, set up for the tests' model server; no test needs them.

Each is looked for in the `bin` directory of INTERLOCK_TEST_LAB: a slow agent that happens to be on PATH is left alone.
It gets a home of its own with the one model that it may ask, and what `interlock agents` prints for it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interlock.cli.known_agents import KNOWN
from interlock.model_stand_in import ModelServer
from interlock.ports.agent import AgentSpec

LAB_VARIABLE = "INTERLOCK_TEST_LAB"


class Setup(NamedTuple):
    """What an agent needs beside its printed lines to ask the tests' model server."""

    env: Callable[[str], Mapping[str, str]]
    files: Callable[[str], Mapping[str, str]] = lambda _: {}
    args: tuple[str, ...] = ()


def _open_code(url: str, variable: str) -> dict[str, str]:
    model = {"name": "fake-model", "tool_call": True, "limit": {"context": 200_000, "output": 8_000},
             "cost": {"input": 3, "output": 15}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "fake", "models": {"fake-model": model},
                "options": {"baseURL": f"{url}/v1", "apiKey": "fake"}}
    config = {"model": "fake/fake-model", "small_model": "fake/fake-model", "provider": {"fake": provider}}
    return {f"{variable}_CONFIG_CONTENT": json.dumps(config), f"{variable}_DISABLE_MODELS_FETCH": "1",
            f"{variable}_DISABLE_AUTOUPDATE": "1"}


def _codex(url: str) -> dict[str, str]:
    return {".codex/config.toml": (
        'model = "fake-model"\nmodel_provider = "fake"\n[model_providers.fake]\nname = "fake"\n'
        f'base_url = "{url}/v1"\nenv_key = "FAKE_API_KEY"\nwire_api = "responses"\nsupports_websockets = false\n')}


def _pi(url: str) -> dict[str, str]:
    model = {"id": "fake-model", "name": "fake-model", "reasoning": False, "input": ["text"], "contextWindow": 128_000,
             "maxTokens": 8_000, "cost": {"input": 3, "output": 15, "cacheRead": 0, "cacheWrite": 0}}
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "fake", "models": [model]}
    return {".pi/agent/models.json": json.dumps({"providers": {"fake": provider}}),
            ".pi/agent/settings.json": json.dumps({"defaultProvider": "fake", "defaultModel": "fake-model"})}


def _kimi(url: str) -> dict[str, str]:
    return {".kimi-code/config.toml": (
        'default_model = "fake"\n[providers.fake]\ntype = "openai"\n'
        f'base_url = "{url}/v1"\napi_key = "fake"\n'
        '[models.fake]\nprovider = "fake"\nmodel = "fake-model"\nmax_context_size = 128000\n')}


SETUPS: dict[str, Setup] = {
    "claude-acp": Setup(lambda url: {
        "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "not-a-key", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1"}),
    "codex-acp": Setup(lambda _: {"FAKE_API_KEY": "not-a-key"}, _codex),
    "gemini": Setup(
        lambda url: {"GEMINI_API_KEY": "not-a-key", "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_NO_RELAUNCH": "true"},
        lambda _: {".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'},
        ("--model", "gemini-2.5-pro")),
    "kimi": Setup(lambda _: {}, _kimi),
    "opencode": Setup(lambda url: _open_code(url, "OPENCODE")),
    "pi": Setup(lambda _: {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1"}, _pi),
    "qwen": Setup(
        lambda url: {"OPENAI_API_KEY": "not-a-key", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "fake-model"},
        lambda _: {".qwen/settings.json": json.dumps(
            {"security": {"auth": {"selectedType": "openai"}}, "model": {"name": "fake-model"}})}),
}


def lab_agent(name: str, home: Path, server: ModelServer) -> AgentSpec:
    """The agent as it is configured; skips the test if its program is not there."""
    known = next(one for one in KNOWN if one.agent_id == name)
    lab = os.environ.get(LAB_VARIABLE)
    command = shutil.which(known.program, path=f"{lab}/bin") if lab else None
    if command is None:
        pytest.skip(f"the agent {name} is optional: name a directory with bin/{known.program} in {LAB_VARIABLE}")
    path = f"{lab}/bin:" + os.environ.get("PATH", os.defpath)
    setup = SETUPS[name]
    for place, text in setup.files(server.url).items():
        file = home / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    more: dict[str, Any] = {"mode": known.mode} if known.mode else {}
    return AgentSpec(
        adapter="acp", command=command, args=[*known.args, *setup.args], asks=known.asks,
        env={"HOME": str(home), "PATH": path, **setup.env(server.url), **known.env}, **more)
