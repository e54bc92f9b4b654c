"""The context windows of models (Z-1)."""

from __future__ import annotations

import pytest

from interlock.session.context.windows import CATALOG, LEAST_WINDOW, UNKNOWN_WINDOW, window_of

pytestmark = [pytest.mark.req("Z-1")]


def test_the_longest_matching_name_is_used() -> None:
    assert window_of("openai/gpt-4.1-mini") == 1_047_576
    assert window_of("gpt-4") == 8_192
    assert window_of("anthropic/Claude-Sonnet-4-5") == 200_000


def test_the_config_overrides_the_agent_and_the_agent_the_catalog() -> None:
    assert window_of("openai/gpt-4o", reported=64_000) == 64_000
    assert window_of("openai/gpt-4o", {"gpt-4o": 32_000}, reported=64_000) == 32_000
    assert window_of("openai/gpt-4o", {"openai/GPT-4o": 16_000, "gpt-4o": 32_000}) == 16_000


@pytest.mark.parametrize("reported", [None, 0, -1, LEAST_WINDOW - 1, 10**12])
def test_an_unknown_model_has_a_default_window(reported: int | None) -> None:
    assert window_of("acme/mystery-9", reported=reported) == UNKNOWN_WINDOW
    assert window_of("", reported=reported) == UNKNOWN_WINDOW
    assert all(window >= LEAST_WINDOW for _, window in CATALOG)
