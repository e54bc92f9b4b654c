"""Login of a browser in two halves (J-10, J-15), and each way to get in without both of them."""

from __future__ import annotations

import asyncio
import json

import httpx2
import msgspec
import pytest
from starlette.types import ASGIApp
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin

from gateway.browser_logins import LOGIN, browser, coded, logged_in, works
from gateway.rest.operations.test_keys import client_with
from gateway.rest.test_routes import refused
from interlock.engine.membership import Elsewhere
from interlock.gateway.access.credentials import digest
from interlock.gateway.rest.forwarder import Answered, ForwardedRequest, Forwarding
from interlock.gateway.rest.request.authentication import CREDENTIAL
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol.records import KeyRecord, Principal, RunnerRecord
from interlock.protocol.resources import Actor
from small_gateway.desk import NOW
from small_gateway.running import Gateway


@pytest.mark.anyio
@pytest.mark.req("M-1", "J-10")
async def test_a_code_is_not_repeated_to_a_lesser_key_of_the_same_person(gateway: Gateway) -> None:
    await gateway.desk.ledger.commit(WriteBatch([Put(KeyRecord(
        key_sha256=digest("ilk_of_an_agent"), key_id="key_2", tenant_id="default", role="viewer",
        principal=Actor(type="user", id="owner"), created_ms=NOW))]))
    first, again = [await gateway.post("/v1/browser-codes", {}, "a-key-that-was-guessed") for _ in range(2)]
    assert again.content == first.content
    lesser = await gateway.post("/v1/browser-codes", {}, "a-key-that-was-guessed",
                                headers={"Authorization": "Bearer ilk_of_an_agent"})
    assert (lesser.status_code, lesser.json()["roles"]) == (201, ["viewer"])
    assert lesser.json()["code"] != first.json()["code"]


@pytest.mark.anyio
@pytest.mark.req("K-1", "K-2", "J-10", "J-15")
async def test_a_code_opens_one_session_that_is_cookie_and_header_together(gateway: Gateway) -> None:
    code = await coded(gateway)
    async with browser(gateway) as page:
        answer = await page.post(LOGIN, json={"code": code.lower().replace("-", " ")})
        assert answer.status_code == 201, answer.text
        opened = answer.json()
        cookie = answer.headers["Set-Cookie"]
        assert cookie.startswith("interlock_browser_")
        assert cookie.endswith("; HttpOnly; SameSite=Strict; Path=/")
        assert opened["principal"]["principal"] == {"type": "user", "id": "owner"}
        assert answer.headers["Cache-Control"] == "no-store"
        page.headers["Interlock-Browser"] = opened["half"]
        assert (await page.get("/v1/whoami")).json() == opened["principal"]
        submitted = await page.post("/v1/commands", json={"type": "execute", "target": {"agent_id": "shell"}},
                                    headers={"Idempotency-Key": "from-the-browser-1"})
        assert submitted.status_code == 202, submitted.text
        kept = repr(gateway.desk.ledger.__dict__)
        for secret in (code.replace("-", ""), opened["half"].partition(".")[2], cookie.partition("=")[2].split(";")[0]):
            assert secret not in kept


@pytest.mark.anyio
@pytest.mark.req("K-2")
async def test_one_half_or_another_sessions_half_is_not_a_credential(gateway: Gateway) -> None:
    async with browser(gateway) as page, browser(gateway) as thief, browser(gateway) as other:
        opened = await logged_in(page, code=await coded(gateway))
        assert await works(page)
        thief.cookies = page.cookies
        assert not await works(thief), "a server on another port is sent the cookie"
        thief.cookies = httpx2.Cookies()
        assert not await works(thief, **{"Interlock-Browser": opened["half"]}), "the header alone"
        foreign = await logged_in(other, key="ilk_default_viewer")
        for half in (foreign["half"], opened["half"] + "x", opened["half"].replace(".", ".x"), "", ".", "a.b",
                     opened["half"].partition(".")[0] + "."):
            thief.cookies = page.cookies
            assert not await works(thief, **{"Interlock-Browser": half}), half
        joined = "ilb_" + ".".join((opened["half"].partition(".")[0], next(iter(page.cookies.values())),
                                    opened["half"].partition(".")[2]))
        bearer = httpx2.AsyncClient(base_url=gateway.base, headers={"Authorization": f"Bearer {joined}"})
        async with bearer:
            assert not await works(bearer), "both halves as a bearer key pass by Sec-Fetch-Site"
            refused(await bearer.get("/v1/commands?x=" + joined), "Unauthorized")
        assert not await works(page, Authorization="Bearer ilk_default_viewer"), "which of the two would it be"


@pytest.mark.anyio
@pytest.mark.req("K-2")
@pytest.mark.parametrize("site", ["same-site", "cross-site", "none", "", None])
async def test_a_request_of_another_page_is_refused_with_both_halves(gateway: Gateway, site: str | None) -> None:
    async with browser(gateway) as page:
        await logged_in(page, code=await coded(gateway))
        if site is None:
            del page.headers["Sec-Fetch-Site"]
        else:
            page.headers["Sec-Fetch-Site"] = site
        assert not await works(page)
        if site is not None:
            refused(await page.post(LOGIN, json={"key": "ilk_default_viewer"}), "Unauthorized")
        page.headers["Sec-Fetch-Site"] = "same-origin"
        assert await works(page)
        refused(await page.get("/v1/whoami", headers={"Origin": "http://127.0.0.1:3000"}), "Forbidden")
        refused(await page.post(LOGIN, json={"key": "ilk_default_viewer"}, headers={"Origin": "http://localhost:1"}),
                "Forbidden")


@pytest.mark.anyio
@pytest.mark.req("K-1", "K-3")
async def test_wrong_logins_of_an_address_are_limited_and_a_valid_one_accepted(gateway: Gateway) -> None:
    good = await coded(gateway)
    async with browser(gateway) as page:
        for _ in range(60):
            refused(await page.post(LOGIN, json={"key": "ilk_guess"}), "Unauthorized")
        limited = await page.post(LOGIN, json={"code": "GUESS"})
        refused(limited, "RateLimited")
        assert int(limited.headers["Retry-After"]) >= 1
        await logged_in(page, code=good)
        assert await works(page)
    records = [json.loads(record.body) for record in await gateway.desk.ledger.audit("default", 0, 20)]
    assert [record["action"] for record in records].count("auth_denied") >= 1


@pytest.mark.anyio
@pytest.mark.req("K-1", "S-1")
async def test_a_stream_opened_by_ticket_ends_with_its_browser_session(gateway: Gateway) -> None:
    await gateway.desk.feed(b'{"a":1}')
    async with browser(gateway) as page:
        opened = await logged_in(page, code=await coded(gateway))
        ticket = (await page.post("/v1/stream-tickets", json={"path": "/v1/stream"},
                                  headers={"Idempotency-Key": "a-ticket-for-a-tab"})).json()["ticket"]
        address = f"ws://127.0.0.1:{gateway.port}/v1/stream"
        with pytest.raises(InvalidStatus):
            async with connect(address, additional_headers={"Cookie": "; ".join(
                    f"{name}={value}" for name, value in page.cookies.items())}):
                pass
        async with connect(f"{address}?ticket={ticket}", origin=Origin(gateway.base)) as stream:
            await stream.send('{"op":"subscribe","ref":"a","path":"/v1/events"}')
            assert json.loads(await stream.recv())["events"][0]["data"] == {"a": 1}
            ended = await gateway.http.delete(f"{LOGIN}/{opened['id']}", headers={"Idempotency-Key": "end-the-tab-01"})
            assert ended.status_code == 200, ended.text
            async with asyncio.timeout(10):
                await stream.wait_closed()
        assert not await works(page)


@pytest.mark.anyio
@pytest.mark.req("K-1")
async def test_sessions_are_listed_and_ended_by_their_owner_and_by_admins(gateway: Gateway) -> None:
    async with browser(gateway) as ann, browser(gateway) as boss, browser(gateway) as second:
        mine = await logged_in(ann, key="ilk_default_viewer")
        owners = await logged_in(boss, code=await coded(gateway))
        listed = (await ann.get(LOGIN)).json()["items"]
        assert [(one["id"], one["current"], one["roles"]) for one in listed] == [(mine["id"], True, ["viewer"])]
        refused(await ann.delete(f"{LOGIN}/{owners['id']}", headers={"Idempotency-Key": "not-mine-to-end-1"}),
                "NotFound")
        async with gateway.as_role("admin") as admin, gateway.as_role("admin", "other") as stranger:
            assert {one["id"] for one in (await admin.get(LOGIN)).json()["items"]} == {mine["id"], owners["id"]}
            assert (await stranger.get(LOGIN)).json()["items"] == []
            refused(await admin.delete(f"{LOGIN}/{owners['id']}", headers={"Idempotency-Key": "end-the-owners-01"}),
                    "Forbidden")
            refused(await admin.delete(f"{LOGIN}/me", headers={"Idempotency-Key": "a-key-has-no-tab-1"}), "NotFound")
            refused(await stranger.delete(f"{LOGIN}/{mine['id']}", headers={"Idempotency-Key": "other-house-0001"}),
                    "NotFound")
        second.cookies = ann.cookies
        again = await logged_in(second, key="ilk_default_viewer")
        assert await works(ann), "a second tab shares the cookie, and leaves the first logged in"
        ended = await second.delete(f"{LOGIN}/me", headers={"Idempotency-Key": "log-me-out-00001"})
        assert (ended.json()["id"], "Set-Cookie" in ended.headers) == (again["id"], False)
        assert not await works(second)
        assert await works(ann)
        last = await ann.delete(f"{LOGIN}/me", headers={"Idempotency-Key": "log-me-out-00002"})
        assert "Max-Age=0" in last.headers["Set-Cookie"]
        assert not await works(ann)
    records = [json.loads(record.body) for record in await gateway.desk.ledger.audit("default", 0, 50)]
    steps = [(one["action"], one["meta"]["step"]) for one in records if one["action"] in ("login", "logout")]
    assert steps == [("login", "opened"), ("login", "code"), ("login", "opened"), ("login", "opened"),
                     ("logout", "ended"), ("logout", "ended")]


@pytest.mark.anyio
@pytest.mark.req("K-2")
async def test_a_planted_cookie_never_becomes_half_of_another_persons_session(gateway: Gateway) -> None:
    async with browser(gateway) as attacker, browser(gateway) as victim:
        await logged_in(attacker, key="ilk_default_viewer")
        planted = dict(attacker.cookies)
        victim.cookies = attacker.cookies
        await logged_in(victim, code=await coded(gateway))
        assert dict(victim.cookies) != planted
        assert await works(victim)
        victim.cookies = httpx2.Cookies()
        name, value = next(iter(planted.items()))
        assert not await works(victim, Cookie=f"{name}={value}; {name}=other"), "two of one name are none"


class Corp:
    """An issuer whose every token is Ann's."""

    async def principal(self, token: str) -> Principal:
        return Principal(tenant_id="default", actor=Actor(type="user", id="corp:ann"), role="admin", key_id="corp")


@pytest.mark.anyio
@pytest.mark.req("K-1", "L-3")
async def test_only_keys_open_browser_sessions(gateway: Gateway) -> None:
    gateway.access.credentials.trust(Corp())
    async with client_with(gateway, "a.token.ofanissuer") as ann, browser(gateway) as page:
        assert (await ann.get("/v1/whoami")).json()["key_id"] == "corp"
        refused(await ann.post("/v1/browser-codes", headers={"Idempotency-Key": "by-a-token-00001"}),
                "UnsupportedCapability")
        await gateway.desk.ledger.commit(WriteBatch([Put(RunnerRecord(
            runner_id="rnr_1", tenant_id="default", token_sha256=digest("ilr_1"), device_name="", created_ms=1,
            last_seen_ms=1))]))
        for key in ("a.token.ofanissuer", "ilr_1", "ilk_\u00e4", "ilb_x.y.z"):
            refused(await page.post(LOGIN, json={"key": key}), "Unauthorized")


@pytest.mark.anyio
@pytest.mark.req("C-4", "K-2")
async def test_a_request_that_goes_to_another_gateway_carries_one_credential_and_no_cookie() -> None:
    sent: list[bytes] = []

    async def ask(_instance: str, _what: str, raw: bytes, _wait_ms: int) -> bytes:
        sent.append(raw)
        return msgspec.msgpack.encode(Answered(200, [], b"{}"))

    async def elsewhere(_guess: bool) -> ASGIApp:
        raise Elsewhere("gw_2")

    scope = {"method": "POST", "path": "/v1/commands", "query_string": b"", CREDENTIAL: "ilb_a.b.c", "client": None,
             "headers": [(b"cookie", b"interlock_browser_1=b"), (b"interlock-browser", b"a.c"),
                         (b"content-type", b"application/json"), (b"sec-fetch-site", b"same-origin")]}
    await Forwarding(ask).answer(scope, b"{}", elsewhere)
    headers = msgspec.msgpack.decode(sent[0], type=ForwardedRequest).headers
    assert [name for name, _ in headers] == [b"content-type", b"sec-fetch-site", b"authorization"]
    assert headers[-1][1] == b"Bearer ilb_a.b.c"
