"""Find the hosts of an agent's model, from its environment and its program's name (H-19). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import NamedTuple

from interlock.box.reach import Endpoint, from_url
from interlock.ports.agent import AgentSpec


class ModelProvider(NamedTuple):
    """A provider of models: the variables that change its API's address, those of its key, and its own hosts."""

    moved_by: tuple[str, ...]
    keys: tuple[str, ...]
    hosts: tuple[str, ...]


PROVIDERS: tuple[ModelProvider, ...] = (
    ModelProvider(("ANTHROPIC_BASE_URL", "ANTHROPIC_HOST"), ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN",
             "CLAUDE_CODE_OAUTH_TOKEN"), ("api.anthropic.com",)),
    ModelProvider(("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_HOST"), ("OPENAI_API_KEY", "CODEX_API_KEY"),
                  ("api.openai.com",)),
    ModelProvider(("GOOGLE_GEMINI_BASE_URL", "GOOGLE_HOST"), ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
                  ("generativelanguage.googleapis.com",)),
    ModelProvider(("MISTRAL_BASE_URL",), ("MISTRAL_API_KEY",), ("api.mistral.ai",)),
    ModelProvider(("OPENROUTER_BASE_URL", "OPENROUTER_HOST"), ("OPENROUTER_API_KEY",), ("openrouter.ai",)),
    ModelProvider(("GROQ_BASE_URL", "GROQ_HOST"), ("GROQ_API_KEY",), ("api.groq.com",)),
    ModelProvider(("DEEPSEEK_BASE_URL",), ("DEEPSEEK_API_KEY",), ("api.deepseek.com",)),
    ModelProvider(("XAI_BASE_URL", "XAI_HOST"), ("XAI_API_KEY",), ("api.x.ai",)),
    ModelProvider(("KIMI_BASE_URL", "MOONSHOT_BASE_URL"), ("KIMI_API_KEY", "MOONSHOT_API_KEY"),
                  ("api.moonshot.ai", "api.kimi.com")),
    ModelProvider(("DASHSCOPE_BASE_URL",), ("DASHSCOPE_API_KEY",),
                  ("dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com")),
    ModelProvider(("OLLAMA_HOST", "OLLAMA_BASE_URL"), (), ()),
    ModelProvider(("COPILOT_PROVIDER_BASE_URL",), (), ()),
)
"""If a variable changes a provider's address, its own hosts are not needed, and are not allowed."""

PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "claude": ("api.anthropic.com",),
    "claude-agent-acp": ("api.anthropic.com",),
    "codex": ("api.openai.com", "chatgpt.com", "auth.openai.com"),
    "codex-acp": ("api.openai.com", "chatgpt.com", "auth.openai.com"),
    "gemini": ("generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com"),
    "qwen": ("portal.qwen.ai", "chat.qwen.ai", "dashscope.aliyuncs.com"),
    "copilot": ("api.githubcopilot.com", "api.individual.githubcopilot.com", "api.business.githubcopilot.com",
                "api.enterprise.githubcopilot.com", "api.github.com"),
    "kimi": ("api.kimi.com", "api.moonshot.ai", "auth.kimi.com"),
    "vibe-acp": ("api.mistral.ai",),
}
"""Hosts of an agent with its own login, if its environment has neither an address nor a key."""


class ModelHostUnknown(ValueError):
    """The hosts of an agent's model are unknown; the text is one clause."""


def model_endpoints(spec: AgentSpec, environment: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Return the endpoints of an agent's model: its `base_url`, else the providers for which its environment has an
    address or a key, else the hosts of its program. `environment` is the agent's whole one. Raises ModelHostUnknown."""
    if spec.base_url:
        return (_url("base_url", spec.base_url),)
    found: list[Endpoint] = []
    for provider in PROVIDERS:
        moved = [_url(name, environment[name]) for name in provider.moved_by if environment.get(name)]
        if moved:
            found += moved
        elif any(environment.get(name) for name in provider.keys):
            found += [Endpoint(host, 443) for host in provider.hosts]
    if not found and spec.adapter == "claude":
        found = [Endpoint(host, 443) for host in PROGRAMS["claude"]]
    for word in (spec.command, *spec.args):
        if not found:
            found = [Endpoint(host, 443) for host in PROGRAMS.get(PurePath(word).stem if word else "", ())]
    if not found and spec.adapter != "builtin":
        raise ModelHostUnknown("the address of its model is unknown; set `base_url`, or list the hosts in `network`")
    return tuple(dict.fromkeys(found))


def _url(name: str, url: str) -> Endpoint:
    try:
        return from_url(url)
    except ValueError as error:
        raise ModelHostUnknown(f"{name}: {error}") from None
