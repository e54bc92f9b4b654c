"""Streams and WebSockets that are open when their credential is revoked: they end with that reason (K-1)."""

import asyncio
import json
from contextlib import AsyncExitStack, suppress

import anyio.lowlevel
import httpx2
import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gateway.rest.test_routes import refused
from interlock.config import RatesSection
from interlock.gateway.access.credentials import digest
from interlock.gateway.rest.socket import UNAUTHORIZED
from interlock.ports.ledger import Put, WriteBatch
from small_gateway.running import Gateway

pytestmark = pytest.mark.anyio


async def revoke(gateway: Gateway, key_id: str) -> None:
    answer = await gateway.post(f"/v1/keys/{key_id}/revoke", {})
    assert answer.status_code == 200, answer.text


@pytest.mark.req("K-1", "S-2")
async def test_an_open_stream_ends_with_its_key_and_others_continue(gateway: Gateway) -> None:
    command = await gateway.execute()
    stream = f"/v1/commands/{command}/status"
    accept = {"Accept": "text/event-stream"}
    async with gateway.as_role("viewer") as viewer, viewer.stream("GET", stream, headers=accept) as answer, \
            gateway.sse(stream) as own:
        assert (await own.next())[1] == "state"  # type: ignore[index]
        await revoke(gateway, "default-viewer")
        text = "".join([part async for part in answer.aiter_text()])
        assert text.endswith('event: unauthorized\ndata: {"code":"Unauthorized","detail":"The credential of this '
                             'stream is accepted no more."}\n\n')
        await gateway.desk.finish(command)
        assert json.loads((await own.next())[2])["state"] == "succeeded"  # type: ignore[index]


@pytest.mark.req("K-1")
async def test_a_websocket_closes_with_its_key(gateway: Gateway) -> None:
    headers = {"Authorization": "Bearer ilk_default_viewer"}
    async with connect(f"ws://127.0.0.1:{gateway.port}/v1/stream", additional_headers=headers) as link:
        await revoke(gateway, "default-viewer")
        with pytest.raises(ConnectionClosed) as closed:
            await link.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == UNAUTHORIZED


@pytest.mark.req("K-1", "K-2")
async def test_a_stream_opened_by_ticket_ends_with_the_key_of_the_ticket(gateway: Gateway) -> None:
    command = await gateway.execute()
    stream = f"/v1/commands/{command}/status"
    async with gateway.as_role("viewer") as viewer:
        given = await viewer.post("/v1/stream-tickets", json={"path": stream}, headers={"Idempotency-Key": "k" * 16})
    ticket = given.json()["ticket"]
    async with httpx2.AsyncClient(base_url=gateway.base) as browser, browser.stream(
        "GET", f"{stream}?ticket={ticket}", headers={"Accept": "text/event-stream"}
    ) as answer:
        assert answer.status_code == 200
        await revoke(gateway, "default-viewer")
        assert "event: unauthorized" in "".join([part async for part in answer.aiter_text()])


@pytest.mark.req("K-1")
async def test_a_revocation_by_another_gateway_ends_streams_too(gateway: Gateway) -> None:
    command = await gateway.execute()
    async with gateway.as_role("viewer") as viewer, viewer.stream(
        "GET", f"/v1/commands/{command}/status", headers={"Accept": "text/event-stream"}
    ) as answer:
        record = await gateway.desk.ledger.key(digest("ilk_default_viewer"))
        assert record is not None
        await gateway.desk.ledger.commit(WriteBatch([Put(msgspec.structs.replace(record, revoked=True))]))
        gateway.desk.at_ms += 2_000  # The cached key has expired.
        assert "event: unauthorized" in "".join([part async for part in answer.aiter_text()])


@pytest.mark.req("K-3", "S-4")
async def test_open_streams_are_bounded_per_principal_and_tenant(gateway: Gateway) -> None:
    gateway.access.openings.configure(RatesSection(principal_streams=2, tenant_streams=3))
    stream = f"/v1/commands/{await gateway.execute()}/status"
    sse = {"Accept": "text/event-stream"}
    async with gateway.as_role("viewer") as viewer, gateway.as_role("operator") as operator, AsyncExitStack() as opened:
        for _ in range(2):
            await opened.enter_async_context(viewer.stream("GET", stream, headers=sse))
        third = await viewer.get(stream, headers=sse)
        refused(third, "RateLimited")
        assert third.headers["Retry-After"] == "5"
        assert "This principal has 2 streams open" in third.json()["detail"]
        assert (await viewer.get(stream)).status_code == 200, "a page is not a stream"
        async with operator.stream("GET", stream, headers=sse) as other:
            assert other.status_code == 200
            assert "This tenant has 3 streams open" in (await gateway.http.get(stream, headers=sse)).json()["detail"]
        await opened.aclose()
        async with asyncio.timeout(20):
            while (await viewer.get(stream, headers={**sse, "Last-Event-ID": "none"})).status_code == 429:
                await anyio.lowlevel.checkpoint()


@pytest.mark.req("K-3", "S-4")
async def test_streams_of_a_websocket_count_like_any_others(gateway: Gateway) -> None:
    gateway.access.openings.configure(RatesSection(principal_streams=2))
    stream = f"/v1/commands/{await gateway.execute()}/status"
    headers = {"Authorization": "Bearer ilk_default_viewer"}
    async with connect(f"ws://127.0.0.1:{gateway.port}/v1/stream", additional_headers=headers) as link:
        for ref in "abc":
            await link.send(json.dumps({"op": "subscribe", "ref": ref, "path": stream}))
        received = [json.loads(await link.recv()) for _ in range(3)]
        problems = [one for one in received if "problem" in one]
        assert [(one["ref"], one["problem"]["code"]) for one in problems] == [("c", "RateLimited")]
        await link.send(json.dumps({"op": "unsubscribe", "ref": "a"}))
        assert json.loads(await link.recv()) == {"ref": "a", "end": "unsubscribed"}
        await link.send(json.dumps({"op": "subscribe", "ref": "d", "path": stream}))
        assert json.loads(await link.recv())["ref"] == "d"


@pytest.mark.req("K-3", "S-4")
async def test_a_websocket_that_follows_nothing_counts_as_one(gateway: Gateway) -> None:
    gateway.access.openings.configure(RatesSection(principal_streams=1))
    address, headers = f"ws://127.0.0.1:{gateway.port}/v1/stream", {"Authorization": "Bearer ilk_default_viewer"}
    async with connect(address, additional_headers=headers):
        with pytest.raises(InvalidStatus) as refused_:
            await connect(address, additional_headers=headers)
        assert refused_.value.response.status_code == 429
        assert b"This principal has 1 WebSockets open" in (refused_.value.response.body or b"")
        stream = f"/v1/commands/{await gateway.execute()}/status"
        async with gateway.as_role("viewer") as viewer, viewer.stream("GET", stream, headers={
                "Accept": "text/event-stream"}) as answer:
            assert answer.status_code == 200, "it is no stream"
    async with asyncio.timeout(20):
        while True:
            with suppress(InvalidStatus):
                async with connect(address, additional_headers=headers):
                    break
