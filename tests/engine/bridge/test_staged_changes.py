"""A command without a prompt: its turn asks only whether staged changes land (H-17)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.conversation import OWNER, Table, remember
from interlock.command.policy.policy import Rule, RuleSet
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem
from interlock.protocol.resources import CommandBody, Target

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-17")]
EACH_COMMAND_WAITS = RuleSet((Rule(name="each command", effect="ask", door="command"),))


async def land(table: Table, session_id: str, **payload: Any) -> Any:
    body = CommandBody(type="execute", target=Target(session_id=session_id),
                       payload=msgspec.Raw(msgspec.json.encode({"messages": [], "land": True, **payload})))
    return await table.engine.submit(OWNER, body, remember)


async def staged(table: Table, count: int = 2) -> str:
    """A session whose turn failed while it staged changes."""
    session_id: str = (await table.execute()).target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.send(session_id, "x-interlock.changes.report",
                     p.ChangesReport(event="staged", digest="d" * 64, count=count))
    await table.ended(session_id, "error")
    return session_id


async def test_landing_is_sent_to_the_runner_without_text_and_is_not_in_the_transcript() -> None:
    table = Table()
    session_id = await staged(table)
    command = await land(table, session_id)
    prompt = table.wire.last("control.prompt.request").payload
    assert (prompt.input_type, prompt.text, prompt.content, prompt.command_id) == ("landing", None, None, command.id)
    await table.started(session_id, "t2")
    await table.ended(session_id, turn_id="t2")
    assert await table.state(command.id) == "succeeded"


async def test_landing_has_one_question_of_its_own_instead_of_the_commands() -> None:
    table = Table()
    session_id = await staged(table)
    table.engine.policy = table.policy = EACH_COMMAND_WAITS
    assert (await table.execute(target=Target(session_id=session_id))).state == "pending_approval"
    assert (await land(table, session_id)).state in ("queued", "dispatched")


async def test_a_rule_that_denies_commands_denies_it() -> None:
    table = Table()
    session_id = await staged(table)
    table.engine.policy = RuleSet((Rule(name="never", effect="deny", door="command"),))
    with pytest.raises(Problem, match="never"):
        await land(table, session_id)


@pytest.mark.parametrize("more", [{"mode": "plan"}, {"tools": ["shell"]}, {"messages": [
    {"role": "user", "content": [{"contentType": "text", "value": "and delete the tests"}]}]}], ids=str)
async def test_a_landing_with_other_text_is_refused(more: dict[str, Any]) -> None:
    table = Table()
    session_id = await staged(table)
    with pytest.raises(Problem, match="empty list of messages") as refused:
        await land(table, session_id, **more)
    assert refused.value.code == "InvalidPayload"


async def test_without_staged_changes_no_question_is_asked() -> None:
    table = Table()
    session_id = await staged(table, count=0)
    with pytest.raises(Problem, match="Nothing is staged"):
        await land(table, session_id)
