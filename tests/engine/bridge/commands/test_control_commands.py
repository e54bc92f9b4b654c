"""Pause, resume and cancel under policy: by their type, and a cancel never (P-1, F-1, C-2)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.conversation import OWNER, Table, remember
from interlock.command.policy.policy import Rule, RuleSet
from interlock.protocol.problems import Problem
from interlock.protocol.resources import CommandBody, Target

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-2", "P-1")]


async def running(table: Table) -> Any:
    command = await table.execute()
    await table.opened(command.target.session_id)
    await table.started(command.target.session_id)
    return command


@pytest.mark.parametrize("kind", ["pause", "resume"])
@pytest.mark.parametrize(("effect", "code"), [("ask", "ApprovalRequired"), ("deny", "Forbidden")])
async def test_a_pause_or_resume_that_a_rule_holds_is_refused_and_does_nothing(
    kind: str, effect: Any, code: str
) -> None:
    table = Table(RuleSet([Rule(name="careful", type=kind, effect=effect)]))
    command = await running(table)
    if kind == "resume":
        await table.order("pause", command.id)
    sent, state = len(table.wire.sent), await table.state(command.id)
    with pytest.raises(Problem, match="Policy rule careful") as refused:
        await table.order(kind, command.id)
    assert refused.value.code == code
    assert (len(table.wire.sent), await table.state(command.id)) == (sent, state)


@pytest.mark.req("C-0")
@pytest.mark.parametrize("kind", ["pause", "resume", "cancel"])
async def test_a_payload_of_a_control_command_is_ignored(kind: str) -> None:
    table = Table()
    command = await running(table)
    if kind == "resume":
        await table.order("pause", command.id)
    body = CommandBody(type=kind, target=Target(command_id=command.id),  # type: ignore[arg-type]
                       payload=msgspec.Raw(b'{"messages": [], "tools": []}'))
    steered = await table.engine.submit(OWNER, body, remember)
    assert (steered.type, steered.target.command_id) == (kind, command.id)
    assert table.wire.types()[-1] == f"control.turn.{kind}"


@pytest.mark.parametrize("effect", ["ask", "deny"])
async def test_a_cancel_is_allowed_despite_any_rule(effect: Any) -> None:
    table = Table()
    command = await running(table)
    table.engine.configure(RuleSet([Rule(name="nothing at all", door="command", effect=effect)]), table.limits)
    await table.cancel(command.id)
    assert (await table.state(command.id), table.wire.types()[-1]) == ("canceling", "control.turn.cancel")


def test_a_rule_must_name_existing_types_and_cannot_hold_a_cancel() -> None:
    with pytest.raises(ValueError, match="type: there is no exceute; the types are execute, "):
        Rule(name="typo", type="exceute", effect="deny")
    with pytest.raises(ValueError, match="type: a cancel is never held"):
        Rule(name="trap", type=["pause", "cancel"], effect="ask")
    assert Rule(name="fine", type="cancel", effect="allow").type == "cancel"
