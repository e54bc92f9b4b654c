"""Create pydantic-ai models from a choice, and their settings for a prompt (B-1)."""

from __future__ import annotations

from typing import Any, cast, get_args

import httpx2
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings, ThinkingEffort, ThinkingLevel

from interlock.agents.builtin.choice import ModelChoice, ModelUnavailable
from interlock.protocol.extras import install

OFF = frozenset({"off", "none", "false"})
ON = frozenset({"on", "true"})
EFFORTS: tuple[str, ...] = get_args(ThinkingEffort)
OPTIONS = {"thinking": "thinking", "thinkingLevel": "thinking", "reasoning": "reasoning", "reasoningLevel": "reasoning"}
"""Accepted names of a prompt's options; a reasoning level sets the thinking, unless a thinking option overrides it."""

READ_GRACE_S = 5.0


def make_model(choice: ModelChoice, http: httpx2.AsyncClient) -> Model:
    """Create a model that uses `http`, which the caller closes. Only the API that it needs is imported. Raises
    ModelUnavailable if that is not installed."""
    base_url = choice.base_url.rstrip("/") or None
    try:
        match choice.provider:
            case "anthropic":
                from pydantic_ai.models.anthropic import AnthropicModel
                from pydantic_ai.providers.anthropic import AnthropicProvider

                return AnthropicModel(choice.model, provider=AnthropicProvider(
                    api_key=choice.key, base_url=base_url, http_client=http))
            case "google":
                from pydantic_ai.models.google import GoogleModel
                from pydantic_ai.providers.google import GoogleProvider

                return GoogleModel(choice.model, provider=GoogleProvider(
                    api_key=choice.key, base_url=base_url, http_client=http))
            case _:
                from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
                from pydantic_ai.providers.openai import OpenAIProvider

                provider = OpenAIProvider(api_key=choice.key, base_url=base_url, http_client=http)
                # Other servers support the older of OpenAI's two APIs; its own newest models need the newer one.
                chat = choice.api == "chat" or (choice.api != "responses" and base_url is not None)
                return (OpenAIChatModel if chat else OpenAIResponsesModel)(choice.model, provider=provider)
    except ImportError as error:
        raise ModelUnavailable(f"What {choice.provider} needs is not installed ({error.name}); run: "
                               f"{install('agent')}.") from None


def window_of(model: Model, configured: int) -> int | None:
    """Return the model's context window in tokens: as configured, else from the catalog (Z-1)."""
    return configured or model.context_window


def thinking_of(options: dict[str, Any]) -> ThinkingLevel | None:
    """Return the thinking level of a prompt's options; None if they have none. Raises ValueError with one sentence."""
    levels: dict[str, ThinkingLevel] = {}
    for name, value in options.items():
        kind = OPTIONS.get(name)
        if kind is None:
            raise ValueError(f"This agent does not know the option {name!r}; known: {', '.join(OPTIONS)}.")
        level = str(value).lower()
        if level in OFF or level in ON:
            levels[kind] = level in ON
        elif level in EFFORTS:
            levels[kind] = cast("ThinkingEffort", level)
        else:
            known = ", ".join(("off", *EFFORTS))
            raise ValueError(f"This agent cannot set {name} to {str(value)[:40]!r}; known: {known}.")
    thinking: ThinkingLevel | None = levels.get("thinking")
    return thinking if thinking is not None else levels.get("reasoning")


def read_timeout_s(first_event_s: float, idle_s: float) -> float:
    """Return the HTTP client's own timeout. An answer is read ahead of its reader, whose limits are shorter and report
    the reason."""
    return max(first_event_s, idle_s) + READ_GRACE_S


def settings_of(thinking: ThinkingLevel | None, max_tokens: int | None, first_event_s: float, idle_s: float
                ) -> ModelSettings:
    """Return a request's settings: the library must not retry, so that retries are reported."""
    settings = ModelSettings(max_retries=0, cache=True, first_event_timeout=first_event_s,
                             timeout=read_timeout_s(first_event_s, idle_s))
    if max_tokens is not None:
        settings["max_tokens"] = max_tokens
    if thinking is not None:
        settings["thinking"] = thinking
    return settings
