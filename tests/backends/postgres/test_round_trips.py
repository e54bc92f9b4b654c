"""How many round trips to PostgreSQL an operation waits for in a row; one that takes more fails here."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from clusters.street import CAPABILITIES, Member, Street, street
from interlock.backends.memory.clock import ManualClock
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.leases import open_leases
from interlock.backends.postgres.ledger import open_ledger
from interlock.command.policy.policy import Rule, RuleSet
from interlock.ports.trips import counting, one_trip

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4")]
LIMITS = {
    "attach, no session": 2,
    "command that opens a session": 3,
    "first frames": 1,
    "command": 2,
    "command, credential looked up again": 3,
    "vote": 2,
    "command at another gateway": 3,
    "vote at another gateway": 3,
}
"""Round trips in a row, for each operation; at another gateway those of both gateways together."""


@pytest.fixture
async def town(postgres: PostgresSettings) -> AsyncIterator[Street]:
    ledger = await open_ledger(postgres, ManualClock(), keeps_transcripts=True)
    leases = await open_leases(postgres)
    async with street(2, stores=(ledger, leases)) as made:
        yield made
    await leases.close()
    await ledger.close()


def most(member: Member, name: str) -> int:
    """The most that an operation of this name waited for; those that were counted are forgotten."""
    found = [spent.in_a_row for one, spent in member.spent if one == name]
    member.spent = [(one, spent) for one, spent in member.spent if one != name]
    assert found, f"no {name} was counted"
    return max(found)


async def test_parallel_reads_count_as_one_sequential_trip() -> None:
    with counting() as spent, one_trip(), one_trip():
        pass
    assert (spent.in_a_row, spent.statements) == (1, 2)
    with counting() as spent:
        for _ in range(2):
            with one_trip():
                pass
    assert spent.in_a_row == 2


async def test_each_operation_waits_for_its_documented_round_trips(town: Street) -> None:
    here, there = town.members
    found: dict[str, int] = {}
    async with here.attached() as runner:
        found["attach, no session"] = most(here, "attach")
        await here.execute()  # A credential, or a tenant's log, that is met for the first time costs more, once.
        await runner.frame("control.prompt.request")
        most(here, "submitCommand")
        session_id = (await here.execute()).body["target"]["session_id"]
        found["command that opens a session"] = most(here, "submitCommand")
        await runner.frame("control.prompt.request")
        runner.send("session.capabilities", CAPABILITIES, session_id=session_id, seq=1)
        await runner.frame("session.capabilities")
        found["first frames"] = most(here, "frames")
        assert (await here.execute(session_id=session_id)).status == 202
        found["command"] = most(here, "submitCommand")
        town.clock.advance(2_000)
        assert (await here.execute(session_id=session_id)).status == 202
        found["command, credential looked up again"] = most(here, "submitCommand")
        assert (await there.execute(session_id=session_id)).status == 202
        most(there, "submitCommand")
        most(here, "submitCommand")
        assert (await there.execute(session_id=session_id)).status == 202
        found["command at another gateway"] = most(there, "submitCommand") + most(here, "submitCommand")
        here.engine.policy = RuleSet([Rule(name="asks", effect="ask", door="command")])
        found["vote"] = await voted(here, here, session_id)
        found["vote at another gateway"] = await voted(here, there, session_id) + most(there, "vote")
    assert {name: waited for name, waited in found.items() if waited > LIMITS[name]} == {}, found


async def voted(owner: Member, asked: Member, session_id: str) -> int:
    """Have a command held and grant it at a gateway; returns what the owner of its session waited for."""
    assert (await owner.execute(session_id=session_id)).status == 202
    approval, = (await owner.ask("GET", "/v1/approvals?state=pending")).body["items"]
    vote = await asked.ask("POST", f"/v1/approvals/{approval['id']}/grants", {"decision": "grant"})
    assert vote.status == 200, vote
    return most(owner, "vote")
