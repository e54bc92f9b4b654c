"""Browser sessions: bounded, with at most the roles of their key, and ended with their key or tenant."""

from __future__ import annotations

import asyncio

import httpx2
import msgspec
import pytest

from gateway.browser_logins import LOGIN, browser, coded, logged_in, works
from gateway.rest.test_routes import refused
from interlock.gateway.access.credentials import CACHE_MS, digest
from interlock.ports.entities import BROWSER_LOGINS
from interlock.ports.ledger import Put, Redeem, WriteBatch
from interlock.protocol.access import (
    BROWSER_CODE_LIFE_MS,
    BROWSER_IDLE_MS,
    BROWSER_LIFE_MS,
    COVERED_ROLES,
    MAX_BROWSER_CODES,
    MAX_KEY_BROWSER_SESSIONS,
    lesser_roles,
)
from interlock.protocol.api.table import OPERATIONS
from small_gateway.running import Gateway


async def waited(gateway: Gateway, ms: int) -> None:
    """Let time pass, so that nothing that was accepted is remembered."""
    gateway.desk.at_ms += ms + CACHE_MS


@pytest.mark.anyio
@pytest.mark.req("K-2")
async def test_a_code_is_valid_once_and_for_five_minutes(gateway: Gateway) -> None:
    code, late = await coded(gateway), await coded(gateway)
    async with browser(gateway) as page:
        answers = await asyncio.gather(*(page.post(LOGIN, json={"code": code}) for _ in range(5)))
        assert sorted(answer.status_code for answer in answers) == [201, 401, 401, 401, 401]
        refused(await page.post(LOGIN, json={"code": code}), "Unauthorized")
        gateway.desk.at_ms -= BROWSER_CODE_LIFE_MS + 1
        refused(await page.post(LOGIN, json={"code": late}), "Unauthorized")
        gateway.desk.at_ms += 2 * BROWSER_CODE_LIFE_MS + 1
        refused(await page.post(LOGIN, json={"code": late}), "Unauthorized")
        refused(await page.post(LOGIN, json={"code": "0000-0000-0000-0000"}), "Unauthorized")
        for body in ({}, {"code": code, "key": "ilk_x"}, {"code": ""}, {"code": "x" * 65}):
            refused(await page.post(LOGIN, json=body), "InvalidPayload")


@pytest.mark.anyio
@pytest.mark.req("K-1")
async def test_a_session_ends_with_its_key(gateway: Gateway) -> None:
    made = (await gateway.post("/v1/keys", {"principal": {"type": "user", "id": "ann"}, "roles": ["operator"]})).json()
    for change in ("rotate", "revoke"):
        async with browser(gateway) as page:
            await logged_in(page, key=made["key"])
            assert await works(page)
            answer = await gateway.post(f"/v1/keys/{made['key_id']}/{change}")
            assert answer.status_code == 200, answer.text
            assert not await works(page), change
            made |= {"key": answer.json().get("key", "")}
            mine = (await gateway.http.get(LOGIN)).json()["items"]
            assert mine == [], "what has ended is not listed"
    made = (await gateway.post("/v1/keys", {"principal": {"type": "user", "id": "ann"}, "roles": ["operator"],
                                            "ttl_ms": 5000})).json()
    async with browser(gateway) as page:
        opened = await logged_in(page, key=made["key"])
        assert opened["expires_at"] == made["expires_at"]
        await waited(gateway, 5_000)
        assert not await works(page)


@pytest.mark.anyio
@pytest.mark.req("K-1")
async def test_a_session_ends_with_its_tenant(gateway: Gateway) -> None:
    async with browser(gateway) as page, gateway.as_role("admin", "other") as admin:
        await logged_in(page, key="ilk_other_admin")
        headers = {"Idempotency-Key": "before-the-end-01"}
        code = (await admin.post("/v1/browser-codes", headers=headers)).json()["code"]
        assert (await gateway.post("/v1/tenants/other/suspend")).status_code == 200
        assert not await works(page)
        refused(await page.post(LOGIN, json={"code": code}), "Unauthorized")
        refused(await page.post(LOGIN, json={"key": "ilk_other_admin"}), "Unauthorized")


@pytest.mark.anyio
@pytest.mark.req("K-1")
async def test_a_code_of_a_revoked_key_opens_no_session(gateway: Gateway) -> None:
    made = (await gateway.post("/v1/keys", {"principal": {"type": "user", "id": "ann"}, "roles": ["operator"]})).json()
    async with httpx2.AsyncClient(base_url=gateway.base, headers={"Authorization": f"Bearer {made['key']}"}) as ann:
        code = (await ann.post("/v1/browser-codes", headers={"Idempotency-Key": "a-code-for-ann-01"})).json()["code"]
    await gateway.post(f"/v1/keys/{made['key_id']}/revoke")
    async with browser(gateway) as page:
        refused(await page.post(LOGIN, json={"code": code}), "Unauthorized")


@pytest.mark.anyio
@pytest.mark.req("K-1")
async def test_a_session_never_has_more_roles_than_the_key_that_opened_it(gateway: Gateway) -> None:
    async with gateway.as_role("operator") as operator, gateway.as_role("approver") as approver:
        async def asked(who: httpx2.AsyncClient, roles: list[str], number: int) -> httpx2.Response:
            return await who.post("/v1/browser-codes", json={"roles": roles},
                                  headers={"Idempotency-Key": f"a-code-of-this-test-{number}"})

        refused(await asked(operator, ["approver"], 1), "Forbidden")
        refused(await asked(operator, ["operator", "approver"], 2), "Forbidden")
        refused(await asked(approver, ["owner"], 3), "Forbidden")
        refused(await asked(operator, ["runner"], 4), "InvalidPayload")
        code = (await asked(operator, ["viewer"], 5)).json()["code"]
    async with browser(gateway) as page:
        assert (await logged_in(page, code=code))["principal"]["roles"] == ["viewer"]
        refused(await page.post("/v1/commands", json={"type": "execute", "target": {"agent_id": "shell"}},
                                headers={"Idempotency-Key": "as-a-viewer-only"}), "Forbidden")
        refused(await page.post("/v1/browser-codes", json={"roles": ["operator"]},
                                headers={"Idempotency-Key": "up-the-ladder-1"}), "Forbidden")
    async with browser(gateway) as page:
        await logged_in(page, code=await coded(gateway, roles=["admin"]))
        assert (await page.get("/v1/whoami")).json()["roles"] == ["admin"]
        owner = await gateway.desk.ledger.key(digest("ilk_default_owner"))
        assert owner is not None
        demoted = msgspec.structs.replace(owner, role="approver")
        await gateway.desk.ledger.commit(WriteBatch([Put(demoted)]))
        await waited(gateway, 0)
        assert (await page.get("/v1/whoami")).json()["roles"] == ["approver"]


@pytest.mark.anyio
@pytest.mark.req("K-1")
async def test_a_session_ends_when_idle_and_after_fourteen_days_even_if_used(gateway: Gateway) -> None:
    async with browser(gateway) as page, browser(gateway) as idle, browser(gateway) as phone:
        await logged_in(idle, code=await coded(gateway))
        opened = await logged_in(page, code=await coded(gateway))
        steps = BROWSER_LIFE_MS // (BROWSER_IDLE_MS - 60_000)
        await waited(gateway, BROWSER_IDLE_MS - 60_000)
        for _ in range(1, steps):
            assert await works(page)
            await waited(gateway, BROWSER_IDLE_MS - 60_000)
        assert not await works(idle)
        assert await works(page)
        code = (await page.post("/v1/browser-codes", headers={"Idempotency-Key": "for-my-phone-001"})).json()["code"]
        assert (await logged_in(phone, code=code))["expires_at"] == opened["expires_at"]
        await waited(gateway, BROWSER_IDLE_MS - 60_000)
        assert not await works(page)
        assert not await works(phone), "a code does not make a session live for ever"


@pytest.mark.anyio
@pytest.mark.req("H-5", "K-1")
async def test_a_session_forged_in_the_database_is_refused(gateway: Gateway) -> None:
    await gateway.access.credentials.rows.adopt()
    async with browser(gateway) as page:
        opened = await logged_in(page, key="ilk_default_viewer")
        cookie, half = next(iter(page.cookies.values())), opened["half"].partition(".")[2]
        real = await gateway.desk.ledger.browser_login(opened["id"])
        assert real is not None
        forged = msgspec.structs.replace(real, id="brs_" + "A" * 26, role="owner",
                                         key_sha256=digest("ilk_default_owner"), key_id="default-owner")
        longer = msgspec.structs.replace(real, expires_ms=real.expires_ms * 2)
        await gateway.desk.ledger.commit(WriteBatch([Put(forged)]))
        assert (cookie, half) != ("", "")
        assert not await works(page, **{"Interlock-Browser": "A" * 26 + "." + half}), "no record speaks of it"
        assert await works(page)
        spent = Redeem(BROWSER_LOGINS, real.tenant_id, real.id, gateway.desk.at_ms)
        await gateway.desk.ledger.commit(WriteBatch([spent, Put(longer)]))
        await waited(gateway, 0)
        assert not await works(page), "it is not the one on record"


@pytest.mark.anyio
@pytest.mark.req("K-3")
async def test_codes_and_sessions_are_bounded(gateway: Gateway) -> None:
    for _ in range(MAX_BROWSER_CODES):
        await coded(gateway)
    refused(await gateway.post("/v1/browser-codes"), "QuotaExceeded")
    gateway.desk.at_ms += BROWSER_CODE_LIFE_MS
    async with browser(gateway) as first, browser(gateway) as later:
        await logged_in(first, code=await coded(gateway))
        for _ in range(MAX_KEY_BROWSER_SESSIONS):
            gateway.desk.at_ms += 1
            later.headers.pop("Interlock-Browser", None)
            await logged_in(later, key="ilk_default_owner")
        assert await works(later)
        await waited(gateway, 0)
        assert not await works(first), "the one that was not used for longest gave way"
        assert len((await gateway.http.get(LOGIN)).json()["items"]) == MAX_KEY_BROWSER_SESSIONS


@pytest.mark.req("K-1")
def test_a_covered_role_allows_no_operation_beyond_the_covering_role() -> None:
    for role, covered in COVERED_ROLES.items():
        for lesser in covered:
            assert [one.name for one in OPERATIONS if lesser in one.roles and role not in one.roles] == [], lesser
    assert lesser_roles({"admin"}, {"approver"}) == lesser_roles({"approver"}, {"admin"}) == {"approver"}
    assert lesser_roles({"operator"}, {"approver"}) == set()
    assert lesser_roles({"operator", "approver"}, {"admin"}) == {"operator", "approver"}
