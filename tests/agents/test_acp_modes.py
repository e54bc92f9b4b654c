"""The modes of ACP agents: which a prompt may choose, and what the agent reports of it."""

from __future__ import annotations

from typing import Any

import pytest

from agents.scripted_acp import Opened, Recorder, opened, prompted, update
from interlock.ports.agent import AgentStartFailed, SettingRefused, Settings

pytestmark = pytest.mark.anyio
END = {"result": {"stopReason": "end_turn"}}
MODES: dict[str, tuple[str, list[str]]] = {
    "codex-acp": ("agent", ["read-only", "workspace-write", "agent", "agent-full-access"]),
    "vibe": ("accept-edits", ["ask", "accept-edits", "auto-approve"]),
    "hermes": ("default", ["default", "accept_edits", "dont_ask"]),
    "goose": ("auto", ["auto", "approve", "smart_approve", "chat"]),
    "claude-acp": ("auto", ["default", "acceptEdits", "plan", "auto", "bypassPermissions"]),
    "qwen": ("auto", ["plan", "default", "auto-edit", "auto", "yolo"]),
    "kilo": ("code", ["code", "ask", "debug", "orchestrator", "plan"]),
}
"""What each agent opens in, and what it lists: as the real ones answer `session/new`."""


def listed(agent: str) -> dict[str, Any]:
    current, ids = MODES[agent]
    return {"modes": {"currentModeId": current, "availableModes": [{"id": one, "name": one.title()} for one in ids]}}


def option(current: str, ids: list[str]) -> list[dict[str, Any]]:
    """The same as a config option."""
    values = [{"value": one, "name": one.title()} for one in ids]
    return [{"id": "mode", "category": "mode", "type": "select", "currentValue": current, "options": values}]


def sent(told: Opened, method: str) -> list[dict[str, Any]]:
    return [message["params"] for message in told.process.got if message.get("method") == method]


@pytest.mark.req("A-6")
@pytest.mark.parametrize(("agent", "mode"), [
    ("codex-acp", "read-only"), ("vibe", "ask"), ("hermes", "default"), ("goose", "approve"), ("goose", "chat"),
    ("claude-acp", "default"), ("claude-acp", "plan"), ("qwen", "default"), ("kilo", "ask"),
])  # fmt: skip
async def test_an_agent_is_put_into_its_asking_mode(agent: str, mode: str) -> None:
    async with opened({"session/set_mode": [{"result": {}}]}, offers=listed(agent)) as told:
        assert told.started.features.modes == MODES[agent][1]
        await told.agent.settle(Settings(mode=mode))
        already = mode == MODES[agent][0]
        assert [call["modeId"] for call in sent(told, "session/set_mode")] == ([] if already else [mode])


@pytest.mark.req("A-6", "A-9")
@pytest.mark.parametrize(("agent", "mode", "choosable"), [
    ("codex-acp", "agent-full-access", "read-only, agent."), ("codex-acp", "workspace-write", "read-only, agent."),
    ("vibe", "auto-approve", "ask, accept-edits."), ("hermes", "dont_ask", "default."),
    ("goose", "smart_approve", "auto, approve, chat."), ("kilo", "debug", "code, ask, plan."),
])  # fmt: skip
async def test_a_mode_that_could_let_tools_run_is_refused_with_those_that_can_be_chosen(
    agent: str, mode: str, choosable: str
) -> None:
    async with opened({}, offers=listed(agent)) as told:
        with pytest.raises(SettingRefused, match="could let tools run unasked") as refused:
            await told.agent.settle(Settings(mode=mode))
        assert f"these can be: {choosable}" in str(refused.value)
        assert sent(told, "session/set_mode") == []


@pytest.mark.req("A-6")
async def test_the_config_can_allow_another_mode() -> None:
    async with opened({"session/set_mode": [{"result": {}}]}, offers=listed("kilo"), modes=["debug"]) as told:
        await told.agent.settle(Settings(mode="Debug"))
        assert [call["modeId"] for call in sent(told, "session/set_mode")] == ["debug"]
        with pytest.raises(SettingRefused):
            await told.agent.settle(Settings(mode="orchestrator"))


@pytest.mark.req("A-6")
async def test_a_mode_that_the_agent_does_not_have_is_refused_with_those_that_it_has() -> None:
    async with opened({}, offers=listed("goose")) as told:
        with pytest.raises(SettingRefused) as refused:
            await told.agent.settle(Settings(mode="careful"))
        assert str(refused.value) == ("The agent has no mode 'careful'; its modes are: "
                                      "auto, approve, smart_approve, chat.")
        with pytest.raises(SettingRefused, match=r"no mode 'plan' \(plan_mode\)"):
            await told.agent.switch_mode("plan")


@pytest.mark.req("A-6")
async def test_an_agent_that_stays_in_its_mode_is_found_out() -> None:
    stays = [update(sessionUpdate="current_mode_update", currentModeId="auto"), {"result": {}}]
    async with opened({"session/set_mode": stays}, offers=listed("goose")) as told:
        with pytest.raises(SettingRefused, match="accepted the mode 'approve', but reports that it is in 'auto'"):
            await told.agent.switch_mode("approve")


@pytest.mark.req("A-6")
async def test_the_answer_to_a_config_option_is_read_back() -> None:
    ids = MODES["kilo"][1]
    answer = [{"result": {"configOptions": option("code", ids)}}]
    async with opened({"session/set_config_option": answer}, offers={"configOptions": option("code", ids)}) as told:
        with pytest.raises(SettingRefused, match="reports that it is in 'code'"):
            await told.agent.switch_mode("ask")
        told.process.script["session/set_config_option"] = [{"result": {"configOptions": option("ask", ids)}}]
        await told.agent.switch_mode("ask")
        assert sent(told, "session/set_config_option")[-1]["value"] == "ask"


@pytest.mark.req("A-6")
async def test_a_refused_mode_leaves_the_one_before() -> None:
    refusal = {"error": {"code": -32603, "message": "not now"}}
    async with opened({"session/set_mode": [refusal]}, offers=listed("goose")) as told:
        with pytest.raises(SettingRefused, match="The agent refused the mode 'approve': not now"):
            await told.agent.switch_mode("approve")
        told.process.script["session/set_mode"] = [{"result": {}}]
        await told.agent.switch_mode("approve")
        assert len(sent(told, "session/set_mode")) == 2


@pytest.mark.req("A-6", "A-10")
@pytest.mark.parametrize("switched", [
    update(sessionUpdate="current_mode_update", currentModeId="auto"),
    update(sessionUpdate="config_option_update", configOptions=option("auto", MODES["goose"][1])),
])  # fmt: skip
async def test_an_agent_that_switches_to_an_unasking_mode_is_reported_however_it_says_so(
    switched: dict[str, Any]
) -> None:
    current, ids = "approve", MODES["goose"][1]
    offers = {"modes": {"currentModeId": current, "availableModes": [{"id": one} for one in ids]}}
    async with opened({"session/prompt": [switched, END], "session/set_mode": [{"result": {}}]},
                      offers=offers) as told:
        recorder = Recorder(allow=True)
        await prompted(told.agent, recorder)
        assert recorder.said == [("warn", "UNSUPPORTED_CAPABILITY")]
        await told.agent.settle(Settings())
        assert [call["modeId"] for call in sent(told, "session/set_mode")] == ["approve"], "it is put back"


@pytest.mark.req("A-6", "A-10")
async def test_an_agent_opens_in_the_mode_of_its_config() -> None:
    async with opened({"session/set_mode": [{"result": {}}]}, offers=listed("claude-acp"), mode="Default") as told:
        assert [call["modeId"] for call in sent(told, "session/set_mode")] == ["default"]
        assert told.started.features.permission == "asks"
        await told.agent.settle(Settings(mode="plan"))
        await told.agent.settle(Settings())
        assert [call["modeId"] for call in sent(told, "session/set_mode")] == ["default", "plan", "default"]


@pytest.mark.req("A-6", "A-10")
async def test_an_agent_that_opens_in_an_unasking_mode_is_known_as_such() -> None:
    for agent in ("claude-acp", "codex-acp", "vibe", "goose", "qwen"):
        async with opened({}, offers=listed(agent)) as told:
            assert told.started.features.permission == "never", agent


@pytest.mark.req("A-6")
async def test_a_mode_of_the_config_that_the_agent_does_not_have_fails_its_start() -> None:
    with pytest.raises(AgentStartFailed) as failed:
        async with opened({}, offers=listed("vibe"), mode="approve"):
            pass
    assert str(failed.value) == ("The agent has no mode 'approve'; its modes are: ask, accept-edits, auto-approve. "
                                 "(`mode` in [agents.x])")
