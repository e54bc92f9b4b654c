"""Data that a gateway shares with the others of its cluster besides sessions and runners."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from clusters.street import Street, street
from gateway.raw_runner import PATIENCE_S
from interlock.gateway import cluster_member
from interlock.ports.ledger import LedgerError
from interlock.protocol.answers import MissingSession

pytestmark = [pytest.mark.anyio, pytest.mark.req("C-4", "H-5")]


@pytest.fixture
async def town() -> AsyncIterator[Street]:
    async with street(3) as town:
        yield town


def lost(session_id: str) -> MissingSession:
    return MissingSession(session_id=session_id, runner_id="local", frames=2, commands=["cmd_1"])


async def test_every_gateway_shows_the_losses_that_any_of_them_found(town: Street) -> None:
    a, b, c = town.members
    assert (await c.ask("GET", "/v1/status")).body["restored"] is None
    a.engine.setbacks.session("default", lost("s1"))
    b.engine.setbacks.session("default", lost("s2"))
    b.engine.setbacks.session("other", lost("s3"))
    for member in town.members:
        shown = (await member.ask("GET", "/v1/status")).body["restored"]
        assert {one["session_id"] for one in shown["sessions"]} == {"s1", "s2"}
        assert (shown["session_count"], shown["commands_closed"]) == (2, 2)
    other = await a.engine.setbacks.anywhere("other")
    assert other is not None
    assert [one.session_id for one in other.sessions] == ["s3"], "what is another tenant's is not shown"


async def test_a_gateway_that_does_not_answer_is_omitted(town: Street, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = town.members
    a.engine.setbacks.session("default", lost("s1"))
    c.engine.setbacks.session("default", lost("s2"))
    b.bus.cut_off()
    assert (await b.ask("GET", "/v1/status")).body["restored"] is None, "it reaches none of them"
    b.bus.come_back()
    # A machine that stops for a second is no gateway that does not answer.
    monkeypatch.setattr(cluster_member, "FINDINGS_WAIT_MS", PATIENCE_S * 1_000)
    monkeypatch.setattr(a.engine.setbacks, "of", None)  # To answer fails.
    shown = (await b.ask("GET", "/v1/status")).body["restored"]
    assert [one["session_id"] for one in shown["sessions"]] == ["s2"]


async def test_a_refusing_ledger_leaves_the_local_findings(town: Street, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, _ = town.members
    a.engine.setbacks.session("default", lost("s1"))
    b.engine.setbacks.session("default", lost("s2"))

    async def refuses() -> set[str]:
        raise LedgerError("It is full.")

    monkeypatch.setattr(b.cluster, "alive", refuses)
    found = await b.engine.setbacks.anywhere("default")
    assert found is not None
    assert [one.session_id for one in found.sessions] == ["s2"]
