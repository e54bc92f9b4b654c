"""Real ACP agents, if they are installed: what their permission requests are read as is what runs (H-2, H-3)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.lab import lab_agent
from interlock.model_stand_in import ModelServer
from interlock.protocol.envelope import Frame
from runner.stage import Stage, stage

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-2", "H-3")]
READ = ["copilot", "gemini", "goose", "kilo", "kimi", "opencode", "qwen", "vibe"]
LONG = f"printf '%s' {'x' * 300} > made.txt"
LINES = "printf '%s' '  one \"two\"\n\tthree' > made.txt\n: end"
Opener = Callable[[str], Awaitable[Stage]]


@pytest.fixture
async def opened(tmp_path: Path, model_server: ModelServer) -> AsyncIterator[Opener]:
    async with AsyncExitStack() as stack:
        async def open_one(name: str) -> Stage:
            (tmp_path / "work").mkdir()
            (tmp_path / "home").mkdir()
            spec = lab_agent(name, tmp_path / "home", model_server)
            scene = await stack.enter_async_context(stage(tmp_path / "work", {name: spec}))
            await scene.open(name)
            await scene.next("session.capabilities")
            return scene
        yield open_one


def subject(asked: Frame) -> dict[str, Any]:
    return msgspec.json.decode(asked.payload.context.subject)


async def allowed(scene: Stage, words: str) -> dict[str, Any]:
    """The subject of the one question of a turn that is answered yes, and in which nothing else is reported."""
    await scene.prompt(words)
    asked = await scene.next("agent.interaction.request")
    await scene.answer(asked, "allow")
    assert (await scene.next("session.turn.end")).payload.stop_reason == "end_turn"
    assert [one.payload.message for one in scene.all("agent.error")] == []
    return subject(asked)


@pytest.mark.parametrize("name", READ)
async def test_a_command_is_read_byte_for_byte(name: str, opened: Opener) -> None:
    scene = await opened(name)
    for command, made in ((LONG, "x" * 300), (LINES, '  one "two"\n\tthree')):
        read = await allowed(scene, f"[[tool:{command}]]")
        assert (read["input"]["command"], read.get("described", False)) == (command, False)
        assert (scene.workspace / "made.txt").read_text() == made


@pytest.mark.parametrize("name", [name for name in READ if name != "qwen"])
async def test_a_file_change_is_read_whole(name: str, opened: Opener) -> None:
    scene = await opened(name)
    made = scene.workspace / "made.txt"
    read = await allowed(scene, f"[[do:write {json.dumps({'path': str(made), 'content': 'a `b`'})}]]")
    assert not read.get("described", False)
    assert ("a `b`" in json.dumps(read), made.read_text().rstrip("\n")) == (True, "a `b`")


async def test_geminis_title_is_not_read_if_the_model_may_have_written_it(opened: Opener) -> None:
    scene = await opened("gemini")
    given = {"command": LONG, "description": "List the files"}
    read = await allowed(scene, f"[[call:run_shell_command {json.dumps(given)}]]")
    assert read["described"]
    assert read["input"] == {}
