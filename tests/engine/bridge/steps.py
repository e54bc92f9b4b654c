"""Steps of a command's life that the tests of several rooms share."""

from __future__ import annotations

from typing import Any

from engine.conversation import Table
from interlock.protocol import payloads as p


async def command_running(table: Table, **fields: Any) -> tuple[Any, str]:
    """A command whose turn has started, and its session's id."""
    command = await table.execute(**fields)
    await table.opened(command.target.session_id)
    await table.started(command.target.session_id)
    return command, command.target.session_id


async def running(table: Table, **fields: Any) -> tuple[str, str]:
    """A command whose turn has started: its id and its session's."""
    command, session_id = await command_running(table, **fields)
    return command.id, session_id


async def restarted(table: Table, session_id: str) -> None:
    """The runner's report of an open turn after its own restart (D-6)."""
    await table.send(session_id, "agent.error", p.AgentError(
        severity="fatal", error_code="RUNNER_RESTARTED", message="The runner was started anew.", turn_id="t1"))
    await table.ended(session_id, "error")
    await table.send(session_id, "session.closed", p.SessionClosed(reason="the runner was started anew"))


async def shown(table: Table, command_id: str) -> Any:
    """The command as the ledger has it."""
    record = await table.ledger.command(command_id, "default")
    assert record is not None
    return record.command


async def ended(table: Table, command: Any) -> tuple[str, str | None]:
    """The command's state, and the code of its error."""
    found = await shown(table, command.id)
    return found.state, found.error.code if found.error is not None else None


async def refused_prompt(table: Table, session_id: str, code: str) -> None:
    """The runner's refusal of the last prompt, with this code."""
    prompt = table.wire.last("control.prompt.request")
    await table.send(session_id, "session.error", p.SessionError(error_code=code, message="no", fatal=False),
                     in_reply_to=prompt.message_id)
