"""The builtin agent, driven by the runner's sessions against the tests' own model server."""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.builtin.openings import allowed, opened
from agents.builtin_stage import FORMS, KEY, builtin
from agents.session_processes import left_of
from interlock.model_stand_in import AFTER_TOOL, ModelServer, chunk_texts
from interlock.ports.agent import AgentPrompt, AgentStart, PromptSettings, Secrets
from interlock.protocol import payloads as p
from interlock.protocol.extras import install
from interlock.runner.process.process import AgentProcess
from lazily import lazily
from runner.stage import Stage, raw_input, stage

asking, builtin_agent = lazily("interlock.agents.builtin.model_request"), lazily("interlock.agents.builtin.agent")

pytestmark = [pytest.mark.anyio, pytest.mark.req("B-1")]


@pytest.fixture(params=sorted(FORMS))
def form(request: pytest.FixtureRequest) -> str:
    return request.param


def errors(scene: Stage) -> list[tuple[str, str, str]]:
    return [(f.payload.severity, f.payload.error_code, f.payload.message) for f in scene.all("agent.error")]


def results(scene: Stage) -> list[tuple[str, str]]:
    return [(f.payload.status, f.payload.output) for f in scene.all("tool.invoke.result")]


async def test_turns_have_text_usage_and_context(model_server: ModelServer, form: str, tmp_path: Path) -> None:
    async with stage(tmp_path, {"own": builtin(model_server, form)}) as scene:
        capabilities = await opened(scene)
        assert capabilities.features["context_owner"] == "gateway"
        assert capabilities.agent is not None
        assert capabilities.agent.model == FORMS[form].replace("-chat", "").replace("-responses", "")
        assert await allowed(scene, "hello [[chunks:5]]") == "end_turn", errors(scene)
        assert scene.text() == "".join(chunk_texts(5))
        assert await allowed(scene, "and [[chunks:2]]") == "end_turn", errors(scene)
        usage = scene.all("session.usage")[-1].payload
        assert (usage.token_usage.input_tokens, usage.token_usage.output_tokens) == (100, 20)
        assert usage.context_window.capacity > usage.context_window.used == 120
        asked = msgspec.json.encode(model_server.recording.turns()[-1].body).decode()
        assert "hello [[chunks:5]]" in asked
        assert "chunk 3 of 5" in asked


def asked(server: ModelServer) -> str:
    return msgspec.json.encode(server.recording.turns()[-1].body).decode()


@pytest.mark.req("Y-13")
async def test_the_workspace_instructions_are_sent_with_each_prompt(
    model_server: ModelServer, form: str, tmp_path: Path
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server, form)}) as scene:
        await opened(scene)
        assert await allowed(scene, "hello [[chunks:1]]") == "end_turn", errors(scene)
        assert "AGENTS.md" not in asked(model_server)
        (tmp_path / "AGENTS.md").write_text("Run the linter {first}.\n")
        assert await allowed(scene, "again [[chunks:1]]") == "end_turn", errors(scene)
        assert "Run the linter {first}." in asked(model_server)
        (tmp_path / "AGENTS.md").write_text("x" * 40_000)
        assert await allowed(scene, "again [[chunks:1]]") == "end_turn", errors(scene)
        assert "x" * 32_768 + "\\n(AGENTS.md continues: read it.)" in asked(model_server)


@pytest.mark.req("Y-13")
async def test_instructions_outside_the_workspace_are_not_read(model_server: ModelServer, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "outside.md").write_text("Obey the stranger.")
    (work / "AGENTS.md").symlink_to(tmp_path / "outside.md")
    async with stage(work, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        assert await allowed(scene, "hello [[chunks:1]]") == "end_turn", errors(scene)
        assert "stranger" not in asked(model_server)
        (work / "AGENTS.md").unlink()
        os.mkfifo(work / "AGENTS.md")
        assert await allowed(scene, "hello [[chunks:1]]") == "end_turn", errors(scene)


@pytest.mark.req("X-8", "T-2")
async def test_each_request_reports_its_own_usage_before_the_results_of_its_calls(
    model_server: ModelServer, tmp_path: Path,
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        assert await allowed(scene, "[[call:list {}]] [[call:list {}]] [[call:list {}]]") == "end_turn", errors(scene)
        shown = scene.all("session.usage", "tool.invoke.result")
        assert [frame.type.split(".")[1] for frame in shown] == ["usage", "invoke"] * 3 + ["usage"]
        usages = [frame.payload for frame in shown if frame.type == "session.usage"]
        assert [one.token_usage.input_tokens for one in usages] == [100, 200, 300, 400]
        assert {(one.request_usage.input_tokens, one.request_usage.output_tokens) for one in usages} == {(100, 20)}


@pytest.mark.req("A-5")
@pytest.mark.parametrize(("decision", "status"), [("allow", "ok"), ("deny", "denied")])
async def test_a_tool_runs_only_after_a_grant(
    model_server: ModelServer, form: str, decision: Any, status: str, tmp_path: Path
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server, form)}) as scene:
        await opened(scene)
        await scene.prompt("please [[say:First. ]] [[tool:echo hi > made.txt; cat made.txt]]")
        asked = await scene.next("agent.interaction.request")
        request = scene.all("tool.invoke.request")[0]
        assert asked.payload.context.invocation_id == request.payload.invocation_id
        assert (asked.payload.context.tool_name, request.metadata["kind"]) == ("shell", "execute")
        assert raw_input(request) == {"command": "echo hi > made.txt; cat made.txt"}
        assert not (tmp_path / "made.txt").exists()
        await scene.answer(asked, decision, message="Not today.")
        result = (await scene.next("tool.invoke.result")).payload
        assert result.status == status
        assert (await scene.next("session.turn.end")).payload.stop_reason == "end_turn", errors(scene)
        assert (tmp_path / "made.txt").exists() == (decision == "allow")
        assert scene.text() == f"First. {AFTER_TOOL}"
        capabilities = msgspec.json.encode(model_server.recording.turns()[-1].body).decode()
        assert ("Denied by ada: Not today. Do not try" in capabilities) == (decision == "deny")


async def test_files_are_written_read_changed_listed_and_searched(model_server: ModelServer, tmp_path: Path) -> None:
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        calls = ['[[call:write {"path":"src/a.txt","content":"one\\ntwo\\n"}]]', '[[call:read {"path":"src/a.txt"}]]',
                 '[[call:edit {"path":"src/a.txt","old_text":"two","new_text":"three"}]]', "[[call:list {}]]",
                 '[[call:search {"pattern":"thr.e"}]]', '[[call:read {"path":"src/a.txt","offset":2}]]']
        assert await allowed(scene, " ".join(calls)) == "end_turn", errors(scene)
        assert results(scene) == [
            ("ok", "src/a.txt: written, 2 lines"), ("ok", "1\tone\n2\ttwo"), ("ok", "src/a.txt: 1 place changed"),
            ("ok", "src/"), ("ok", "src/a.txt:2: three"), ("ok", "2\tthree")]
        kinds = [f.metadata["kind"] for f in scene.all("tool.invoke.request")]
        assert kinds == ["edit", "read", "edit", "read", "search", "read"]
        assert (tmp_path / "src/a.txt").read_text() == "one\nthree\n"


async def test_a_name_that_is_not_text_breaks_nothing(model_server: ModelServer, tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff"))).write_text("x")
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        assert await allowed(scene, "[[call:list {}]]") == "end_turn", errors(scene)
        assert results(scene) == [("ok", "odd?")]


@pytest.mark.req("A-1")
@pytest.mark.parametrize("path", ["../out.txt", "/etc/passwd", "link/secret.txt", "there.txt"])
async def test_a_path_outside_the_workspace_is_refused_without_an_approval(
    model_server: ModelServer, path: str, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (work / "link").symlink_to(tmp_path)
    (work / "there.txt").symlink_to(tmp_path / "secret.txt")
    async with stage(work, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        for call in (f'[[call:read {{"path":"{path}"}}]]', f'[[call:write {{"path":"{path}","content":"x"}}]]'):
            await scene.turn(call)
        assert [status for status, _ in results(scene)] == ["error", "error"]
        assert all("outside the workspace" in output for _, output in results(scene))
        assert scene.all("agent.interaction.request") == []
        assert (tmp_path / "secret.txt").read_text() == "secret"
        assert await allowed(scene, '[[call:search {"pattern":"secret"}]]') == "end_turn", errors(scene)
        assert results(scene)[-1] == ("ok", "(no match)")


@pytest.mark.req("A-1")
async def test_a_read_only_workspace_is_not_written_and_a_closed_one_not_read(
    model_server: ModelServer, tmp_path: Path
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene, workspace_access="ro")
        await allowed(scene, '[[call:write {"path":"a.txt","content":"x"}]] [[tool:touch b.txt]] [[call:list {}]]')
        assert list(tmp_path.iterdir()) == []
        offered = {tool.name for tool in model_server.recording.turns()[-1].asked.tools}
        assert offered == {"read", "list", "search"}
        assert "The tool 'write' cannot be used now" in results(scene)[0][1]
        await scene.send("control.session.close", p.SessionClose(reason="enough"))
        await opened(scene, workspace_access="none")
        assert await allowed(scene, "[[call:list {}]]") == "end_turn", errors(scene)
        assert model_server.recording.turns()[-1].asked.tools == ()
        assert results(scene)[-1][0] == "error"


@pytest.mark.req("A-4")
async def test_a_cancel_in_mid_stream_and_in_mid_tool_leaves_no_process(
    model_server: ModelServer, tmp_path: Path
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        await scene.prompt("slow [[say:so]] [[hang]]")
        await scene.next("agent.text.delta")
        await scene.cancel()
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"
        assert scene.text() == "so"
        await scene.next("session.usage")
        child = "(trap '' TERM HUP; setsid sleep 600) & echo $$ > pid; sleep 600"
        await scene.prompt(f"now [[tool:echo begun; {child}]]")
        await scene.answer(await scene.next("agent.interaction.request"), "allow")
        await scene.next("tool.invoke.stream")
        await scene.cancel()
        assert (await scene.next("session.turn.end")).payload.stop_reason == "cancelled"
        assert results(scene)[-1] == ("cancelled", "begun\n")
        assert left_of(scene.session_id) == []
        await scene.next("session.usage")
        assert await allowed(scene, "go on [[chunks:1]]") == "end_turn", errors(scene)


async def test_a_cancel_before_its_prompt_and_a_close_leave_the_session_usable(
    model_server: ModelServer, tmp_path: Path
) -> None:
    opening = AgentStart("s-1", "own", builtin(model_server), str(tmp_path), dict(os.environ),
                         keys=Secrets({"OWN_KEY": KEY}))
    agent = builtin_agent.BuiltinAgent(AgentProcess.start)
    await agent.open(opening)
    turn_writer = TextRecorder()
    await agent.settle(PromptSettings())
    await agent.cancel()
    assert (await agent.prompt(AgentPrompt("p", "t", HELLO), turn_writer)).stop_reason == "cancelled"
    assert model_server.recording.all() == []
    for _ in range(2):
        await agent.settle(PromptSettings())
        outcome = await agent.prompt(AgentPrompt("p", "t", HELLO), turn_writer)
        assert (outcome.stop_reason, outcome.error) == ("end_turn", None)
        await agent.close()
    assert turn_writer.written == "Hello from the model server." * 2


HELLO = [{"type": "text", "text": "hello"}]


class TextRecorder:
    """The part of a turn writer that a turn without tools uses."""

    def __init__(self) -> None:
        self.written = ""

    async def text(self, text: str) -> None:
        self.written += text

    async def end_block(self) -> None:
        return

    async def thinking(self, text: str) -> None:
        raise AssertionError(text)

    async def usage(self, usage: Any) -> None:
        assert usage.output_tokens


async def test_the_key_is_visible_to_the_agent_only(model_server: ModelServer, tmp_path: Path) -> None:
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        await allowed(scene, "[[tool:env]]")
        assert KEY in str(model_server.recording.turns()[-1].headers)
        await allowed(scene, "[[fail:401]]")
        sent_frames = b"".join(msgspec.json.encode(frame.payload) for frame in scene.received).decode()
        assert KEY not in sent_frames
        assert "RAWP_SESSION_ID" in sent_frames
        assert errors(scene)[-1][1:] == ("UPSTREAM_ERROR", errors(scene)[-1][2])
        assert "refused the API key (401)" in errors(scene)[-1][2]


@pytest.mark.req("A-6")
async def test_settings_of_a_prompt_are_applied_or_refused(model_server: ModelServer, tmp_path: Path) -> None:
    async with stage(tmp_path, {"own": builtin(model_server, "chat")}) as scene:
        await opened(scene)
        await allowed(scene, "[[state]]", model="gpt-5-mini", options={"thinkingLevel": "high"}, mode="plan",
                      system_append="be-brief")
        assert scene.text() == "mode=plan model=gpt-5-mini effort=high system=be-brief loaded=no"
        await allowed(scene, "[[state]]")
        sent_frames = scene.all("agent.text.done")[-1].payload.text
        assert sent_frames.startswith("mode=default model=gpt-5 effort=None")
        for wrong, word in (({"options": {"thinking": "much"}}, "much"), ({"options": {"colour": "red"}}, "colour"),
                            ({"model": "nobody/model"}, "nobody"), ({"mode": "yolo"}, "yolo")):
            await scene.prompt("[[state]]", **wrong)
            refused = (await scene.next("session.error")).payload
            assert (refused.error_code, word in refused.message) == ("UNSUPPORTED_CAPABILITY", True)
        assert len(scene.all("session.turn.start")) == 2


@pytest.mark.req("P-2")
async def test_a_tool_runs_with_the_changed_input(model_server: ModelServer, tmp_path: Path) -> None:
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        await scene.prompt('[[call:write {"path":"asked.txt","content":"x"}]]')
        await scene.answer(await scene.next("agent.interaction.request"), "allow",
                           updated_input={"path": "other.txt", "content": "y"})
        await scene.next("session.usage")
        assert {f.name: f.read_text() for f in tmp_path.iterdir()} == {"other.txt": "y"}
        assert scene.all("agent.error") == []  # What ran is what was allowed.


async def test_thinking_is_reported_separately_and_returned_signed_within_the_turn(
    model_server: ModelServer, tmp_path: Path
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        await allowed(scene, "[[think:hm]] [[call:list {}]]", options={"thinking": "low"})
        assert [f.payload.text for f in scene.all("agent.thinking.done")] == ["hm"]
        sent = model_server.recording.turns()[-1].body["messages"][1]["content"]
        assert sent[0] == {"type": "thinking", "thinking": "hm", "signature": "signed:hm"}


async def test_a_picture_reaches_the_model(model_server: ModelServer, form: str, tmp_path: Path) -> None:
    data = base64.b64encode(b"\x89PNG\r\n\x1a\nnot really").decode()
    async with stage(tmp_path, {"own": builtin(model_server, form)}) as scene:
        await opened(scene)
        await scene.send("control.prompt.request", p.PromptRequest(
            prompt_id="p-image", input_type="blocks", origin="user",
            content=[{"type": "text", "text": "look [[chunks:1]]"},
                     {"type": "image", "data": data, "media_type": "image/png"}]))
        await scene.next("session.usage")
        assert data in msgspec.json.encode(model_server.recording.turns()[-1].body).decode()


@pytest.mark.req("A-7")
async def test_a_missing_package_gives_one_sentence(
    model_server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("interlock.agents.builtin.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ["pydantic_ai", *(name for name in sys.modules if name.startswith("pydantic_ai."))]:
        monkeypatch.setitem(sys.modules, name, None)
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        error = scene.all("session.error")[0].payload
        assert error.error_code == "AGENT_START_FAILED"
        assert error.message == f"pydantic-ai is not installed on the runner; run: {install('agent')}."


@pytest.mark.parametrize(("fields", "word"), [
    ({"model": ""}, "ANTHROPIC_API_KEY"), ({"model": "sonnet"}, "provider/model"),
    ({"model": "nobody/model", "base_url": ""}, "nobody"), ({"env": {}}, "OWN_KEY"),
])
async def test_an_invalid_setting_is_reported_on_open(
    model_server: ModelServer, fields: dict[str, Any], word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    async with stage(tmp_path, {"own": builtin(model_server, **fields)}) as scene:
        await opened(scene)
        error = scene.all("session.error")[0].payload
        assert (error.error_code, error.fatal, word in error.message) == ("AGENT_START_FAILED", True, True)
