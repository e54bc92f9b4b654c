"""Real ACP agents, if they are installed, as `interlock agents` sets them up: driven by the runner's own sessions."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.lab import DRIVEN, lab_agent
from interlock.box.host import Host
from interlock.model_stand_in import ModelServer, chunk_texts
from interlock.runner.session.session_box import Boxing
from runner.stage import Stage, stage
from this_host import HOST

pytestmark = pytest.mark.anyio
ASK = ["claude-acp", "gemini", "kimi", "opencode", "qwen"]
"""Agents that ask about the shell (codex-acp has a sandbox of its own instead)."""
COUNT = sorted(set(DRIVEN) - {"kimi", "pi"})
"""Agents that report their tokens."""
Opener = Callable[[str], Awaitable[Stage]]


@pytest.fixture
async def opened(tmp_path: Path, model_server: ModelServer) -> AsyncIterator[Opener]:
    """Opens a session of the named agent in an empty workspace, or skips."""
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


def words(scene: Stage) -> str:
    return "".join(frame.payload.text for frame in scene.all("agent.text.done"))


@pytest.mark.req("A-7", "T-2", "P-7")
@pytest.mark.parametrize("name", COUNT)
async def test_tokens_are_counted_per_turn(name: str, opened: Opener) -> None:
    scene = await opened(name)
    for _ in range(2):
        await scene.prompt("hello [[chunks:3]]")
        assert (await scene.next("session.turn.end")).payload.stop_reason == "end_turn"
        tokens = (await scene.next("session.usage")).payload.token_usage
        assert (tokens.input_tokens, tokens.output_tokens) == (100, 20)
    assert "".join(chunk_texts(3)).strip() in words(scene)


@pytest.mark.req("A-5", "A-7")
@pytest.mark.parametrize("name", ASK)
@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_a_command_runs_only_after_a_grant(name: str, decision: Any, opened: Opener) -> None:
    scene = await opened(name)
    await scene.prompt("please [[tool:echo hi > made.txt; cat made.txt]]")
    asked = await scene.next("agent.interaction.request")
    assert not (scene.workspace / "made.txt").exists()
    await scene.answer(asked, decision)
    assert (await scene.next("session.turn.end")).payload.stop_reason == "end_turn"
    assert (scene.workspace / "made.txt").exists() == (decision == "allow")
    assert (await scene.turn("again [[chunks:1]]")).payload.stop_reason == "end_turn"


@pytest.mark.req("H-15")
@pytest.mark.parametrize("name", DRIVEN)
@pytest.mark.parametrize("kind", ["namespace", "landlock"])
async def test_an_agent_works_behind_walls(name: str, kind: Any, tmp_path: Path, model_server: ModelServer) -> None:
    if kind not in HOST.kinds:
        pytest.skip(f"no {kind} here: {HOST.missing.get(kind, HOST.why_none)}")
    for directory in ("work", "home", "state", "temporary"):
        (tmp_path / directory).mkdir()
    (tmp_path / "state" / "owner.key").write_text("the-key-itself")
    spec = lab_agent(name, tmp_path / "home", model_server)
    # Landlock lets nothing be made directly in a directory above the hidden one, and here that is /tmp.
    spec = msgspec.structs.replace(spec, env={**spec.env, "TMPDIR": str(tmp_path / "temporary")})
    boxing = Boxing(Host((kind,)), (str(tmp_path / "state"),))
    async with stage(tmp_path / "work", {name: spec}, boxing=boxing) as scene:
        await scene.open(name)
        await scene.next("session.capabilities")
        line = f"echo hi > made.txt; cat made.txt {tmp_path}/state/owner.key"
        escalated = {"cmd": line, "sandbox_permissions": "require_escalated", "justification": "to write"}
        await scene.prompt(f"[[call:exec_command {json.dumps(escalated)}]]" if name == "codex-acp"
                           else f"please [[tool:{line}]]")
        while (frame := await scene.next("agent.interaction.request", "session.turn.end")).type != "session.turn.end":
            await scene.answer(frame, "allow")
        assert frame.payload.stop_reason == "end_turn"
        assert (scene.workspace / "made.txt").read_text() == "hi\n"
        assert "the-key-itself" not in repr(scene.received)
        assert (await scene.turn("again [[chunks:1]]")).payload.stop_reason == "end_turn"


@pytest.mark.req("A-2", "A-5")
async def test_a_denial_to_codex_is_not_a_cancel(opened: Opener) -> None:
    scene = await opened("codex-acp")
    wanted = {"cmd": "echo hi > made.txt", "sandbox_permissions": "require_escalated", "justification": "to write"}
    await scene.prompt(f"[[call:exec_command {json.dumps(wanted)}]]")
    await scene.answer(await scene.next("agent.interaction.request"), "deny")
    assert (await scene.next("session.turn.end")).payload.stop_reason == "end_turn"
    assert [error.payload.error_code for error in scene.all("agent.error")] == ["AgentStopped"]
    assert not (scene.workspace / "made.txt").exists()


@pytest.mark.req("A-7")
@pytest.mark.parametrize("name", ["codex-acp", "pi"])
async def test_output_of_the_agents_own_terminal_is_stored(name: str, opened: Opener) -> None:
    scene = await opened(name)
    await scene.prompt("please [[tool:sleep 0.3; echo seen; exit 3]]")
    result = (await scene.next("tool.invoke.result")).payload
    assert result.status == "error"
    assert "seen" in result.output
    assert "seen" in "".join(frame.payload.text for frame in scene.all("tool.invoke.stream"))


def questions(several: str) -> str:
    options = [{"label": "red", "description": "warm"}, {"label": "blue", "description": "cold"}]
    return json.dumps({"questions": [
        {"question": "Which colour?", "header": "Colour", "options": options, several: False},
        {"question": "Which others?", "header": "Others", "options": options, several: True},
    ]})


@pytest.mark.req("C-8")
@pytest.mark.parametrize(("name", "tool", "several"), [
    ("claude-acp", "AskUserQuestion", "multiSelect"), ("kimi", "AskUserQuestion", "multi_select"),
    ("qwen", "ask_user_question", "multiSelect"),
])  # fmt: skip
async def test_a_question_gets_its_answer(name: str, tool: str, several: str, opened: Opener) -> None:
    scene = await opened(name)
    await scene.prompt(f"[[call:{tool} {questions(several)}]]")
    for text in ("blue", "1, blue"):
        asked = await scene.next("agent.interaction.request")
        assert asked.payload.interaction_type == "QUESTION"
        await scene.answer(asked, "allow", answer=text)
    result = (await scene.next("tool.invoke.result")).payload
    assert result.status == "ok"
    shown = json.dumps(result.output)
    assert "blue" in shown
    assert "red, blue" in shown or "red" in shown.split("Which others?")[-1]


@pytest.mark.req("A-6")
@pytest.mark.parametrize(("name", "mode"), [
    ("claude-acp", "plan"), ("codex-acp", "read-only"), ("gemini", "plan"), ("kimi", "plan"), ("opencode", "plan"),
    ("qwen", "plan"),
])  # fmt: skip
async def test_a_prompt_chooses_its_mode(name: str, mode: str, opened: Opener) -> None:
    scene = await opened(name)
    await scene.prompt("hello [[chunks:1]]", mode=mode)
    assert (await scene.next("session.turn.start", "session.error")).type == "session.turn.start"
    assert (await scene.next("session.turn.end")).payload.stop_reason == "end_turn"
    await scene.prompt("hello", mode="no-such-mode")
    refused = (await scene.next("session.error")).payload
    assert refused.message.startswith("The agent has no mode 'no-such-mode'; its modes are: ")
    assert mode in refused.message


@pytest.mark.req("A-2")
@pytest.mark.parametrize("name", sorted(DRIVEN))
async def test_a_killed_agent_is_a_death(name: str, opened: Opener) -> None:
    scene = await opened(name)
    await scene.prompt("slow [[chunks:600]] [[delay:50]]")
    await scene.next("agent.text.delta")
    os.kill(_agent_of(scene.session_id), signal.SIGKILL)
    end = await scene.next("session.turn.end")
    assert end.payload.stop_reason == "error"
    assert [e.payload.error_code for e in scene.all("agent.error") if e.payload.severity == "fatal"] == ["SIGNAL_EXIT"]
    assert (await scene.next("session.closed")).payload.signal == signal.SIGKILL


def _agent_of(session_id: str) -> int:
    """The process that the runner started: of those of the session the one whose parent is not."""
    mark = f"RAWP_SESSION_ID={session_id}".encode()
    own: dict[int, int] = {}
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        try:
            if mark in (place / "environ").read_bytes().split(b"\0"):
                own[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return next(pid for pid, parent in own.items() if parent not in own)
