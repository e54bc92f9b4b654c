"""An agent's plan and settings, from the runner's frames to the session that people see (J-14)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.conversation import OWNER, Table, remember
from interlock.gateway.rest.operations.session_report import AgentReport, read_report
from interlock.protocol import payloads as p
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.resources import Target

pytestmark = [pytest.mark.anyio, pytest.mark.req("J-14")]
MODES = p.AgentSettings(mode=p.AgentSetting(current="default", values=[
    p.SettingValue(id="default"), p.SettingValue(id="plan"), p.SettingValue(id="yolo", allowed=False)]))
IN_PLAN = p.AgentSettings(mode=p.AgentSetting(current="plan"))
STEPS = [p.PlanStep(content="look", status="completed"), p.PlanStep(content="mend", status="in_progress")]


async def opened(table: Table, **features: Any) -> str:
    command = await table.execute()
    session_id = command.target.session_id
    await table.send(session_id, "session.capabilities", p.Capabilities(
        dps_version=DPS_VERSION, settings=MODES,
        features={"adapter_type": "process", "permission": "asks", "modes": ["default", "plan", "yolo"]} | features))
    return session_id


async def plans(table: Table, session_id: str, *steps: p.PlanStep, **metadata: Any) -> None:
    await table.send(session_id, "x-interlock.plan.changed", p.PlanChanged(turn_id="t1", steps=list(steps)), **metadata)


async def report(table: Table, session_id: str) -> AgentReport:
    record = await table.ledger.session(session_id)
    assert record is not None
    return await read_report(table.ledger, record)


def table_begun() -> Table:
    table = Table()
    table.begin()
    return table


async def test_a_session_shows_its_initial_settings_and_then_the_changed_ones() -> None:
    table = table_begun()
    session_id = await opened(table)
    assert (await report(table, session_id)) == (None, MODES)
    await table.send(session_id, "x-interlock.settings.changed", IN_PLAN)
    await table.restart()
    assert (await report(table, session_id)).settings == IN_PLAN
    await table.send(session_id, "session.closed", p.SessionClosed(reason="idle"))
    await table.send(session_id, "session.capabilities", p.Capabilities(dps_version=DPS_VERSION, features={}))
    assert (await report(table, session_id)).settings is None, "another agent opened, which does not say"


async def test_the_last_plan_stays_after_the_turn_until_it_is_cleared() -> None:
    table = table_begun()
    session_id = await opened(table)
    await table.started(session_id)
    await plans(table, session_id, STEPS[0])
    await plans(table, session_id, *STEPS)
    await table.ended(session_id)
    found = (await report(table, session_id)).plan
    assert found is not None
    assert found.steps == STEPS
    await table.execute("go on", target=Target(session_id=session_id))
    await table.started(session_id, "t2")
    await table.send(session_id, "x-interlock.plan.changed", p.PlanChanged(turn_id="t2", steps=[]))
    assert (await report(table, session_id)).plan is None


async def test_a_plan_outside_a_turn_is_refused_and_one_of_a_silent_turn_not_shown() -> None:
    table = table_begun()
    session_id = await opened(table)
    await plans(table, session_id, *STEPS)
    assert (await report(table, session_id)).plan is None
    await table.started(session_id)
    await plans(table, session_id, *STEPS, silent=True)
    assert (await report(table, session_id)).plan is None


async def set_to_plan(table: Table, session_id: str) -> None:
    """The first turn is over; from now on the session's prompts are to be worked on in plan mode."""
    await table.started(session_id)
    await table.ended(session_id)
    await table.engine.sessions.patch(OWNER, session_id, {"modeOverride": "plan"}, remember)


async def test_the_sessions_mode_is_sent_with_prompts_without_one_and_changes_are_audited() -> None:
    table = table_begun()
    session_id = await opened(table)
    await set_to_plan(table, session_id)
    audited = [json.loads(one.body) for one in await table.ledger.audit("default", 0, 100)]
    assert [one["meta"]["fields"] for one in audited if one["action"] == "session_change"] == [["modeOverride"]]
    await table.execute("go on", target=Target(session_id=session_id))
    assert table.wire.last("control.prompt.request").payload.mode == "plan"


async def test_a_mode_for_an_agent_without_modes_is_not_sent_and_a_notice_is() -> None:
    table = table_begun()
    session_id = await opened(table, modes=[], plan_mode=False)
    await set_to_plan(table, session_id)
    await table.execute("go on", target=Target(session_id=session_id))
    assert table.wire.last("control.prompt.request").payload.mode is None
    assert await table.has_notice(session_id, "OverrideNotHonoured", "modeOverride")
