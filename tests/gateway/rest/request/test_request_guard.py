"""The request guard over HTTP: rates, bad credentials of an address, tickets, and secrets in a URL."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin

from gateway.rest.operations.test_keys import client_with
from gateway.rest.test_routes import refused
from small_gateway.running import Gateway

pytestmark = pytest.mark.anyio
SSE = {"Accept": "text/event-stream"}


@pytest.mark.req("K-3")
async def test_every_response_has_the_remaining_rate_limit(gateway: Gateway) -> None:
    first, second = [await gateway.http.get("/v1/commands") for _ in range(2)]
    assert first.headers["RateLimit-Policy"] == '"principal";q=2000;w=10, "tenant";q=10000;w=10'
    assert first.headers["RateLimit"].startswith('"principal";r=1999;')
    assert second.headers["RateLimit"].startswith('"principal";r=1998;')
    assert "RateLimit" in (await gateway.http.get("/v1/nothing")).headers
    assert "RateLimit" not in (await gateway.http.get("/healthz")).headers


async def flooded(gateway: Gateway) -> None:
    """Send bad credentials from this address until the next one is rate limited."""
    async with client_with(gateway, "ilk_nobody") as intruder:
        for _ in range(60):
            refused(await intruder.get("/v1/commands"), "Unauthorized")
        limited = await intruder.get("/v1/commands")
        refused(limited, "RateLimited")
        assert limited.headers["Retry-After"] == "1"


@pytest.mark.req("K-3", "F-1")
async def test_bad_credentials_of_an_address_are_limited_and_valid_ones_pass(gateway: Gateway) -> None:
    await flooded(gateway)
    assert (await gateway.http.get("/v1/commands")).status_code == 200
    # Neither key was seen here before, as after a restart of the gateway for all clients behind one address.
    async with gateway.as_role("viewer") as viewer, gateway.as_role("operator") as operator:
        assert (await viewer.get("/v1/commands")).status_code == 200
        assert (await operator.get("/v1/commands")).status_code == 200
    opened = await ticket(gateway, "/v1/commands/no-such-command/status")
    async with httpx2.AsyncClient(base_url=gateway.base, headers=SSE) as page:
        refused(await page.get("/v1/commands/no-such-command/status", params={"ticket": opened}), "NotFound")
    gateway.desk.at_ms += 60_000
    async with client_with(gateway, "ilk_nobody") as intruder:
        refused(await intruder.get("/v1/commands"), "Unauthorized")


@pytest.mark.req("K-3", "U-1")
async def test_rate_limited_bad_credentials_are_still_audited(gateway: Gateway) -> None:
    await flooded(gateway)
    gateway.desk.at_ms += 1_000
    async with client_with(gateway, "ilk_nobody") as intruder:
        for _ in range(3):
            await intruder.get("/v1/commands")
    records = [json.loads(record.body) for record in await gateway.desk.ledger.audit("default", 0, 10)]
    assert [record["meta"]["count"] for record in records if record["action"] == "auth_denied"] == [1, 61]


@pytest.mark.req("K-3")
async def test_a_flood_of_bad_credentials_does_not_block_valid_ones(gateway: Gateway) -> None:
    await flooded(gateway)
    async with client_with(gateway, "ilk_nobody") as intruder, gateway.as_role("viewer") as viewer:
        floods = [intruder.get("/v1/commands", headers={"Authorization": f"Bearer ilk_{number}"})
                  for number in range(100)]
        *refusals, good = await asyncio.gather(*floods, viewer.get("/v1/commands"))
    assert {answer.status_code for answer in refusals} <= {401, 429}
    assert good.status_code == 200


async def ticket(gateway: Gateway, path: str) -> str:
    answer = await gateway.post("/v1/stream-tickets", {"path": path})
    assert answer.status_code == 201, answer.text
    return answer.json()["ticket"]


@pytest.mark.req("K-2")
async def test_a_ticket_opens_one_stream_once_for_its_path_within_its_time(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    await gateway.desk.feed(b'{"a":1}')
    page = httpx2.AsyncClient(base_url=gateway.base, headers={"Origin": "https://ok.example", **SSE})
    async with page:
        good = await ticket(gateway, "/v1/events")
        async with page.stream("GET", f"/v1/events?ticket={good}") as answer:
            assert answer.status_code == 200
            assert answer.headers["Content-Type"].startswith("text/event-stream")
        refused(await page.get(f"/v1/events?ticket={good}"), "Unauthorized")
        other = await ticket(gateway, "/v1/events")
        refused(await page.get(f"/v1/sessions/s1/frames?ticket={other}"), "Unauthorized")
        refused(await page.get(f"/v1/events?ticket={other}"), "Unauthorized")
        late = await ticket(gateway, "/v1/events")
        gateway.desk.at_ms += 30_000
        refused(await page.get(f"/v1/events?ticket={late}"), "Unauthorized")
        plain = await ticket(gateway, "/v1/events")
        refused(await page.get(f"/v1/events?ticket={plain}", headers={"Accept": "application/json"}), "Unauthorized")
        refused(await page.get(f"/v1/events?ticket={plain}", headers={"Origin": "https://evil.example"}), "Forbidden")


@pytest.mark.req("K-2", "S-1")
async def test_a_ticket_opens_one_socket_once_within_its_time_as_its_principal(
    gateway: Gateway,
) -> None:
    await gateway.desk.feed(b'{"a":1}')

    async def refusal(query: str, **headers: str) -> int:
        with pytest.raises(InvalidStatus) as refused:
            async with connect(f"ws://127.0.0.1:{gateway.port}/v1/stream{query}", additional_headers=headers):
                pass
        return refused.value.response.status_code

    assert await refusal("") == 401
    good = await ticket(gateway, "/v1/stream")
    async with connect(f"ws://127.0.0.1:{gateway.port}/v1/stream?ticket={good}", origin=Origin("https://ok.example")
                       ) as page:
        await page.send('{"op":"subscribe","ref":"a","path":"/v1/events"}')
        assert json.loads(await page.recv())["events"][0]["data"] == {"a": 1}
        assert await refusal(f"?ticket={good}") == 401, "once"
    other = await ticket(gateway, "/v1/events")
    assert await refusal(f"?ticket={other}") == 401, "for its path alone"
    late = await ticket(gateway, "/v1/stream")
    gateway.desk.at_ms += 30_000
    assert await refusal(f"?ticket={late}") == 401, "for 30 seconds"
    foreign = await ticket(gateway, "/v1/stream")
    assert await refusal(f"?ticket={foreign}", Origin="https://evil.example") == 403
    assert await refusal("?ticket=ilt_guessed") == 401
    assert await refusal("?key=ilk_default_owner") == 401, "a key never stands in a URL"


@pytest.mark.req("K-2", "K-3")
async def test_tickets_are_bounded(gateway: Gateway) -> None:
    for _ in range(100):
        await ticket(gateway, "/v1/events")
    refused(await gateway.post("/v1/stream-tickets", {"path": "/v1/events"}), "QuotaExceeded")
    gateway.desk.at_ms += 30_000
    await ticket(gateway, "/v1/events")


@pytest.mark.req("K-2", "K-4")
@pytest.mark.parametrize("path", ["/v1/commands?key=ilk_default_owner", "/v1/commands?limit=1&x=%69lk_default_owner",
                                  "/v1/commands/ilk_default_owner", "/v1/commands?access_token=eyJabcdefgh.x.y"])
async def test_a_key_in_a_url_is_refused_and_not_repeated(gateway: Gateway, path: str) -> None:
    answer = await gateway.http.get(path)
    refused(answer, "Unauthorized")
    assert "default_owner" not in answer.text
