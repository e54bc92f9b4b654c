"""Usage of a turn (T-2, Z-1): tokens without those from the cache, and how full the context is."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.ports.agent import RequestTokens
from lazily import lazily

messages, figures_of = lazily("pydantic_ai.messages"), lazily("interlock.agents.builtin.figures")
usages = lazily("pydantic_ai.usage")

pytestmark = pytest.mark.req("T-2", "Z-1")


def answer(tokens_in: int, tokens_out: int, read: int = 0, written: int = 0, thinking: int = 0,
           model: str = "no-such-model") -> Any:
    usage = usages.RequestUsage(input_tokens=tokens_in, output_tokens=tokens_out, cache_read_tokens=read,
                                cache_write_tokens=written, details={"reasoning_tokens": thinking} if thinking else {})
    return messages.ModelResponse(parts=[messages.TextPart("x")], usage=usage, model_name=model)


def test_a_turn_adds_up_and_its_last_request_is_the_context() -> None:
    figures = figures_of.UsageSum(1_000)
    figures.took(answer(100, 10, read=60, written=30))
    usage = figures.took(answer(200, 20, read=150, thinking=5))
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (
        60, 30, 210, 30)
    assert (usage.thinking_tokens, usage.context_used, usage.context_capacity) == (5, 220, 1_000)
    assert usage.request == RequestTokens(50, 20, 150, 0)


def test_a_summary_costs_tokens_and_fills_no_context() -> None:
    figures = figures_of.UsageSum(None)
    figures.took(answer(100, 10))
    usage = figures.spent(answer(500, 50))
    assert (usage.input_tokens, usage.output_tokens, usage.context_used) == (600, 60, 110)


def test_a_model_outside_the_catalog_has_no_cost_and_a_known_one_does() -> None:
    assert figures_of.UsageSum(None).took(answer(1, 1)).cost_usd is None
    assert (figures_of.UsageSum(None).took(answer(1_000, 1_000, model="gpt-4o")).cost_usd or 0) > 0


def test_an_answer_without_usage_keeps_the_context_size() -> None:
    figures = figures_of.UsageSum(None)
    figures.took(answer(100, 10))
    assert figures.took(answer(0, 0)).context_used == 110
    assert figures_of.UsageSum(None).usage.request is None


def test_more_cached_than_read_tokens_give_no_negative_input() -> None:
    assert figures_of.UsageSum(None).took(answer(10, 1, read=50)).input_tokens == 0
