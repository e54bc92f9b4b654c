"""One suite over the adapters: each does what it claims to support; what it does not support is refused by name."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from agents.builtin_stage import builtin
from installed import needs
from interlock.model_stand_in import ModelServer, running_model_server
from interlock.ports.agent import AgentSpec
from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame
from runner.stage import Stage, misbehaving, program, stage

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parent
ECHO = "import sys; sys.stdout.write(sys.argv[-1])"
ALL = {"plan_mode", "model_switch", "prompt_options", "system_append", "resume_session", "questions", "updated_input",
       "read_only", "images", "context_compaction"}  # fmt: skip


class Driven(NamedTuple):
    """An agent of a kind: how it is started, and what its adapter must find that it can do."""

    spec: AgentSpec
    can: frozenset[str]


def driven(name: str, home: Path, server: ModelServer | None = None) -> Driven:
    match name:
        case "builtin":
            assert server is not None
            return Driven(builtin(server, "chat"), frozenset(ALL - {"questions"}))
        case "acp":
            return Driven(misbehaving("--start=able"), frozenset({"plan_mode", "model_switch", "prompt_options",
                                                                  "resume_session", "read_only"}))
        case "acp-grouped":
            return Driven(misbehaving("--start=grouped"), driven("acp", home).can)
        case "acp-plain":
            return Driven(misbehaving(), frozenset({"read_only"}))
        case "exec":
            return Driven(program(ECHO), frozenset())
        case "claude":
            spec = AgentSpec(adapter="claude", command=str(HERE / "odd_claude.py"), env={"HOME": str(home)})
            return Driven(spec, frozenset(ALL - {"prompt_options", "system_append"}))
        case "dps":
            words = ["-I", "-S", str(HERE / "dps_words.py"), "able"]
            return Driven(AgentSpec(adapter="dps", command=sys.executable, args=words), frozenset(ALL - {"images"}))
        case _:
            raise KeyError(name)


CLAUDE = needs("claude-sdk", "claude")
NAMES = ("acp", "acp-grouped", "acp-plain", "builtin", CLAUDE, "dps", "exec")


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@asynccontextmanager
async def opened(name: str, tmp_path: Path, **fields: Any) -> AsyncIterator[tuple[Stage, Driven, Frame]]:
    (tmp_path / "work").mkdir()
    with running_model_server() if name == "builtin" else nullcontext() as server:
        agent = driven(name, tmp_path, server)
        async with stage(tmp_path / "work", {name: agent.spec}) as scene:
            yield scene, agent, await reopen(scene, name, **fields)


async def reopen(scene: Stage, name: str, **fields: Any) -> Frame:
    wanted = p.SessionOpen(session_id=scene.session_id, agent_id=name, workspace=str(scene.workspace),
                           **{"workspace_access": "rw", **fields})
    metadata = {"agent_session": fields["resume"]} if isinstance(fields.get("resume"), str) else None
    await scene.send("control.session.open", wanted, metadata)
    return await scene.next("session.capabilities", "session.error")


async def close(scene: Stage) -> None:
    await scene.send("control.session.close", p.SessionClose(reason="enough"))
    await scene.next("session.closed")


def state(scene: Stage) -> dict[str, str]:
    """The last report of the agent about its settings."""
    text = scene.all("agent.text.done")[-1].payload.text
    return dict(pair.split("=", 1) for pair in text.split() if "=" in pair)


async def refusal(scene: Stage) -> p.SessionError:
    return (await scene.next("session.error")).payload


@pytest.mark.req("A-6", "A-7")
async def test_the_declared_abilities_are_the_real_ones(name: str, tmp_path: Path) -> None:
    async with opened(name, tmp_path) as (_, agent, report):
        declared = {feature for feature in ALL if report.payload.features[feature]}
        assert declared == agent.can


@pytest.mark.req("A-6")
@pytest.mark.parametrize(("feature", "asked", "found"), [
    ("plan_mode", {"mode": "plan"}, {"mode": "plan"}),
    ("model_switch", {"model": "large"}, {"model": "large"}),
    ("prompt_options", {"options": {"thinking": "high"}}, {"effort": "high"}),
    ("system_append", {"system_append": "be-brief"}, {"system": "be-brief"}),
])  # fmt: skip
async def test_settings_of_a_prompt_reach_the_agent_or_are_refused(
    name: str, feature: str, asked: dict[str, Any], found: dict[str, str], tmp_path: Path
) -> None:
    async with opened(name, tmp_path) as (scene, agent, _):
        await scene.turn("state")
        before = state(scene) if agent.can else {}
        await scene.prompt("state", **asked)
        if feature in agent.can:
            await scene.next("session.usage")
            assert state(scene).items() >= found.items()
            assert scene.all("session.turn.start")[-1].payload.mode == asked.get("mode")
            # What one prompt asks for is not the next one's.
            await scene.turn("state")
            assert state(scene) == before
        else:
            error = await refusal(scene)
            assert (error.error_code, error.fatal) == ("UNSUPPORTED_CAPABILITY", False)
            assert feature in error.message
            assert len(scene.all("session.turn.start")) == 1
            assert (await scene.turn("text:still")).payload.stop_reason == "end_turn"


@pytest.mark.req("A-6")
@pytest.mark.parametrize("name", [name for name in NAMES if name != "dps"])  # A dps agent keeps its mode to itself.
async def test_a_mode_stays_until_it_is_switched_also_after_a_reopening(name: str, tmp_path: Path) -> None:
    async with opened(name, tmp_path) as (scene, agent, _):
        await scene.send("control.mode.switch", p.ModeSwitch(mode="plan"))
        if "plan_mode" not in agent.can:
            error = await refusal(scene)
            assert (error.error_code, "plan_mode" in error.message) == ("UNSUPPORTED_CAPABILITY", True)
            return
        for _ in range(2):
            await scene.turn("state")
            assert state(scene)["mode"] == "plan"
            await close(scene)
            await reopen(scene, name)
        await scene.send("control.mode.switch", p.ModeSwitch(mode="default"))
        await scene.turn("state")
        assert state(scene)["mode"] == "default"


@pytest.mark.req("A-6", "A-9")
@pytest.mark.parametrize("name", ["acp", "acp-grouped", "builtin", CLAUDE])
@pytest.mark.parametrize("mode", ["auto", "bypassPermissions", "acceptEdits"])
async def test_a_mode_that_lets_tools_run_without_asking_is_refused(name: str, mode: str, tmp_path: Path) -> None:
    async with opened(name, tmp_path) as (scene, _, _):
        await scene.prompt("state", mode=mode)
        assert (await refusal(scene)).error_code == "UNSUPPORTED_CAPABILITY"
        await scene.send("control.mode.switch", p.ModeSwitch(mode=mode))
        assert (await refusal(scene)).error_code == "UNSUPPORTED_CAPABILITY"
        await scene.turn("state")
        assert state(scene)["mode"] == "default"


@pytest.mark.req("A-7", "T-3")
@pytest.mark.parametrize("name", [name for name in NAMES if name != "builtin"])  # Its memory is the transcript.
async def test_a_later_opening_continues_or_reports_that_it_does_not(name: str, tmp_path: Path) -> None:
    async with opened(name, tmp_path) as (scene, agent, _):
        await scene.turn("state")
        await close(scene)
        already = len(scene.received)
        await reopen(scene, name, resume=True)
        await scene.turn("state")
        again = scene.received[already:]
        if "resume_session" in agent.can:
            assert state(scene)["loaded"] == "yes"
            assert [f.payload for f in again if f.type == "agent.error"] == []
        else:
            warnings = [f.payload for f in again if f.type == "agent.error"]
            assert [(one.severity, one.error_code) for one in warnings] == [("warning", "UNSUPPORTED_CAPABILITY")]
            assert "remembers nothing" in warnings[0].message
        # Updates that an agent sends while it loads its conversation are not sent again; the numbers continue.
        assert [f.type for f in again if f.type.startswith("tool.")] == []
        assert len([f for f in again if f.type == "agent.text.done"]) <= 1
        assert [f.payload.turn_index for f in scene.all("session.turn.start")] == [0, 1]


@pytest.mark.req("A-7")
async def test_an_agent_that_lost_its_conversation_reports_it(tmp_path: Path) -> None:
    async with stage(tmp_path, {"acp": misbehaving("--start=forgetful")}) as scene:
        await reopen(scene, "acp")
        await scene.turn("text:one")
        await close(scene)
        await reopen(scene, "acp", resume=True)
        await scene.turn("text:two")
        report = scene.all("agent.error")[-1].payload
        assert (report.severity, "no session misbehaving-" in report.message) == ("warning", True)
        assert scene.text() == "onetwo"


@pytest.mark.req("A-7", "D-6")
async def test_the_agents_conversation_id_survives_the_runner(tmp_path: Path) -> None:
    agents = {"acp": misbehaving("--start=able")}
    async with stage(tmp_path, agents) as first:
        report = await reopen(first, "acp")
        await first.turn("state")
    async with stage(tmp_path, agents, outbox=first.outbox, machine=first.machine) as second:
        second.session_id, second._control_seq = first.session_id, first._control_seq
        await reopen(second, "acp", resume=True)
        await second.turn("state")
        assert state(second)["loaded"] == "yes"
        assert second.all("session.turn.start")[-1].payload.turn_index == 1
    # A runner that has forgotten the session is given the name back by its gateway.
    async with stage(tmp_path, agents) as third:
        wanted = p.SessionOpen(session_id=third.session_id, agent_id="acp", workspace=str(tmp_path),
                               workspace_access="rw", resume=True)
        await third.send("control.session.open", wanted, {"agent_session": report.metadata["agent_session"]})
        await third.turn("state")
        assert state(third)["loaded"] == "yes"


@pytest.mark.req("A-5", "A-7")
@pytest.mark.parametrize("name", [CLAUDE, "dps"])
async def test_a_question_is_answered_with_text_or_declined(name: str, tmp_path: Path) -> None:
    async with opened(name, tmp_path) as (scene, _, _):
        await scene.prompt("question:which")
        asked = await scene.next("agent.interaction.request")
        assert (asked.payload.interaction_type, asked.payload.title) == ("QUESTION", "which")
        assert msgspec.json.decode(asked.payload.context.input)["question"] == "which"
        assert scene.all("agent.state.changed")[-1].payload.state == "waiting_input"
        await scene.answer(asked, "allow", answer="the-left-one")
        assert (await scene.next("x-interlock.interaction.resolved")).payload.outcome == "allowed"
        await scene.next("session.usage")
        assert state(scene) == {"answer": "the-left-one"}

        await scene.prompt("question:which")
        asked = await scene.next("agent.interaction.request")
        await scene.send("control.interaction.timeout",
                         p.InteractionTimeout(interaction_id=asked.payload.interaction_id))
        assert (await scene.next("x-interlock.interaction.resolved")).payload.outcome == "expired"
        await scene.next("session.usage")
        assert state(scene) == {"answer": "None"}

        # A grant without text is not an answer.
        await scene.prompt("question:which")
        await scene.answer(await scene.next("agent.interaction.request"), "allow")
        await scene.next("session.usage")
        assert state(scene) == {"answer": "None"}

        await scene.prompt("question:which")
        await scene.next("agent.interaction.request")
        await close(scene)
        assert scene.all("x-interlock.interaction.resolved")[-1].payload.outcome == "void"


@pytest.mark.req("P-2", "A-5")
@pytest.mark.needs("claude-sdk")
async def test_a_tool_runs_with_the_changed_input(tmp_path: Path) -> None:
    async with opened("claude", tmp_path) as (scene, _, _):
        await scene.prompt("write:asked.txt")
        await scene.answer(await scene.next("agent.interaction.request"), "allow",
                           updated_input={"file_path": "other.txt", "content": "x"})
        await scene.next("session.usage")
        assert state(scene) == {"input": "other.txt"}
        assert len(scene.all("agent.interaction.request")) == 1
        assert scene.all("agent.error") == []


@pytest.mark.req("P-2", "A-5")
async def test_a_changed_input_that_an_agent_cannot_accept_is_a_denial(tmp_path: Path) -> None:
    async with opened("acp", tmp_path) as (scene, _, _):
        await scene.prompt("ask")
        await scene.answer(await scene.next("agent.interaction.request"), "allow", updated_input={"path": "other.txt"})
        assert (await scene.next("tool.invoke.result")).payload.status == "denied"
        assert list(scene.workspace.iterdir()) == []


@pytest.mark.req("A-1", "A-5")
@pytest.mark.parametrize(("name", "words"), [
    ("acp", "ask"), needs("claude-sdk", "claude", "write:a.txt"), ("dps", "tool:a.txt")])
async def test_a_read_only_agent_writes_nothing_without_an_approval(name: str, words: str, tmp_path: Path) -> None:
    async with opened(name, tmp_path, workspace_access="ro") as (scene, _, report):
        assert report.type == "session.capabilities"
        await scene.turn(words)
        assert scene.all("agent.interaction.request") == []
        assert "may only read" in scene.all("agent.error")[-1].payload.message
        assert list(scene.workspace.iterdir()) == []


@pytest.mark.req("A-1")
@pytest.mark.parametrize(("name", "access"), [
    ("exec", "ro"), ("exec", "none"), ("acp", "none"), needs("claude-sdk", "claude", "none"), ("dps", "none")])
async def test_an_access_level_that_cannot_be_enforced_is_refused(name: str, access: str, tmp_path: Path) -> None:
    async with opened(name, tmp_path, workspace_access=access) as (scene, _, report):
        assert (report.payload.error_code, report.payload.fatal) == ("WORKSPACE_REFUSED", True)
        await scene.next("session.closed")


@pytest.mark.req("A-1", "A-10")
async def test_an_agent_with_its_own_modes_makes_no_claim(tmp_path: Path) -> None:
    async with stage(tmp_path, {"acp": misbehaving("--start=auto")}) as scene:
        report = await reopen(scene, "acp")
        assert report.payload.features["permission"] == "never"
        await close(scene)
        refused = await reopen(scene, "acp", workspace_access="ro")
        assert refused.payload.error_code == "WORKSPACE_REFUSED"
    async with stage(tmp_path, {"acp": misbehaving("--start=able")}) as scene:
        await reopen(scene, "acp", workspace_access="ro")
        # A call without a question cannot be held; it is reported.
        await scene.turn("diff:notes.txt")
        assert "without asking" in scene.all("agent.error")[-1].payload.message
        await scene.turn("mode:auto text:there")
        changed = scene.all("x-interlock.asking.changed")[-1].payload
        assert (changed.asks, "its mode 'auto'" in changed.message) == (False, True)
        await scene.turn("text:more")
        assert scene.all("x-interlock.asking.changed")[-1].payload.asks, "it is put back before the next prompt"


@pytest.mark.req("A-6")
@pytest.mark.parametrize("name", ["acp-plain", "exec"])
async def test_images_are_refused_by_name_if_unsupported(name: str, tmp_path: Path) -> None:
    async with opened(name, tmp_path) as (scene, _, _):
        image = {"type": "image", "data": "", "media_type": "image/png"}
        await scene.send("control.prompt.request", p.PromptRequest(
            prompt_id="p-image", input_type="blocks", origin="user", content=[image]))
        error = await refusal(scene)
        assert (error.error_code, "images" in error.message) == ("UNSUPPORTED_CAPABILITY", True)
        assert scene.all("session.turn.start") == []


@pytest.mark.req("A-6", "T-6")
@pytest.mark.parametrize("name", ["acp", "acp-plain", "exec"])
async def test_compaction_is_refused_by_name_if_unsupported(name: str, tmp_path: Path) -> None:
    async with opened(name, tmp_path) as (scene, _, _):
        await scene.send("control.session.compact", p.SessionCompact(request_id="r"))
        error = await refusal(scene)
        assert (error.error_code, "context_compaction" in error.message) == ("UNSUPPORTED_CAPABILITY", True)
