"""The proof of tenants at every door: python -m proof S10."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from interlock.doors.acp.door import AcpDoor
from interlock.gateway.a2a import facade as a2a
from interlock.gateway.server import server
from proof.access.door_clients import Person
from proof.access.tenant_doors import PARTS, Trial, out_of_action

pytestmark = [pytest.mark.anyio, pytest.mark.needs("mcp")]


@pytest.mark.req("K-1", "O-7", "O-8", "O-9", "L-3")
async def test_no_door_opens_anything_of_another_tenant() -> None:
    trial = Trial()
    await trial.run()
    assert trial.leaks == []
    assert trial.seen_by_rival > 10
    assert trial.accepted > 5
    assert sum(trial.tried.values()) > 100


@pytest.mark.parametrize("part", PARTS)
async def test_the_proof_detects_a_part_that_is_out_of_action(part: str) -> None:
    trial = Trial()
    with out_of_action(part):
        await trial.run()
    assert trial.leaks


async def test_the_proof_reports_what_is_published_and_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    published = Person.mcp_tools

    async def with_one_more(person: Person) -> list[str]:
        return [*await published(person), "new_tool"]

    monkeypatch.setattr(server, "DOORS", MappingProxyType({**server.DOORS, "new-door": server.DOORS["acp"]}))
    monkeypatch.setattr(AcpDoor, "METHODS",
                        {**AcpDoor.METHODS, "session/new_method": AcpDoor.METHODS["session/load"]})
    monkeypatch.setattr(a2a, "METHODS", {**a2a.METHODS, "NewMethod": a2a.METHODS["GetTask"]})
    monkeypatch.setattr(Person, "mcp_tools", with_one_more)
    trial = Trial()
    await trial.run()
    assert trial.leaks == ["not tried: ACP method session/new_method", "not tried: MCP tool new_tool",
                           "not tried: A2A method NewMethod", "not tried: door new-door"]
