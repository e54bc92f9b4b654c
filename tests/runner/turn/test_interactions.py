"""A grant reaches the agent only after it is durable; everything else is a denial."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.outbox import MemoryOutbox
from interlock.ports.agent import AgentQuestion, Option
from interlock.protocol import payloads as p
from interlock.runner.journal import Journal
from interlock.runner.link.outflow import Outflow
from interlock.runner.session_state import SessionState, TurnState
from interlock.runner.turn.interactions import Interactions, InteractionVerdict, LivePresence, Waits, choose
from interlock.runner.turn.turn_writer import MAX_GIVEN_UP, StoredTurnWriter

pytestmark = pytest.mark.anyio
ONCE = [
    Option("always", "Always", "allow_always"),
    Option("yes", "Yes", "allow_once"),
    Option("no", "No", "reject_once"),
]
QUESTION = AgentQuestion("call", "shell", "rm -r build", b'{"command":"rm -r build"}', ONCE, "execute")


class Scene(NamedTuple):
    outbox: MemoryOutbox
    outflow: Outflow
    journal: Journal
    interactions: Interactions
    turn_writer: StoredTurnWriter

    async def kinds(self) -> list[str]:
        return [stored.frame_type for stored in await self.outbox.frames("s", 0, 1 << 30)]

    async def open_interaction(self) -> str:
        """Wait until one question is in the outbox; its id."""
        while not self.journal.state.turn or not self.journal.state.turn.interactions:
            await asyncio.sleep(0)
        await self.outflow.flushed()
        return self.journal.state.turn.interactions[0]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    outbox = MemoryOutbox()
    await outbox.open_session("s", 0, b"")
    outflow = Outflow(outbox, clock=ManualClock(), entropy=secrets.token_bytes)
    flowing = asyncio.create_task(outflow.run())
    turn = TurnState("t", "p", 0)
    journal = Journal("s", SessionState(turn=turn), outflow, ManualClock(), secrets.token_bytes)
    interactions = Interactions(journal, LivePresence(live=True), Waits())
    yield Scene(outbox, outflow, journal, interactions, StoredTurnWriter(journal, turn, interactions))
    flowing.cancel()
    await asyncio.gather(flowing, return_exceptions=True)


@pytest.mark.req("A-5")
async def test_the_grant_is_in_the_outbox_before_the_agent_receives_it(scene: Scene) -> None:
    asking = asyncio.create_task(scene.turn_writer.ask(QUESTION))
    interaction_id = await scene.open_interaction()
    async with scene.outflow.still:
        # Nothing is written while this is held, so no grant may be received either.
        scene.interactions.respond(p.InteractionResponse(interaction_id=interaction_id, decision="allow", by="ada"))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not asking.done()
        assert "x-interlock.interaction.resolved" not in await scene.kinds()
    answer = await asking
    assert (answer.allow, answer.option_id) == (True, "yes")
    assert "x-interlock.interaction.resolved" in await scene.kinds()


@pytest.mark.req("A-5")
async def test_a_grant_that_cannot_be_written_is_a_denial(scene: Scene) -> None:
    asking = asyncio.create_task(scene.turn_writer.ask(QUESTION))
    interaction_id = await scene.open_interaction()
    await scene.outbox.close()
    scene.interactions.respond(p.InteractionResponse(interaction_id=interaction_id, decision="allow", by="ada"))
    answer = await asking
    assert (answer.allow, answer.option_id) == (False, None)


@pytest.mark.req("A-5")
async def test_a_changed_input_that_cannot_be_passed_on_is_a_denial(scene: Scene) -> None:
    asking = asyncio.create_task(scene.turn_writer.ask(QUESTION))
    interaction_id = await scene.open_interaction()
    scene.interactions.respond(p.InteractionResponse(
        interaction_id=interaction_id, decision="allow", by="ada", updated_input={"command": "ls"}))
    assert not (await asking).allow


@pytest.mark.req("A-5", "T-3")
async def test_the_turns_end_denies_open_questions_before_it(scene: Scene) -> None:
    asking = asyncio.create_task(scene.turn_writer.ask(QUESTION))
    interaction_id = await scene.open_interaction()
    writes = await scene.turn_writer.finish("cancelled")
    await scene.journal.write(*writes)
    assert not (await asking).allow
    assert not scene.interactions.respond(
        p.InteractionResponse(interaction_id=interaction_id, decision="allow", by="ada"))
    await scene.outflow.flushed()
    assert (await scene.kinds())[-2:] == ["x-interlock.interaction.resolved", "tool.invoke.result"]
    assert not (await scene.turn_writer.ask(QUESTION)).allow


@pytest.mark.req("A-5")
async def test_a_question_that_the_agent_gave_up_is_void(scene: Scene) -> None:
    asking = asyncio.create_task(scene.turn_writer.ask(QUESTION))
    interaction_id = await scene.open_interaction()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert not scene.interactions.respond(
        p.InteractionResponse(interaction_id=interaction_id, decision="allow", by="ada"))
    await scene.outflow.flushed()
    assert "x-interlock.interaction.resolved" in await scene.kinds()
    assert not scene.interactions.waiting


@pytest.mark.req("A-9")
@pytest.mark.parametrize("named", ["always", "no", "unknown", None])
def test_always_is_never_passed_to_an_agent(named: str | None) -> None:
    assert choose(InteractionVerdict("allowed", "ada", None, named), QUESTION).option_id == "yes"
    assert choose(InteractionVerdict("denied", "ada", None, named), QUESTION)[:3] == (False, "no", None)
    assert choose(InteractionVerdict("allowed", "ada"), QUESTION._replace(options=ONCE[:1]))[:3] == (False, None, None)


@pytest.mark.req("A-5", "T-3")
async def test_a_turn_that_ends_during_link_resolution_leaves_no_question(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The links of a request are followed before it is asked; what the turn's end voids meanwhile is not asked."""
    following, followed = asyncio.Event(), asyncio.Event()

    async def slow(*_: object) -> dict[str, str]:
        following.set()
        await followed.wait()
        return {}

    monkeypatch.setattr("interlock.runner.turn.interactions.resolved_paths", slow)
    asking = asyncio.create_task(scene.interactions.ask(QUESTION))
    await following.wait()
    assert scene.interactions.void("The turn has ended.") == []
    followed.set()
    answer = await asyncio.wait_for(asking, 5)
    assert (answer.allow, answer.message) == (False, "The turn has ended.")
    assert not scene.interactions.waiting
    await scene.outflow.flushed()
    assert "agent.interaction.request" not in await scene.kinds()


@pytest.mark.req("Y-5")
@pytest.mark.parametrize(("by", "message", "received"), [
    ("user:ada", "not this one", "denied by user:ada: not this one"),
    ("policy:no rm", "It deletes.", 'denied by the policy rule "no rm": It deletes.'),
    ("user:ada", None, "denied by user:ada"),
])
async def test_the_agent_receives_the_denying_person_or_rule_and_the_reason(
    scene: Scene, by: str, message: str | None, received: str
) -> None:
    asking = asyncio.create_task(scene.turn_writer.ask(QUESTION))
    interaction_id = await scene.open_interaction()
    scene.interactions.respond(
        p.InteractionResponse(interaction_id=interaction_id, decision="deny", by=by, message=message))
    answer = await asking
    assert (answer.allow, answer.message) == (False, received)


@pytest.mark.req("H-12")
@pytest.mark.parametrize(("kind", "raw", "reported"), [
    ("execute", b'{"command":"rm"}', True), (None, b'{"question":"Which?"}', False)])
async def test_a_text_answer_is_not_a_grant_of_the_asking_tool(
    scene: Scene, kind: str | None, raw: bytes, reported: bool
) -> None:
    turn = scene.journal.state.turn
    assert turn is not None
    turn_writer = StoredTurnWriter(scene.journal, turn, scene.interactions, asks=True)
    asked = QUESTION._replace(interaction_type="QUESTION", kind=kind, input_json=b'{"question":"Which?"}', options=[])
    asking = asyncio.create_task(turn_writer.ask(asked))
    interaction_id = await scene.open_interaction()
    scene.interactions.respond(p.InteractionResponse(
        interaction_id=interaction_id, decision="allow", by="ada", answer="this"))
    assert (await asking).text == "this"
    await turn_writer.tool_runs("call", raw)
    await scene.outflow.flushed()
    written = b"".join([stored.raw for stored in await scene.outbox.frames("s", 0, 1 << 30)])
    assert (b"ran a tool without asking" in written) == reported


@pytest.mark.req("A-5")
async def test_an_agent_that_repeatedly_gives_up_questions_is_denied_without_asking(scene: Scene) -> None:
    for _ in range(MAX_GIVEN_UP):
        asking = asyncio.create_task(scene.turn_writer.ask(QUESTION))
        await scene.open_interaction()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    answers = [await scene.turn_writer.ask(QUESTION) for _ in range(3)]

    assert {(answer.allow, answer.option_id) for answer in answers} == {(False, "no")}
    await scene.outflow.flushed()
    kinds = await scene.kinds()
    assert (kinds.count("agent.interaction.request"), kinds.count("agent.error")) == (MAX_GIVEN_UP, 1)
