"""Choose the model of a builtin agent, its server and its key (B-1). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from interlock.ports.agent import AgentSpec


class ModelApi(NamedTuple):
    """One kind of API: the variables that may hold its key, and its default model."""

    keys: tuple[str, ...]
    default: str


PROVIDERS: dict[str, ModelApi] = {
    "anthropic": ModelApi(("ANTHROPIC_API_KEY",), "claude-sonnet-5-5"),
    "openai": ModelApi(("OPENAI_API_KEY",), "gpt-5.6-terra"),
    "google": ModelApi(("GEMINI_API_KEY", "GOOGLE_API_KEY"), "gemini-3.8-flash"),
}
"""In the order of preference if the config names no model: the first provider with a key."""
ALIASES = {"gemini": "google", "openai-responses": "openai", "openai-chat": "openai"}
KEY_NAMES = tuple(name for provider in PROVIDERS.values() for name in provider.keys)
NO_KEY = "none"
"""Key for a self-hosted server that requires none."""


class ModelUnavailable(Exception):
    """No model is available; the text is one sentence for the user."""


class ModelChoice(NamedTuple):
    """A model to use. `key` is a secret: it is never printed."""

    provider: str
    """anthropic, openai or google; any other name is an OpenAI-compatible server at `base_url`."""
    model: str
    base_url: str
    key: str
    api: str = ""
    """`chat` or `responses` if one of OpenAI's two APIs was chosen by name."""

    @property
    def name(self) -> str:
        """Return `provider/model`, as a person types it."""
        return f"{self.provider}/{self.model}"

    def __repr__(self) -> str:
        return f"Choice({self.name}{f' at {self.base_url}' if self.base_url else ''})"


def choose(spec: AgentSpec, keys: Mapping[str, str], wanted: str | None = None) -> ModelChoice:
    """Return the model that a prompt requests, else the configured one, else the default of the provider with a key. A
    name without a provider belongs to the configured one. Raises ModelUnavailable."""
    configured = spec.model or _default(keys)
    named = wanted or configured
    if not named:
        raise ModelUnavailable(f"No model is named and no API key was found; set one of {', '.join(KEY_NAMES)} where "
                               f"the "
                               "runner is started, or `model` and `api_key_env` in the agent's section of the config.")
    if "/" not in named:
        named = f"{configured.partition('/')[0]}/{named}" if "/" in configured else named
    prefix, slash, model = named.partition("/")
    if not slash or not prefix or not model:
        raise ModelUnavailable(f"The model {named!r} names no provider; write it as provider/model, such as "
                               f"anthropic/{PROVIDERS['anthropic'].default}.")
    provider = ALIASES.get(prefix, prefix)
    base_url = spec.base_url if not wanted or _same(provider, spec.model) else ""
    if provider not in PROVIDERS and not base_url:
        raise ModelUnavailable(f"The provider {prefix!r} is not known; known: {', '.join(PROVIDERS)}. Any "
                               f"OpenAI-compatible "
                               "server is reached with `base_url` in the agent's section of the config.")
    api = prefix.partition("-")[2] if prefix.startswith("openai-") else ""
    return ModelChoice(provider, model, base_url, _key(spec, keys, provider, base_url), api)


def why_not(spec: AgentSpec, keys: Mapping[str, str]) -> str | None:
    """Return why no model is available, as a part of a sentence; None if one is."""
    try:
        choose(spec, keys)
    except ModelUnavailable as error:
        sentence = str(error)
        return sentence[0].lower() + sentence[1:].rstrip(".")
    return None


def _default(keys: Mapping[str, str]) -> str:
    found = (f"{name}/{provider.default}" for name, provider in PROVIDERS.items()
             if any(key in keys for key in provider.keys))
    return next(found, "")


def _same(provider: str, configured: str) -> bool:
    prefix = configured.partition("/")[0]
    return ALIASES.get(prefix, prefix) == provider


def _key(spec: AgentSpec, keys: Mapping[str, str], provider: str, base_url: str) -> str:
    own = spec.api_key_env if not spec.model or _same(provider, spec.model) else ""
    names = (own,) if own else PROVIDERS[provider].keys if provider in PROVIDERS else ()
    key = next((keys[name] for name in names if keys.get(name)), "")
    if key:
        return key
    if base_url and not own:
        return NO_KEY
    where = " or ".join(names) or "api_key_env"
    raise ModelUnavailable(f"There is no API key for {provider}: set {where} where the runner is started, or in the "
                           f"agent's "
                           "`env`.")
