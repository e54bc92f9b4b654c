"""Requests of the built-in agent to its model: tried again if that may help, else one sentence (B-2)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from agents.builtin.openings import allowed, opened
from agents.builtin_stage import FORMS, builtin
from interlock.model_stand_in import ModelServer
from lazily import lazily
from runner.stage import Stage, stage

pytestmark = [pytest.mark.anyio, pytest.mark.req("B-1")]
asking, builtin_agent = lazily("interlock.agents.builtin.model_request"), lazily("interlock.agents.builtin.agent")


@pytest.fixture(params=sorted(FORMS))
def form(request: pytest.FixtureRequest) -> str:
    return request.param


def errors(scene: Stage) -> list[tuple[str, str, str]]:
    return [(f.payload.severity, f.payload.error_code, f.payload.message) for f in scene.all("agent.error")]


def asked(server: ModelServer) -> str:
    return msgspec.json.encode(server.recording.turns()[-1].body).decode()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    patient(monkeypatch, 300.0, 180.0)


def patient(monkeypatch: pytest.MonkeyPatch, first_event_s: float, idle_s: float) -> None:
    """Retry soon, and wait this long for a model."""
    usual = asking.ModelTimeouts
    monkeypatch.setattr("interlock.agents.builtin.model_request.ModelTimeouts",
                        lambda: usual(first_event_s=first_event_s, idle_s=idle_s, again_s=0.01))


def ended_with(scene: Stage, sentence_part: str) -> bool:
    code, sentence = errors(scene)[-1][1:]
    return code == "UPSTREAM_ERROR" and sentence_part in sentence and "\n" not in sentence


@pytest.mark.usefixtures("quick")
async def test_a_transient_failure_is_retried_and_reported(
    model_server: ModelServer, form: str, tmp_path: Path
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server, form)}) as scene:
        await opened(scene)
        assert await allowed(scene, "now [[flaky:429:2]] [[chunks:1]]") == "end_turn", errors(scene)
        assert [(severity, code) for severity, code, _ in errors(scene)] == [("warning", "UPSTREAM_ERROR")] * 2
        assert "try 3 of 5" in errors(scene)[1][2]
        assert await allowed(scene, "now [[flaky:503:9]]") == "error"
        severity, _, sentence = errors(scene)[-1]
        assert severity != "warning"
        assert "(503)" in sentence
        assert "asked 5 times" in sentence
        assert len(model_server.recording.turns()) == 3 + 5
        assert await allowed(scene, "\n\nstill [[chunks:1]]") == "end_turn", errors(scene)


@pytest.mark.usefixtures("quick")
async def test_a_server_that_cuts_or_refuses_ends_the_turn_with_one_sentence(
    model_server: ModelServer, form: str, tmp_path: Path
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server, form)}) as scene:
        await opened(scene)
        for words, sentence_part in (
            ("[[say:one]] [[cut]]", "cannot be reached"), ("[[fail:400]]", "refused the request (400)"),
            ("[[fail:404]]", "is not known"),
        ):
            async with asyncio.timeout(20):
                assert await allowed(scene, f"\n\n{words}") == "error"
            assert scene.text() == "one"
            assert ended_with(scene, sentence_part), errors(scene)
        assert await allowed(scene, "\n\nstill [[chunks:1]]") == "end_turn", errors(scene)


@pytest.mark.parametrize(("words", "expected", "sentence_part", "first_event_s"), [
    ("[[say:two]] [[hang]]", "two", "in the middle", 60.0), ("[[hang]]", "", "did not answer in time", 0.25)])
async def test_a_server_that_hangs_ends_the_turn_with_one_sentence(
    model_server: ModelServer, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, expected: str,
    sentence_part: str, first_event_s: float,
) -> None:
    patient(monkeypatch, first_event_s, 0.25)
    async with stage(tmp_path, {"own": builtin(model_server, form)}) as scene:
        await opened(scene)
        assert await allowed(scene, words) == "error"
        assert scene.text() == expected
        assert ended_with(scene, sentence_part), errors(scene)
