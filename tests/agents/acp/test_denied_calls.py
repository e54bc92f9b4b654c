"""The next prompt of an ACP agent names decider and reason of a denied call; a permission has no field for it (Y-5)."""

from __future__ import annotations

from typing import Any

import pytest

from agents.scripted_acp import HELLO, Recorder, Scripted, opened, permission, prompted
from interlock.agents.acp.denied_calls import MAX_NAMED, DeniedCalls
from interlock.ports.agent import AgentPrompt

pytestmark = [pytest.mark.anyio, pytest.mark.req("Y-5", "A-9")]
OPTIONS = [("allow", "allow_once"), ("reject", "reject_once")]
STEPS: list[Any] = [
    permission(OPTIONS, toolCallId="c1", rawInput={"command": "rm -rf build"}, title="rm -rf build", kind="execute"),
    None, {"result": {"stopReason": "end_turn"}}]
WHY = "denied by user:ann: use trash"


def texts(process: Scripted) -> list[list[str]]:
    """The text blocks of each prompt that the agent got."""
    return [[block["text"] for block in message["params"]["prompt"]] for message in process.got
            if message.get("method") == "session/prompt"]


async def two_turns(second: str = "go", *, hello: dict[str, Any] = HELLO, allow: bool = False, third: str | None = None
                    ) -> list[list[str]]:
    recorder = Recorder(allow=allow)
    recorder.why = None if allow else WHY
    async with opened({"session/prompt": STEPS}, hello=hello) as acp:
        await prompted(acp.agent, recorder)
        acp.process.script["session/prompt"] = [{"result": {"stopReason": "end_turn"}}]
        for text in (second, third):
            if text is not None:
                await acp.agent.prompt(AgentPrompt("p", "t", [{"type": "text", "text": text}]), recorder)
    return texts(acp.process)


async def test_the_next_prompt_names_the_denied_call_its_decider_and_the_reason() -> None:
    first, second = await two_turns()
    assert first == ["go"]
    assert second[0] == "go"
    assert "1 of them was denied and did not run.\n- rm -rf build: denied by user:ann: use trash" in second[1]


async def test_a_denial_is_named_once() -> None:
    assert [len(blocks) for blocks in await two_turns(third="and now")] == [1, 2, 1]


async def test_a_grant_adds_nothing_to_the_prompt() -> None:
    assert await two_turns(allow=True) == [["go"], ["go"]]


async def test_a_slash_command_of_the_agent_gets_no_text_appended() -> None:
    _, second, third = await two_turns("/compact", third="go on")
    assert (second, len(third)) == (["/compact"], 2)


async def test_an_agent_that_reads_the_reason_in_meta_keeps_its_prompts() -> None:
    reads = {"result": {**HELLO["result"], "agentCapabilities": {"_meta": {"interlock": {"denied": True}}}}}
    assert await two_turns(hello=reads) == [["go"], ["go"]]


@pytest.mark.parametrize("meta", ["x", [], {"interlock": 3}, {"interlock": {"denied": "yes"}}, None])
async def test_any_other_meta_does_not_count_as_reading_the_reason(meta: Any) -> None:
    odd = {"result": {**HELLO["result"], "agentCapabilities": {"_meta": meta}}}
    assert [len(blocks) for blocks in await two_turns(hello=odd)] == [1, 2]


def test_a_prompt_names_the_last_denied_calls_and_counts_the_others() -> None:
    calls = DeniedCalls()
    for number in range(MAX_NAMED + 3):
        calls.add(f"tool\n {number} {'x' * 500}", WHY)
    [_, block] = calls.appended([{"type": "text", "text": "go"}])
    lines = block["text"].split("\n")
    assert lines[0].endswith("8 of them were denied and did not run.")
    assert lines[1] == "- and 3 more before these"
    assert (len(lines), max(map(len, lines)) < 250, lines[2].startswith("- tool 3 xxx")) == (7, True, True)
    assert calls.appended([{"type": "text", "text": "go"}]) == [{"type": "text", "text": "go"}]
