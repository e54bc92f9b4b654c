"""The tokens of a turn, wherever an agent reports them."""

from __future__ import annotations

from typing import Any

import pytest

from agents.scripted_acp import Recorder, opened, play, prompted, update

pytestmark = pytest.mark.anyio


def hello(name: str) -> dict[str, Any]:
    return {"result": {"protocolVersion": 1, "agentInfo": {"name": name, "version": "1"}}}


def result(**fields: Any) -> dict[str, Any]:
    return {"result": {"stopReason": "end_turn", **fields}}


def took(sent: int, received: int) -> dict[str, Any]:
    """An empty chunk with the figures of one request, as qwen sends it."""
    usage = {"inputTokens": sent, "outputTokens": received, "totalTokens": sent + received, "thoughtTokens": 0}
    return update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": ""},
                  _meta={"usage": usage, "durationMs": 885})


@pytest.mark.req("T-2")
async def test_gemini_reports_its_tokens_in_the_quota_of_its_result() -> None:
    count = {"input_tokens": 100, "output_tokens": 20}
    _, _, outcome = await play([result(_meta={"quota": {"token_count": count, "model_usage": []}})])
    assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (100, 20)


@pytest.mark.req("T-2")
async def test_the_usage_of_a_result_counts_before_its_quota() -> None:
    quota = {"token_count": {"inputTokens": 999, "outputTokens": 999, "cachedInputTokens": 7}}
    _, _, outcome = await play([result(usage={"inputTokens": 100, "outputTokens": 20, "cachedReadTokens": 5},
                                       _meta={"quota": quota})])
    assert (outcome.usage.input_tokens, outcome.usage.cache_read_tokens) == (100, 5)


@pytest.mark.req("T-2", "P-7")
async def test_qwen_reports_each_model_request_in_mid_turn() -> None:
    recorder = Recorder(allow=True)
    async with opened({"session/prompt": [took(100, 20), took(150, 5), result()]}) as (agent, *_):
        outcome = await prompted(agent, recorder)
        assert (recorder.usage_sum.input_tokens, recorder.usage_sum.output_tokens) == (250, 25)
        assert (outcome.usage.input_tokens, outcome.usage.output_tokens) == (250, 25)
        again = await prompted(agent, Recorder(allow=True))
        assert again.usage.input_tokens == 250, "a turn's figures are its own"


@pytest.mark.req("T-2", "P-7")
@pytest.mark.parametrize(("name", "second"), [
    ("Copilot", 150), ("@mistralai/mistral-vibe", 150), ("hermes-agent", 150), ("goose", 250),
])  # fmt: skip
async def test_totals_of_the_session_are_not_counted_for_the_turn(name: str, second: int) -> None:
    async with opened({"session/prompt": [result(usage={"inputTokens": 100, "outputTokens": 20})]},
                      hello=hello(name)) as (agent, process, *_):
        assert (await prompted(agent, Recorder(allow=True))).usage.input_tokens == 100
        process.script["session/prompt"] = [result(usage={"inputTokens": 250, "outputTokens": 20})]
        assert (await prompted(agent, Recorder(allow=True))).usage.input_tokens == second
        process.script["session/prompt"] = [result(usage={"inputTokens": 30, "outputTokens": 2})]
        begun_again = (await prompted(agent, Recorder(allow=True))).usage
        assert (begun_again.input_tokens, begun_again.output_tokens) == (30, 2)


@pytest.mark.req("T-2")
@pytest.mark.parametrize("fields", [
    {"usage": None}, {"usage": []}, {"usage": {"inputTokens": -5}}, {"usage": {"inputTokens": True}},
    {"_meta": {"quota": 7}}, {"_meta": {"quota": {"token_count": {"input_tokens": "100"}}}},
])  # fmt: skip
async def test_impossible_figures_are_none(fields: dict[str, Any]) -> None:
    _, _, outcome = await play([took(0, 0), result(**fields)])
    assert (outcome.stop_reason, outcome.usage.input_tokens) == ("end_turn", 0)
