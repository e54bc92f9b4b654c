"""What a gateway begins while an audit log cannot be signed: nothing; what is under way goes on (U-3)."""

from __future__ import annotations

import pytest

from engine.conversation import Table
from interlock.engine.bridge.inputs.gateway import StartLooked
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Target

pytestmark = pytest.mark.anyio


@pytest.mark.req("U-3")
async def test_no_command_is_taken_while_the_log_cannot_be_signed_and_turns_go_on() -> None:
    table = Table()
    first = await table.execute("first")
    session_id = first.target.session_id
    waiting = await table.execute("second", target=Target(session_id=session_id))
    await table.opened(session_id)
    await table.started(session_id)
    table.engine.signing.failed("default", "The bucket is away.")
    with pytest.raises(Problem, match="cannot be signed, so nothing new is started: The bucket is away") as refused:
        await table.execute("third", target=Target(session_id=session_id))
    assert (refused.value.code, refused.value.headers) == ("Unavailable", {"Retry-After": "5"})
    await table.ended(session_id)
    assert (await table.state(first.id), await table.state(waiting.id)) == ("succeeded", "queued")
    table.engine.signing.signed("default")
    await (await table.lane(session_id)).call(StartLooked())
    assert await table.state(waiting.id) == "dispatched"
    await table.execute("third", target=Target(session_id=session_id))
    await table.engine.stop()


@pytest.mark.req("U-3")
async def test_one_tenants_log_that_cannot_be_signed_does_not_stop_another() -> None:
    table = Table()
    table.engine.signing.failed("other", "It was rewritten.")
    command = await table.execute()
    assert await table.state(command.id) == "dispatched"
    await table.engine.stop()
