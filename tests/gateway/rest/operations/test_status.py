"""The status responds in time, and names what is unreachable if the ledger of a cluster does not respond (N-3, C-4)."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest

from interlock.gateway.rest.answers import raw_answer
from interlock.gateway.rest.operations import status
from interlock.ports.ledger import LedgerError
from interlock.protocol.problems import Problem
from small_gateway.running import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.req("N-3", "C-4")]


class Watch(NamedTuple):
    """The gateway's state of the bus."""

    connected: bool


class Parts(NamedTuple):
    """The part of a gateway that is asked."""

    cluster: Watch | None


async def answer() -> Any:
    return raw_answer(b"{}")


async def broken() -> Any:
    raise LedgerError("no connection")


async def never(ended: asyncio.Event) -> Any:
    try:
        await asyncio.Event().wait()
    finally:
        ended.set()


async def test_a_single_gateway_waits_for_its_database_and_raises_its_errors() -> None:
    alone: Any = Parts(None)
    assert (await status.in_time(alone, answer())).status == 200  # type: ignore[attr-defined]
    with pytest.raises(LedgerError):
        await status.in_time(alone, broken())


@pytest.mark.parametrize("connected", [True, False])
async def test_a_gateway_of_a_cluster_that_cannot_read_names_the_unavailable_server(
        connected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "IN_TIME_S", 0.01)
    ended = asyncio.Event()
    front: Any = Parts(Watch(connected))
    assert (await status.in_time(front, answer())).status == 200  # type: ignore[attr-defined]
    for waiting in (broken(), never(ended)):
        with pytest.raises(Problem, match="PostgreSQL does not answer") as refused:
            await status.in_time(front, waiting)
        assert ("the bus does not answer" in refused.value.detail) is not connected
        assert refused.value.headers == {"Retry-After": str(status.RETRY_AFTER_S)}
    await ended.wait()  # The read that did not answer was cancelled.


@pytest.mark.req("K-1")
async def test_readers_of_another_tenant_are_not_counted(gateway: Gateway) -> None:
    async def viewers() -> int:
        return (await gateway.http.get("/v1/status")).json()["viewers"]

    async with gateway.desk.viewers.join("other", "s/1", 0):
        assert await viewers() == 0
        async with gateway.desk.viewers.join("default", "s/1", 0):
            assert await viewers() == 1
