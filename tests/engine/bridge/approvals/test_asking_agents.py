"""Requests to a session beside its commands: an answer to its agent's question, a compaction, a mode for a prompt."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.conversation import OWNER, Table, remember
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.presence import Present
from interlock.protocol import payloads as p
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Approval, CommandBody, Target

pytestmark = pytest.mark.anyio


async def ask(table: Table, session_id: str, text: str = "which branch?") -> Approval:
    """The agent asks its user something in mid-turn."""
    await table.send(session_id, "agent.interaction.request", p.InteractionRequest(
        interaction_id="q1", interaction_type="QUESTION", title=text,
        context=p.InteractionContext(tool_name="AskUserQuestion", input=msgspec.Raw(b'{"question":"which"}'))))
    return (await table.ledger.approvals("default", "pending", None, 10))[0].approval


async def at_work(table: Table) -> Any:
    command = await table.execute()
    await table.opened(command.target.session_id)
    await table.started(command.target.session_id)
    return command


async def able(table: Table, session_id: str, **features: Any) -> None:
    await table.send(session_id, "session.capabilities", p.Capabilities(
        dps_version=DPS_VERSION, features={"adapter_type": "process", "permission": "asks", **features}),
        agent_session="own-name")


async def rested(table: Table, **features: Any) -> str:
    """A session with one turn behind it; its id."""
    command = await table.execute()
    session_id = command.target.session_id
    await table.reattach(session_id, 0)
    await able(table, session_id, **features)
    await table.started(session_id)
    await table.ended(session_id)
    return session_id


@pytest.mark.req("C-8", "A-5")
async def test_a_question_is_answered_and_never_voted_on() -> None:
    table = Table()
    session_id = (await at_work(table)).target.session_id
    question = await ask(table, session_id)
    assert (question.kind, bytes(question.input)) == ("question", b'{"question":"which"}')
    with pytest.raises(Problem, match="answered, not voted on"):
        await table.vote(question.id, "grant")
    answered = await table.engine.answer(OWNER, question.id, "main", remember)
    assert (answered.state, answered.answer, answered.votes) == ("granted", "main", [])
    response = table.wire.last("control.interaction.response").payload
    assert (response.decision, response.answer, response.by) == ("allow", "main", "user:owner")
    with pytest.raises(Problem, match=r"already answered by user:owner at \S+; this answer was not taken"):
        await table.engine.answer(OWNER, question.id, "other", remember)
    await table.send(session_id, "x-interlock.interaction.resolved", p.InteractionResolved(
        interaction_id="q1", outcome="allowed", decided_at=""))
    record = await table.ledger.approval(question.id, "default")
    assert record is not None
    assert record.approval.state == "consumed"
    with pytest.raises(Problem, match="already answered by user:owner"):
        await table.engine.answer(OWNER, question.id, "other", remember)


@pytest.mark.req("C-8", "P-6")
async def test_a_late_answer_is_refused_although_no_timer_has_fired() -> None:
    table = Table()
    question = await ask(table, (await at_work(table)).target.session_id)
    table.clock.advance(24 * 3_600_000)
    with pytest.raises(Problem, match=rf"Question {question.id} expired at \S+; this answer was not taken"):
        await table.engine.answer(OWNER, question.id, "main", remember)
    assert table.wire.types()[-1] == "control.interaction.timeout"


@pytest.mark.req("C-8", "A-5")
async def test_a_declined_and_an_expired_question_are_answered_as_cancelled() -> None:
    table = Table()
    session_id = (await at_work(table)).target.session_id
    question = await ask(table, session_id)
    for empty in ("", "  "):
        with pytest.raises(Problem, match="null declines"):
            await table.engine.answer(OWNER, question.id, empty, remember)
    declined = await table.engine.answer(OWNER, question.id, None, remember)
    assert (declined.state, declined.answer) == ("denied", None)
    response = table.wire.last("control.interaction.response").payload
    assert (response.decision, response.answer) == ("deny", None)


@pytest.mark.req("C-8", "P-6")
async def test_a_permission_request_is_not_answered_with_text() -> None:
    table = Table()
    session_id = (await at_work(table)).target.session_id
    await table.asked(session_id)
    asked = (await table.ledger.approvals("default", "pending", None, 10))[0].approval
    with pytest.raises(Problem, match="not for words"):
        await table.engine.answer(OWNER, asked.id, "yes", remember)
    assert "control.interaction.response" not in table.wire.types()


@pytest.mark.req("T-6", "A-6", "T-1")
async def test_a_requested_compaction_holds_the_next_prompt() -> None:
    table = Table()
    session_id = await rested(table, context_compaction=True)
    asked = await table.engine.sessions.compact(OWNER, session_id, "keep the plan", remember)
    frame = table.wire.last("control.session.compact")
    assert (frame.message_id, frame.payload.instructions) == (asked.message_id, "keep the plan")
    with pytest.raises(Problem, match="at work"):
        await table.engine.sessions.compact(OWNER, session_id, None, remember)
    command = await table.execute("next", target=Target(session_id=session_id))
    assert await table.state(command.id) == "queued"
    await table.send(session_id, "session.compacted", p.Compacted(
        summary="s", previous_token_count=9, current_token_count=1, preserved_elements={}, trigger="requested"),
        in_reply_to=asked.message_id)
    assert await table.state(command.id) == "dispatched"
    assert "compact" in await table.actions()


@pytest.mark.req("T-6")
@pytest.mark.parametrize("how", ["refused", "closed"])
async def test_a_failed_compaction_lets_the_session_continue(how: str) -> None:
    table = Table()
    session_id = await rested(table, context_compaction=True)
    asked = await table.engine.sessions.compact(OWNER, session_id, None, remember)
    if how == "refused":
        await table.send(session_id, "session.error", p.SessionError(
            error_code="COMPACTION_FAILED", message="too short", fatal=False), in_reply_to=asked.message_id)
    else:
        await table.send(session_id, "session.closed", p.SessionClosed(reason="gone"))
    command = await table.execute("next", target=Target(session_id=session_id))
    assert await table.state(command.id) == "dispatched"


@pytest.mark.req("T-6", "A-6")
async def test_an_impossible_compaction_is_refused_before_anything_is_sent() -> None:
    table = Table()
    session_id = await rested(table)
    with pytest.raises(Problem, match="context_compaction"):
        await table.engine.sessions.compact(OWNER, session_id, None, remember)
    command = await table.execute("next", target=Target(session_id=session_id))
    with pytest.raises(Problem, match="at work"):
        await table.engine.sessions.compact(OWNER, session_id, None, remember)
    assert await table.state(command.id) == "dispatched"
    assert "control.session.compact" not in table.wire.types()


@pytest.mark.req("T-6", "A-7")
async def test_a_closed_session_is_reopened_with_all_its_settings() -> None:
    table = Table()
    session_id = await rested(table, context_compaction=True)
    await table.send(session_id, "session.closed", p.SessionClosed(reason="idle"))
    await table.engine.sessions.compact(OWNER, session_id, None, remember)
    opening = table.wire.last("control.session.open")
    assert opening.payload.resume is True
    assert opening.metadata["agent_session"] == "own-name"
    assert opening.metadata["next_turn_index"] == 1
    assert table.wire.types()[-2:] == ["control.session.open", "control.session.compact"]


@pytest.mark.req("A-6", "C-0")
async def test_a_payload_sets_the_agent_for_its_prompt() -> None:
    table = Table()
    payload = {"messages": [{"role": "user", "content": [{"contentType": "text", "value": "hi"}]}], "mode": "plan",
               "model": "large", "options": {"thinking": "high"}, "system_append": "be brief"}
    body = CommandBody(type="execute", target=Target(agent_id="shell"),
                       payload=msgspec.Raw(msgspec.json.encode(payload)))
    await table.engine.submit(OWNER, body, remember)
    asked = table.wire.last("control.prompt.request").payload
    assert (asked.mode, asked.model, asked.options, asked.system_append) == (
        "plan", "large", {"thinking": "high"}, "be brief")


@pytest.mark.req("A-6")
async def test_a_setting_that_the_agent_refuses_fails_the_command_by_name() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    prompt = table.wire.last("control.prompt.request")
    await table.send(session_id, "session.error", p.SessionError(
        error_code="UNSUPPORTED_CAPABILITY", message="This agent does not offer plan_mode.", fatal=False),
        in_reply_to=prompt.message_id)
    record = await table.ledger.command(command.id, "default")
    assert record is not None
    assert record.command.error is not None
    assert (record.command.state, record.command.error.code) == ("failed", "UNSUPPORTED_CAPABILITY")


@pytest.mark.req("L-4", "A-8")
async def test_an_agent_without_its_program_is_refused_before_anything_is_stored() -> None:
    table = Table()
    gone = msgspec.structs.replace(table.hello.agents[0], unavailable="its program 'x' is not on the runner")
    hello = msgspec.structs.replace(table.hello, agents=[gone])
    table.engine.presence.arrive(Present(table.record, hello, 0)).connect(table.wire)
    with pytest.raises(Problem, match="its program 'x' is not on the runner"):
        await table.execute()
    with pytest.raises(Problem, match="its program 'x' is not on the runner"):
        await table.execute(target=Target(agent_id="shell", runner_id="local"))
    assert await table.ledger.sessions("default", 10, None) == []


# --- verbs that policy holds ---
HOLDING = RuleSet([Rule(name="two pairs of eyes", effect="ask", door="command", type=["close", "compact"]),
                   Rule(name="nobody", effect="deny", door="command", type="release", reason="It stays here.")])


@pytest.mark.req("F-1", "P-1")
async def test_a_verb_that_cannot_wait_is_refused_if_policy_requires_approval() -> None:
    table = Table()
    session_id = await rested(table, context_compaction=True)
    sent = len(table.wire.sent)
    table.engine.policy = HOLDING
    for refused, code in ((table.engine.sessions.close(OWNER, session_id, "over", remember), "ApprovalRequired"),
                          (table.engine.sessions.compact(OWNER, session_id, None, remember), "ApprovalRequired"),
                          (table.engine.sessions.release(OWNER, session_id, "gw_2", remember), "Forbidden")):
        with pytest.raises(Problem) as problem:
            await refused
        assert problem.value.code == code
        assert "rule" in problem.value.detail
    assert len(table.wire.sent) == sent
    table.engine.policy = RuleSet()
    await table.engine.sessions.compact(OWNER, session_id, None, remember)
    assert len(table.wire.sent) == sent + 1
