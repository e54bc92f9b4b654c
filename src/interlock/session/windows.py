"""How much a model reads at once: by the config, by what its agent reports, else by its family (Z-1)."""

from __future__ import annotations

from collections.abc import Mapping

UNKNOWN_WINDOW = 128_000
"""Tokens, for a model that no one knows: what most have at least. A smaller one shows itself by an overflow."""
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
"""Beginning of a model's name → its window in tokens, as their makers publish it; the longest that fits counts."""


def window_of(model: str, overrides: Mapping[str, int] | None = None, reported: int | None = None) -> int:
    """The context window of a model, in tokens. `overrides` are the config's, by `provider/model` or by the model's
    name alone; `reported` is what the agent says. The config counts before the agent, and both before the catalog."""
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
