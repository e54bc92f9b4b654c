"""How each known agent is configured to use the model stand-in, and which of its settings files are copied."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import NamedTuple

MODEL = "fake-model"
NOT_A_KEY = "not-a-key"


def _fixed(**arguments: str) -> Callable[[str], Mapping[str, str]]:
    """Return a function that returns these values for every URL."""
    return lambda url: arguments


def _json_file(name: str, content: object) -> Callable[[str], Mapping[str, str]]:
    return lambda url: {name: json.dumps(content)}


class Pointing(NamedTuple):
    """The settings that make an agent use the stand-in at a URL, and the place of its own settings below HOME."""

    env: Callable[[str], Mapping[str, str]]
    files: Callable[[str], Mapping[str, str]] = _fixed()
    """Files below HOME; each is merged into the user's own file of that name."""
    args: tuple[str, ...] = ()
    """Appended to the configured ones."""
    settings: tuple[str, ...] = ()
    """The user's files, below HOME, that decide what the agent asks about; never one with a login."""
    prompts: tuple[str, ...] = ("/yolo", "/mode auto")
    """Prompts that might disable the agent's asking. One that an agent does not know goes to its model."""


def _standard(url: str) -> Mapping[str, str]:
    """Return the variables that the providers' own libraries read."""
    return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_BASE": f"{url}/v1", "OPENAI_HOST": url, "OPENAI_MODEL": MODEL,
            "ANTHROPIC_BASE_URL": url, "GOOGLE_GEMINI_BASE_URL": url, "OPENAI_API_KEY": NOT_A_KEY,
            "ANTHROPIC_API_KEY": NOT_A_KEY, "GEMINI_API_KEY": NOT_A_KEY}


def _claude(url: str) -> Mapping[str, str]:
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": NOT_A_KEY, "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "ENABLE_TOOL_SEARCH": "false"}


def _goose(url: str) -> Mapping[str, str]:
    return {"GOOSE_PROVIDER": "openai", "GOOSE_MODEL": MODEL, "GOOSE_DISABLE_KEYRING": "1",
            "GOOSE_TELEMETRY_ENABLED": "false", "OPENAI_API_KEY": NOT_A_KEY, "OPENAI_HOST": url}


def _open_code(variable: str) -> Callable[[str], Mapping[str, str]]:
    def env(url: str) -> Mapping[str, str]:
        model = {"name": MODEL, "tool_call": True, "limit": {"context": 200_000, "output": 8_000},
                 "cost": {"input": 3, "output": 15}}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "fake", "models": {MODEL: model},
                    "options": {"baseURL": f"{url}/v1", "apiKey": NOT_A_KEY}}
        config = {"model": f"fake/{MODEL}", "small_model": f"fake/{MODEL}", "provider": {"fake": provider}}
        return {f"{variable}_CONFIG_CONTENT": json.dumps(config), f"{variable}_DISABLE_MODELS_FETCH": "1",
                f"{variable}_DISABLE_AUTOUPDATE": "1", f"{variable}_DISABLE_LSP_DOWNLOAD": "1"}
    return env


def _codex(url: str) -> Mapping[str, str]:
    return {".codex/config.toml": (
        f'model = "{MODEL}"\nmodel_provider = "fake"\n[model_providers.fake]\nname = "fake"\n'
        f'base_url = "{url}/v1"\nenv_key = "FAKE_API_KEY"\nwire_api = "responses"\nsupports_websockets = false\n')}


def _copilot(url: str) -> Mapping[str, str]:
    return {"COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_PROVIDER_TYPE": "openai", "COPILOT_MODEL": MODEL,
            "COPILOT_PROVIDER_API_KEY": NOT_A_KEY, "COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false"}


def _vibe(url: str) -> Mapping[str, str]:
    return {".vibe/config.toml": (
        'active_model = "fake"\nenable_telemetry = false\nenable_update_checks = false\n'
        f'[[providers]]\nname = "fakeprov"\napi_base = "{url}/v1"\napi_key_env_var = "FAKE_API_KEY"\n'
        'api_style = "openai"\nbackend = "generic"\n'
        f'[[models]]\nname = "{MODEL}"\nprovider = "fakeprov"\nalias = "fake"\n')}


def _hermes(url: str) -> Mapping[str, str]:
    return {".hermes/config.yaml": (
        f"model:\n  provider: custom\n  default: {MODEL}\n  base_url: {url}/v1\n  api_key: {NOT_A_KEY}\n")}


def _kimi(url: str) -> Mapping[str, str]:
    return {".kimi-code/config.toml": (
        'default_model = "fake"\n[providers.fake]\ntype = "openai"\n'
        f'base_url = "{url}/v1"\napi_key = "{NOT_A_KEY}"\n'
        f'[models.fake]\nprovider = "fake"\nmodel = "{MODEL}"\nmax_context_size = 128000\n')}


def _pi(url: str) -> Mapping[str, str]:
    model = {"id": MODEL, "name": MODEL, "reasoning": False, "input": ["text"], "contextWindow": 128_000,
             "maxTokens": 8_000, "cost": {"input": 3, "output": 15, "cacheRead": 0, "cacheWrite": 0}}
    provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": NOT_A_KEY, "models": [model]}
    return {".pi/agent/models.json": json.dumps({"providers": {"fake": provider}}),
            ".pi/agent/settings.json": json.dumps({"defaultProvider": "fake", "defaultModel": MODEL})}


def _gemini(url: str) -> Mapping[str, str]:
    return {"GEMINI_API_KEY": NOT_A_KEY, "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_NO_RELAUNCH": "true"}


def _qwen(url: str) -> Mapping[str, str]:
    return {"OPENAI_API_KEY": NOT_A_KEY, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": MODEL}


STANDARD = Pointing(_standard)
"""For an unknown program: it may read the variables of the providers' own libraries."""
CLAUDE = Pointing(_claude, settings=(".claude/settings.json",), prompts=("/permissions allow Bash",))
POINTINGS: Mapping[str, Pointing] = {
    "claude": CLAUDE,
    "claude-agent-acp": CLAUDE,
    "codex": Pointing(_fixed(FAKE_API_KEY=NOT_A_KEY), _codex, settings=(".codex/config.toml",)),
    "codex-acp": Pointing(_fixed(FAKE_API_KEY=NOT_A_KEY), _codex, settings=(".codex/config.toml",)),
    "copilot": Pointing(_copilot, settings=(".copilot/config.json",), prompts=("/yolo", "/allow-all on")),
    "gemini": Pointing(
        _gemini, _json_file(".gemini/settings.json", {"security": {"auth": {"selectedType": "gemini-api-key"}}}),
        ("--model", "gemini-2.5-pro"), (".gemini/settings.json",)),
    "goose": Pointing(_goose, settings=(".config/goose/config.yaml",), prompts=("/mode auto",)),
    "hermes-acp": Pointing(_fixed(), _hermes, settings=(".hermes/config.yaml",), prompts=("/yolo",)),
    "kilo": Pointing(_open_code("KILO"), settings=(".config/kilo/kilo.json", ".config/kilo/opencode.json")),
    "kimi": Pointing(_fixed(), _kimi, settings=(".kimi-code/config.toml",), prompts=("/yolo",)),
    "opencode": Pointing(_open_code("OPENCODE"), settings=(".config/opencode/opencode.json",
                                                           ".config/opencode/opencode.jsonc")),
    "pi-acp": Pointing(_fixed(PI_OFFLINE="1", PI_SKIP_VERSION_CHECK="1"), _pi,
                       settings=(".pi/agent/settings.json",)),
    "qwen": Pointing(
        _qwen, _json_file(".qwen/settings.json", {"security": {"auth": {"selectedType": "openai"}},
                                                  "model": {"name": MODEL}}),
        settings=(".qwen/settings.json",), prompts=("/approval-mode yolo",)),
    "vibe-acp": Pointing(_fixed(FAKE_API_KEY=NOT_A_KEY), _vibe, settings=(".vibe/config.toml",)),
}
"""By the name of the agent's program."""


_ACCOUNT = "It needs {} account, so it cannot be pointed at the model stand-in."
NOT_POINTED: Mapping[str, str] = {
    "auggie": _ACCOUNT.format("an Augment"), "cline": _ACCOUNT.format("a Cline"),
    "droid": _ACCOUNT.format("a Factory"),
}
"""Known programs that cannot be checked, and why, in one sentence."""


def why_not_pointed(command: str) -> str:
    """Return why an agent's program cannot be checked; "" if it can."""
    return NOT_POINTED.get(PurePath(command).name, "")


def is_known(command: str) -> bool:
    """Return whether the table has a program's settings for the stand-in, so that it may be started unattended."""
    return PurePath(command).name in POINTINGS


def pointing_of(adapter: str, command: str) -> Pointing:
    """Return the table's line for an agent; `STANDARD` for an unknown program."""
    if adapter == "claude":
        return CLAUDE
    return POINTINGS.get(PurePath(command).name, STANDARD)
