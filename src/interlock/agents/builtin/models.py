"""Models as pydantic-ai drives them, made from a choice; and how one is set for a prompt (B-1)."""

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
"""What a prompt's options may be called; a reasoning level is what the model thinks with, unless thinking says more."""

READ_GRACE_S = 5.0


def make_model(choice: ModelChoice, http: httpx2.AsyncClient) -> Model:
    """A model to ask, over `http`, which anyone who made it closes. Only the API that it needs is loaded. Raises
    NoModel where that is not installed."""
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
                # Other servers speak the older of OpenAI's two APIs; its own newest models want the newer one.
                chat = choice.api == "chat" or (choice.api != "responses" and base_url is not None)
                return (OpenAIChatModel if chat else OpenAIResponsesModel)(choice.model, provider=provider)
    except ImportError as error:
        raise ModelUnavailable(f"What {choice.provider} needs is not installed ({error.name}); run: "
                               f"{install('agent')}.") from None


def window_of(model: Model, configured: int) -> int | None:
    """The model's context window in tokens: as configured, else as the catalog has it (Z-1)."""
    return configured or model.context_window


def thinking_of(options: dict[str, Any]) -> ThinkingLevel | None:
    """How much a prompt's options want thought; None where they say nothing. Raises ValueError with one sentence."""
    said: dict[str, ThinkingLevel] = {}
    for name, value in options.items():
        kind = OPTIONS.get(name)
        if kind is None:
            raise ValueError(f"This agent does not know the option {name!r}; known: {', '.join(OPTIONS)}.")
        level = str(value).lower()
        if level in OFF or level in ON:
            said[kind] = level in ON
        elif level in EFFORTS:
            said[kind] = cast("ThinkingEffort", level)
        else:
            known = ", ".join(("off", *EFFORTS))
            raise ValueError(f"This agent cannot set {name} to {str(value)[:40]!r}; known: {known}.")
    thinking: ThinkingLevel | None = said.get("thinking")
    return thinking if thinking is not None else said.get("reasoning")


def read_timeout_s(first_event_s: float, idle_s: float) -> float:
    """The HTTP client's own limit of a silence. An answer is read ahead of its reader, whose limits end it first and
    say why."""
    return max(first_event_s, idle_s) + READ_GRACE_S


def settings_of(thinking: ThinkingLevel | None, max_tokens: int | None, first_event_s: float, idle_s: float
                ) -> ModelSettings:
    """How a request is made: retries are ours alone, so that they are said."""
    settings = ModelSettings(max_retries=0, cache=True, first_event_timeout=first_event_s,
                             timeout=read_timeout_s(first_event_s, idle_s))
    if max_tokens is not None:
        settings["max_tokens"] = max_tokens
    if thinking is not None:
        settings["thinking"] = thinking
    return settings
