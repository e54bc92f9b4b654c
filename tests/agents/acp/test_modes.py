"""The modes of ACP agents: in which an agent asks, which a prompt may choose, and what the agent reports of them."""

from __future__ import annotations

from typing import Any

import pytest

from agents.scripted_acp import SESSION, Opened, Recorder, opened, prompted, update
from interlock.ports.agent import AgentStartFailed, NotAsking, PromptSettings, SettingRefused
from interlock.protocol.payloads import AgentSetting, AskingChanged, SettingValue

pytestmark = pytest.mark.anyio
END = {"result": {"stopReason": "end_turn"}}
DONE = {"session/set_mode": [{"result": {}}]}
COPILOT = "https://agentclientprotocol.com/protocol/session-modes#"
MODES: dict[str, tuple[str, list[str]]] = {
    "@agentclientprotocol/codex-acp": ("agent", ["read-only", "workspace-write", "agent", "agent-full-access"]),
    "@mistralai/mistral-vibe": ("accept-edits", ["ask", "accept-edits", "auto-approve"]),
    "hermes-agent": ("default", ["default", "accept_edits", "dont_ask"]),
    "goose": ("auto", ["auto", "approve", "smart_approve", "chat"]),
    "@agentclientprotocol/claude-agent-acp": ("auto", ["default", "acceptEdits", "plan", "auto", "bypassPermissions"]),
    "qwen-code": ("auto", ["plan", "default", "auto-edit", "auto", "yolo"]),
    "Kilo": ("code", ["code", "ask", "debug", "orchestrator", "plan"]),
    "Copilot": (f"{COPILOT}agent", [f"{COPILOT}agent", f"{COPILOT}plan", f"{COPILOT}autopilot"]),
    "a stranger": ("default", ["default", "supervised", "auto"]),
}
"""What each agent opens in, and what it lists: as the real ones answer `session/new`; the last is not known."""
OPENS = {"@agentclientprotocol/codex-acp": "read-only", "@mistralai/mistral-vibe": "ask", "goose": "approve",
         "@agentclientprotocol/claude-agent-acp": "default", "qwen-code": "default"}
CLAUDE = "@agentclientprotocol/claude-agent-acp"
ASKING_KILO = {"KILO_PERMISSION": '{"*":"ask"}'}


def listed(agent: str, current: str | None = None) -> dict[str, Any]:
    opens, ids = MODES[agent]
    named = [{"id": one, "name": one.title()} for one in ids]
    return {"offers": {"modes": {"currentModeId": current or opens, "availableModes": named}}, "hello": hello(agent)}


def hello(agent: str) -> dict[str, Any]:
    return {"result": {"protocolVersion": 1, "agentInfo": {"name": agent, "version": "1"}}}


def option(current: str, ids: list[str]) -> list[dict[str, Any]]:
    """The same as a config option."""
    values = [{"value": one, "name": one.title()} for one in ids]
    return [{"id": "mode", "category": "mode", "type": "select", "currentValue": current, "options": values}]


def allow_all(current: str) -> list[dict[str, Any]]:
    """Copilot's own switch."""
    return [{"id": "allow_all", "category": "permissions", "type": "select", "currentValue": current,
             "options": [{"value": "on", "name": "On"}, {"value": "off", "name": "Off"}]}]


def sent(acp: Opened, method: str) -> list[dict[str, Any]]:
    return [message["params"] for message in acp.process.got if message.get("method") == method]


def modes_set(acp: Opened) -> list[str]:
    return [call["modeId"] for call in sent(acp, "session/set_mode")]


@pytest.mark.req("A-6", "A-10", "H-11")
@pytest.mark.parametrize(("agent", "mode"), OPENS.items())
async def test_an_agent_that_opens_in_a_mode_without_questions_is_put_into_one_with_questions(
    agent: str, mode: str
) -> None:
    async with opened(DONE, **listed(agent)) as acp:
        assert modes_set(acp) == [mode]
        assert acp.started.mode == mode
        assert acp.started.features.permission == "asks"
        assert acp.started.features.read_only
        await acp.agent.settle(PromptSettings(only_if_asks=True))
        assert modes_set(acp) == [mode], "it is what the agent goes back to"


@pytest.mark.req("H-10", "H-13")
@pytest.mark.parametrize(("agent", "env", "options"), [
    (CLAUDE, {}, {"settingSources": ["user"], "settings": {"permissions": {"ask": ["Bash"]}}}),
    (CLAUDE, {"CLAUDE_MODEL_CONFIG": "{}"}, {"settingSources": ["user"]}), ("goose", {}, {}),
])  # fmt: skip
async def test_claude_agent_acp_asks_before_read_only_commands(
    agent: str, env: dict[str, str], options: dict[str, Any]
) -> None:
    command = "claude-agent-acp" if agent == CLAUDE else agent
    async with opened(DONE, **listed(agent), command=command, env=env) as acp:
        (opening,) = sent(acp, "session/new")
        assert opening.get("_meta", {}) == ({"claudeCode": {"options": options}} if options else {})


@pytest.mark.req("A-10", "H-11")
@pytest.mark.parametrize("agent", OPENS)
async def test_an_agent_that_stays_in_a_mode_without_questions_is_held_at_its_command(agent: str) -> None:
    refusal = {"error": {"code": -32603, "message": "not now"}}
    async with opened({"session/set_mode": [refusal]}, **listed(agent)) as acp:
        assert acp.started.features.permission == "never"
        assert acp.started.mode == MODES[agent][0]
        await acp.agent.settle(PromptSettings())


@pytest.mark.req("A-10", "H-11")
async def test_only_a_known_asking_mode_counts_as_asking() -> None:
    for agent in ("hermes-agent", "Kilo", "a stranger"):
        async with opened({}, **listed(agent)) as acp:
            assert acp.started.features.permission == "never", agent
            assert modes_set(acp) == []
    async with opened({}, **listed("a stranger"), asking_modes=["Default"]) as acp:
        assert acp.started.features.permission == "asks", "a check saw it ask, or its config says so"
    async with opened({}, **listed("Kilo"), env=ASKING_KILO) as acp:
        assert acp.started.features.permission == "asks"
    async with opened({}, **listed("Kilo"), env={**ASKING_KILO, "KILO_PERMISSION": '{"*":"allow"}'}) as acp:
        assert acp.started.features.permission == "never"


@pytest.mark.req("A-10")
async def test_an_agent_that_is_configured_not_to_ask_keeps_its_mode() -> None:
    async with opened({}, **listed("goose"), asks=False) as acp:
        assert (modes_set(acp), acp.started.mode) == ([], "auto")
        with pytest.raises(NotAsking):
            await acp.agent.settle(PromptSettings(only_if_asks=True))


@pytest.mark.req("A-6", "H-11")
@pytest.mark.parametrize(("agent", "mode"), [
    ("@agentclientprotocol/codex-acp", "Read-Only"), ("@mistralai/mistral-vibe", "ask"), ("goose", "approve"),
    ("@agentclientprotocol/claude-agent-acp", "plan"), ("qwen-code", "plan"), ("Kilo", "ask"), ("a stranger", "auto"),
])  # fmt: skip
async def test_a_prompt_can_choose_a_mode_of_every_agent_with_modes(agent: str, mode: str) -> None:
    async with opened(DONE, **listed(agent), env=ASKING_KILO) as acp:
        assert acp.started.features.modes == MODES[agent][1]
        await acp.agent.settle(PromptSettings(mode=mode))
        assert modes_set(acp)[-1].lower() == mode.lower()


@pytest.mark.req("A-6", "A-9", "H-11")
@pytest.mark.parametrize(("agent", "mode", "choosable"), [
    ("@agentclientprotocol/codex-acp", "agent-full-access", "read-only."),
    ("@agentclientprotocol/codex-acp", "workspace-write", "read-only."),
    ("@mistralai/mistral-vibe", "auto-approve", "ask."), ("goose", "smart_approve", "approve."),
    ("goose", "chat", "approve."),
    ("Copilot", "Https://Agentclientprotocol.Com/Protocol/Session-Modes#Autopilot",
     f"{COPILOT}agent, {COPILOT}plan."),
    ("Kilo", "debug", "code, ask, plan."),
])  # fmt: skip
async def test_a_mode_that_lets_tools_run_is_refused_with_the_allowed_modes(
    agent: str, mode: str, choosable: str
) -> None:
    async with opened(DONE, **listed(agent), env=ASKING_KILO) as acp:
        before = modes_set(acp)
        with pytest.raises(SettingRefused, match="could let tools run unasked") as refused:
            await acp.agent.settle(PromptSettings(mode=mode))
        assert f"these can be: {choosable}" in str(refused.value)
        assert modes_set(acp) == before


@pytest.mark.req("A-6", "H-11")
async def test_the_config_can_allow_another_mode_whose_command_needs_approval() -> None:
    async with opened(DONE, **listed("Kilo"), modes=["debug"], env=ASKING_KILO) as acp:
        with pytest.raises(NotAsking) as refused:
            await acp.agent.settle(PromptSettings(mode="Debug", only_if_asks=True))
        assert str(refused.value) == "The agent is not known to ask before its tools in its mode 'debug'."
        assert modes_set(acp) == [], "nothing is sent before the command is approved"
        await acp.agent.settle(PromptSettings(mode="Debug"))
        assert (modes_set(acp), acp.agent.asks) == (["debug"], False)
        await acp.agent.settle(PromptSettings(only_if_asks=True))
        assert (modes_set(acp), acp.agent.asks) == (["debug", "code"], True)
        assert acp.relayed == [], "the agent was set so by us, after a yes"
        with pytest.raises(SettingRefused):
            await acp.agent.settle(PromptSettings(mode="orchestrator"))


@pytest.mark.req("A-6")
async def test_an_unknown_mode_is_refused_with_the_modes_of_the_agent() -> None:
    async with opened(DONE, **listed("goose")) as acp:
        with pytest.raises(SettingRefused) as refused:
            await acp.agent.settle(PromptSettings(mode="careful"))
        assert str(refused.value) == ("The agent has no mode 'careful'; its modes are: "
                                      "auto, approve, smart_approve, chat.")
        with pytest.raises(SettingRefused, match=r"no mode 'plan' \(plan_mode\)"):
            await acp.agent.switch_mode("plan")


@pytest.mark.req("A-6", "H-11")
async def test_an_agent_that_does_not_change_its_mode_is_detected() -> None:
    stays = [update(sessionUpdate="current_mode_update", currentModeId="auto"), {"result": {}}]
    async with opened({"session/set_mode": stays}, **listed("goose")) as acp:
        assert acp.started.features.permission == "never", "the mode set at open was read back"
        with pytest.raises(SettingRefused, match="accepted the mode 'approve', but reports that its mode is 'auto'"):
            await acp.agent.switch_mode("approve")


@pytest.mark.req("A-6")
async def test_the_answer_to_a_config_option_is_read_back() -> None:
    ids = MODES["Kilo"][1]
    answer = [{"result": {"configOptions": option("code", ids)}}]
    async with opened({"session/set_config_option": answer}, offers={"configOptions": option("code", ids)},
                      hello=hello("Kilo"), env=ASKING_KILO) as acp:
        with pytest.raises(SettingRefused, match="reports that its mode is 'code'"):
            await acp.agent.switch_mode("ask")
        acp.process.script["session/set_config_option"] = [{"result": {"configOptions": option("ask", ids)}}]
        await acp.agent.switch_mode("ask")
        assert sent(acp, "session/set_config_option")[-1]["value"] == "ask"


@pytest.mark.req("A-6")
async def test_a_refused_mode_keeps_the_previous_one() -> None:
    async with opened(DONE, **listed("goose", "approve"), modes=["chat"]) as acp:
        acp.process.script["session/set_mode"] = [{"error": {"code": -32603, "message": "not now"}}]
        with pytest.raises(SettingRefused, match="The agent refused the mode 'chat': not now"):
            await acp.agent.switch_mode("chat")
        assert acp.agent.asks
        acp.process.script["session/set_mode"] = [{"result": {}}]
        await acp.agent.switch_mode("chat")
        assert modes_set(acp) == ["chat", "chat"]


@pytest.mark.req("A-10", "H-11")
@pytest.mark.parametrize("switched", [
    update(sessionUpdate="current_mode_update", currentModeId="auto"),
    update(sessionUpdate="config_option_update", configOptions=option("auto", MODES["goose"][1])),
])  # fmt: skip
async def test_an_agent_that_stops_asking_is_reported_and_put_back(
    switched: dict[str, Any]
) -> None:
    async with opened({"session/prompt": [switched, END], **DONE}, **listed("goose", "approve")) as acp:
        await prompted(acp.agent, Recorder(allow=True))
        stopped = ("The agent was switched to its mode 'auto', in which it is not known to ask before its tools.")
        assert acp.relayed == [("x-interlock.asking.changed", AskingChanged(asks=False, message=stopped))]
        assert not acp.agent.asks
        await acp.agent.settle(PromptSettings(only_if_asks=True))
        assert modes_set(acp) == ["approve"]
        assert acp.relayed[1:] == [("x-interlock.asking.changed", AskingChanged(
            asks=True, message="The agent asks before its tools again."))]


@pytest.mark.req("A-10", "H-11")
async def test_copilots_yolo_is_a_mode_change_and_is_reverted() -> None:
    script = {"session/prompt": [update(sessionUpdate="config_option_update", configOptions=allow_all("on")), END],
              "session/set_config_option": [{"result": {"configOptions": allow_all("off")}}]}
    offers = {**listed("Copilot")["offers"], "configOptions": allow_all("off")}
    async with opened(script, offers=offers, hello=hello("Copilot")) as acp:
        assert acp.started.features.permission == "asks"
        await prompted(acp.agent, Recorder(allow=True))
        [(_, changed)] = acp.relayed
        assert (changed.asks, "its option allow_all = 'on'" in changed.message) == (False, True)
        await acp.agent.settle(PromptSettings())
        assert sent(acp, "session/set_config_option") == [
            {"sessionId": SESSION, "configId": "allow_all", "value": "off"}]
        assert acp.agent.asks


@pytest.mark.req("H-11")
async def test_an_option_that_an_unknown_agent_changes_by_itself_ends_its_asking() -> None:
    def provider(current: str) -> list[dict[str, Any]]:
        return [{**allow_all(current)[0], "id": "sandbox", "category": "safety"}]

    script = {"session/prompt": [update(sessionUpdate="config_option_update", configOptions=provider("off")), END]}
    async with opened(script, offers={"configOptions": provider("on")}) as acp:
        assert acp.started.features.permission == "asks"
        await prompted(acp.agent, Recorder(allow=True))
        assert not acp.agent.asks


@pytest.mark.req("A-6", "A-10")
async def test_an_agent_opens_in_the_mode_of_its_config() -> None:
    async with opened(DONE, **listed("@agentclientprotocol/claude-agent-acp"), mode="Plan") as acp:
        assert modes_set(acp) == ["plan"]
        assert acp.started.features.permission == "asks"
        await acp.agent.settle(PromptSettings(mode="default"))
        await acp.agent.settle(PromptSettings())
        assert modes_set(acp) == ["plan"], "`default` is the mode that it opened in"
    async with opened(DONE, **listed("goose", "approve"), mode="auto") as acp:
        assert (modes_set(acp), acp.started.features.permission) == (["auto"], "never")


@pytest.mark.req("A-6")
async def test_a_configured_mode_that_the_agent_lacks_fails_its_start() -> None:
    with pytest.raises(AgentStartFailed) as failed:
        async with opened({}, **listed("@mistralai/mistral-vibe"), mode="approve"):
            pass
    assert str(failed.value) == ("The agent has no mode 'approve'; its modes are: ask, accept-edits, auto-approve. "
                                 "(`mode` in [agents.x])")


@pytest.mark.req("J-14")
async def test_choices_are_listed_with_their_value_or_the_reason_for_refusal() -> None:
    levels = [{"id": "effort", "category": "thought_level", "type": "select", "currentValue": "low",
               "options": [{"value": one, "name": one.title(), "description": f"{one} effort"}
                           for one in ("low", "high")]}]
    offers = {**listed("goose")["offers"], "configOptions": levels, "models": {
        "currentModelId": "small", "availableModels": [{"modelId": "small", "name": "Small", "description": "Cheap."},
                                                       {"modelId": "x" * 101, "name": "Not to be chosen whole"}]}}
    async with opened(DONE, offers=offers, hello=hello("goose")) as acp:
        settings = acp.agent.settings
        assert settings.mode is not None
        assert settings.mode.current == "approve", "it was put into a mode in which it asks"
        assert [(one.id, one.allowed) for one in settings.mode.values] == [
            ("auto", False), ("approve", True), ("smart_approve", False), ("chat", False)]
        assert settings.model == AgentSetting(current="small", left_out=1, values=[
            SettingValue(id="small", name="Small", description="Cheap.")])
        assert settings.thinking is not None
        assert [(one.id, one.name, one.description) for one in settings.thinking.values] == [
            ("low", "Low", "low effort"), ("high", "High", "high effort")]
        assert acp.settings == [], "the opening itself says it"


@pytest.mark.req("J-14")
async def test_each_settings_change_is_reported_once() -> None:
    by_itself = update(sessionUpdate="current_mode_update", currentModeId="default")
    script = {"session/prompt": [by_itself, by_itself, END], "session/set_mode": [{"result": {}}]}
    async with opened(script, **listed(CLAUDE, "plan")) as acp:
        await prompted(acp.agent, Recorder(allow=True))
        assert [one.mode and one.mode.current for one in acp.settings] == ["default"]
        await acp.agent.settle(PromptSettings(mode="plan"))
        await acp.agent.switch_mode("plan")
        assert [one.mode and one.mode.current for one in acp.settings] == ["default", "plan"]
