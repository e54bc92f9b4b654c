"""Real ACP agents, if they are installed: the mode that each opens in, and what a later switch of it does (H-11)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from agents.lab import known_agent, lab_agent
from interlock.model_stand_in import ModelServer
from interlock.protocol.codes import Code
from runner.stage import Stage, stage

pytestmark = [pytest.mark.anyio, pytest.mark.req("A-6", "A-10", "H-11")]
OPENED_IN = {"claude-acp": "default", "codex-acp": "read-only", "copilot": "agent", "gemini": "default",
             "goose": "approve", "kimi": "default", "qwen": "default", "vibe": "ask"}
"""The mode that Interlock puts each into; all but copilot, gemini and kimi open in another by themselves."""
OTHERS = [("claude-acp", "plan"), ("copilot", "https://agentclientprotocol.com/protocol/session-modes#plan"),
          ("gemini", "plan"), ("kilo", "ask"), ("kilo", "plan"), ("kimi", "plan"),
          ("opencode", "plan"), ("qwen", "plan")]
"""The other modes that count as asking."""
Opens = Callable[..., AbstractAsyncContextManager[Stage]]


@pytest.fixture
def opens(tmp_path: Path, model_server: ModelServer) -> Opens:
    @asynccontextmanager
    async def open_one(name: str, mode: str = "", *, bare: bool = False) -> AsyncIterator[Stage]:
        """A session of the agent: `bare` without the mode and the variables that `interlock agents` prints for it."""
        (tmp_path / "work").mkdir()
        (tmp_path / "home").mkdir()
        spec = lab_agent(name, tmp_path / "home", model_server)
        printed = known_agent(name).env
        env = {key: value for key, value in spec.env.items() if not bare or key not in printed}
        async with stage(tmp_path / "work", {name: msgspec.structs.replace(spec, mode=mode, env=env)}) as scene:
            await scene.open(name)
            yield scene
    return open_one


def writes(place: Path) -> str:
    return f"[[do:write {json.dumps({'path': str(place), 'content': 'text'})}]]"


async def asks_or_does_nothing(scene: Stage, words: str, made: Path) -> None:
    """The turn ends without the file, and each question is denied."""
    await scene.prompt(words, only_if_asks=True)
    while (frame := await scene.next("agent.interaction.request", "session.turn.end", "session.error")).type == (
            "agent.interaction.request"):
        await scene.answer(frame, "deny")
    assert frame.type == "session.turn.end", frame.payload
    assert not made.exists()
    assert not [one for one in scene.all("agent.error") if one.payload.error_code.startswith("RAN_")]


@pytest.mark.parametrize("name", OPENED_IN)
async def test_an_agent_without_a_configured_mode_is_put_into_an_asking_one(name: str, opens: Opens) -> None:
    async with opens(name, bare=True) as scene:
        features = (await scene.next("session.capabilities")).payload.features
        assert features["permission"] == "asks"
        await asks_or_does_nothing(scene, "[[tool:echo hi > made.txt]]", scene.workspace / "made.txt")
        await asks_or_does_nothing(scene, writes(scene.workspace / "written.txt"), scene.workspace / "written.txt")


@pytest.mark.parametrize(("name", "mode"), OTHERS)
async def test_in_every_asking_mode_nothing_runs_without_a_grant(
    name: str, mode: str, opens: Opens
) -> None:
    async with opens(name, mode) as scene:
        assert (await scene.next("session.capabilities")).payload.features["permission"] == "asks"
        await asks_or_does_nothing(scene, "[[tool:echo hi > made.txt]]", scene.workspace / "made.txt")
        await asks_or_does_nothing(scene, writes(scene.workspace / "written.txt"), scene.workspace / "written.txt")


@pytest.mark.parametrize(("name", "mode"), [
    ("claude-acp", "auto"), ("codex-acp", "agent"), ("goose", "auto"), ("qwen", "yolo"), ("vibe", "accept-edits"),
])  # fmt: skip
async def test_in_a_mode_that_does_not_ask_every_prompt_needs_a_grant(
    name: str, mode: str, opens: Opens
) -> None:
    async with opens(name, mode) as scene:
        assert (await scene.next("session.capabilities")).payload.features["permission"] == "never"
        await scene.prompt("[[tool:echo hi > made.txt]]", only_if_asks=True)
        refused = (await scene.next("session.error", "session.turn.start")).payload
        assert (refused.error_code, f"its mode {mode!r}" in refused.message) == (Code.NOT_ASKING, True)
        assert not (scene.workspace / "made.txt").exists()


@pytest.mark.parametrize("name", ["opencode", "kilo"])
async def test_without_its_asking_setting_no_mode_counts_as_asking(name: str, opens: Opens) -> None:
    async with opens(name, bare=True) as scene:
        assert (await scene.next("session.capabilities")).payload.features["permission"] == "never"


@pytest.mark.parametrize("words", ["/yolo", "/allow-all on"])
async def test_copilots_own_switch_is_reported_and_reverted(words: str, opens: Opens) -> None:
    async with opens("copilot") as scene:
        assert (await scene.next("session.capabilities")).payload.features["permission"] == "asks"
        await scene.prompt(words, only_if_asks=True)
        changed = (await scene.next("x-interlock.asking.changed")).payload
        assert (changed.asks, "allow_all" in changed.message) == (False, True)
        await scene.cancel()  # As the gateway does.
        await scene.next("session.usage")
        await asks_or_does_nothing(scene, "[[tool:echo hi > made.txt]]", scene.workspace / "made.txt")
        assert [one.payload.asks for one in scene.all("x-interlock.asking.changed")] == [False, True]
        assert scene.all("agent.interaction.request"), "it asks again"
