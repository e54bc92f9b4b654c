"""An agent's error names the keys that are set for the runner and not passed on to it (Y-12)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.ports.agent import AgentSpec
from runner.stage import stage

pytestmark = [pytest.mark.anyio, pytest.mark.req("Y-12")]

KEY = "OPENAI_API_KEY"
REMARK = f'{KEY} is set here, not passed on; if the agent needs it, write in [agents.goose]: env_pass = ["{KEY}"].'


def goose(place: Path, adapter: str, line: str, **more: list[str]) -> AgentSpec:
    """A program of this name that writes a line on standard error and fails."""
    program = place / "goose"
    program.write_text(f"#!/bin/sh\necho '{line}' >&2\nexit 1\n")
    program.chmod(0o700)
    return AgentSpec(adapter=adapter, command=str(program), **more)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "sk-secret")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)


async def test_a_failed_turn_names_the_key(tmp_path: Path) -> None:
    async with stage(tmp_path, {"goose": goose(tmp_path, "exec", "401 Unauthorized")}) as scene:
        await scene.open("goose")
        await scene.prompt("hello")
        error = await scene.next("agent.error")
        assert REMARK in error.payload.message
        assert "sk-secret" not in error.payload.message


async def test_an_agent_that_does_not_start_names_the_key(tmp_path: Path) -> None:
    async with stage(tmp_path, {"goose": goose(tmp_path, "acp", "No API key found")}) as scene:
        await scene.open("goose")
        error = await scene.next("session.error")
        assert REMARK in error.payload.message


@pytest.mark.parametrize(("line", "passed"), [("disk full", []), ("401 Unauthorized", [KEY])])
async def test_nothing_is_added_to_other_failures_or_if_the_key_is_passed_on(
    tmp_path: Path, line: str, passed: list[str]
) -> None:
    async with stage(tmp_path, {"goose": goose(tmp_path, "exec", line, env_pass=passed)}) as scene:
        await scene.open("goose")
        await scene.prompt("hello")
        assert "not passed on" not in (await scene.next("agent.error")).payload.message
