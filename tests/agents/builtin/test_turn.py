"""A turn of the built-in agent: a model that errs continues, and an answer without an end is reported as incomplete."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from agents.builtin.openings import allowed, opened
from agents.builtin_stage import FORMS, builtin
from interlock.model_stand_in import AFTER_TOOL, ModelServer
from lazily import lazily
from runner.stage import Stage, stage

pytestmark = [pytest.mark.anyio, pytest.mark.req("B-1")]
asking, builtin_agent = lazily("interlock.agents.builtin.model_request"), lazily("interlock.agents.builtin.agent")


@pytest.fixture(params=sorted(FORMS))
def form(request: pytest.FixtureRequest) -> str:
    return request.param


def errors(scene: Stage) -> list[tuple[str, str, str]]:
    return [(f.payload.severity, f.payload.error_code, f.payload.message) for f in scene.all("agent.error")]


def results(scene: Stage) -> list[tuple[str, str]]:
    return [(f.payload.status, f.payload.output) for f in scene.all("tool.invoke.result")]


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


@pytest.mark.usefixtures("quick")
async def test_a_stream_that_ends_without_a_reason_is_an_error(
    model_server: ModelServer, form: str, tmp_path: Path
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server, form)}) as scene:
        await opened(scene)
        assert await allowed(scene, "go [[say:Half an ]] [[ends]]") == "error"
        assert scene.text() == "Half an "
        code, sentence = errors(scene)[-1][1:]
        assert (code, "without reporting that it was complete" in sentence) == ("UPSTREAM_ERROR", True), sentence
        # A partial call does not run, and a request without output yet is retried.
        assert await allowed(scene, '\n\nthen [[ends]] [[call:write {"path":"half.txt","content":"x"}]]') == "error"
        assert "asked 5 times" in errors(scene)[-1][2]
        assert not (tmp_path / "half.txt").exists()
        assert results(scene) == []
        assert await allowed(scene, "\n\nstill [[chunks:1]]") == "end_turn", errors(scene)


async def test_an_answer_cut_at_the_length_limit_ends_the_turn_with_that_reason(
    model_server: ModelServer, form: str, tmp_path: Path
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server, form)}) as scene:
        await opened(scene)
        assert await allowed(scene, "go [[say:Half an ]] [[length]]") == "max_tokens"
        # The calls of such an answer may be half of what was to be: none of them is done.
        words = '[[length]] [[say:Now ]] [[call:write {"path":"half.txt","content":"x"}]]'
        assert await allowed(scene, f"\n\nthen {words}") == "max_tokens"
        assert await allowed(scene, f"\n\nthen {words.replace('[[say:Now ]] ', '')}") == "max_tokens"
        assert (scene.all("tool.invoke.request"), results(scene)) == ([], [])
        assert scene.text() == "Half an Now "
        assert await allowed(scene, "\n\nstill [[chunks:1]]") == "end_turn", errors(scene)


async def test_a_model_error_is_returned_to_the_model_and_the_turn_continues(
    model_server: ModelServer, form: str, tmp_path: Path
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server, form)}) as scene:
        await opened(scene)
        bad = ['[[call:fly {"to":"moon"}]]', '[[call:read {"path":7}]]', '[[call:read {"way":"a"}]]',
               "[[call:shell {not json}]]", '[[call:list "text"]]', '[[call:read {"path":"none.txt"}]]']
        assert await allowed(scene, " ".join(bad)) == "end_turn", errors(scene)
        outputs = [output for _, output in results(scene)]
        assert [status for status, _ in results(scene)] == ["error"] * len(bad)
        assert "'fly' does not exist; there are: read, list, search, write, edit, shell" in outputs[0]
        assert "Expected `str`, got `int`" in outputs[1]
        # Gemini's calls have objects always.
        assert ("unknown field" if form == "gemini" else "not JSON") in outputs[3]
        assert ("unknown field" if form == "gemini" else "not a JSON object") in outputs[4]
        assert outputs[5] == "none.txt: No such file or directory."
        assert len(scene.all("agent.interaction.request")) == 1
        assert await allowed(scene, "[[empty]]") == "end_turn", errors(scene)
        assert errors(scene)[-1][1] == "NoAnswer"


async def test_a_hundred_calls_in_one_answer_are_bounded(model_server: ModelServer, form: str, tmp_path: Path) -> None:
    async with stage(tmp_path, {"own": builtin(model_server, form)}) as scene:
        await opened(scene)
        assert await allowed(scene, "[[call:list {}]] [[many:100]]") == "end_turn", errors(scene)
        statuses = [status for status, _ in results(scene)]
        assert statuses == ["ok"] * 32 + ["error"] * 68
        assert len({f.payload.invocation_id for f in scene.all("tool.invoke.request")}) == 100
        assert scene.text() == AFTER_TOOL
