"""A model's context window: by the config, by its agent's report, otherwise by its family (Z-1)."""

from __future__ import annotations

from collections.abc import Mapping

UNKNOWN_WINDOW = 128_000
"""Tokens, for an unknown model: the minimum of most models. A smaller window is detected by an overflow."""
LEAST_WINDOW = 1_000
MOST_WINDOW = 100_000_000
"""A window outside of these is a mistake, and passed over."""

CATALOG: tuple[tuple[str, int], ...] = (
    ("claude-opus-4", 200_000), ("claude-sonnet-4", 200_000), ("claude-haiku-4", 200_000), ("claude-", 200_000),
    ("gpt-5", 400_000), ("gpt-4.1", 1_047_576), ("gpt-4o", 128_000), ("gpt-4-turbo", 128_000), ("gpt-4", 8_192),
    ("gpt-3.5", 16_385), ("o1", 200_000), ("o3", 200_000), ("o4-mini", 200_000),
    ("gemini-1.5-pro", 2_097_152), ("gemini-", 1_048_576), ("gemma-3", 128_000),
    ("mistral-large", 128_000), ("mistral-small", 128_000), ("codestral", 256_000), ("devstral", 128_000),
    ("llama-4", 1_000_000), ("llama-3.1", 128_000), ("llama-3.2", 128_000), ("llama-3.3", 128_000), ("llama3", 8_192),
    ("qwen3-coder", 256_000), ("qwen", 128_000), ("deepseek", 128_000), ("kimi-k2", 256_000), ("glm-4", 128_000),
    ("grok-4", 256_000), ("grok", 131_072),
)  # fmt: skip
"""Prefix of a model's name → its window in tokens, as published by their makers; the longest matching prefix counts."""


def window_of(model: str, overrides: Mapping[str, int] | None = None, reported: int | None = None) -> int:
    """Return the context window of a model, in tokens. `overrides` are the config's, by `provider/model` or by the
    model's name alone; `reported` is the agent's. The config takes precedence over the agent, and both over the
    catalog."""
    named = model.strip().lower()
    bare = named.rsplit("/", 1)[-1]
    configured = {name.strip().lower(): window for name, window in (overrides or {}).items()}
    for name in (named, bare):
        if name in configured:
            return configured[name]
    if reported is not None and LEAST_WINDOW <= reported <= MOST_WINDOW:
        return reported
    known = [(len(name), window) for name, window in CATALOG if bare.startswith(name)]
    return max(known)[1] if known else UNKNOWN_WINDOW
