"""Subscriptions of browsers: one notice each, and none after their session, key or service has ended (J-18)."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack

import msgspec
import pytest

from channels.post_server import post_server
from channels.push_service import SubscribedBrowser
from gateway.browser_logins import browser, logged_in
from gateway.push_subscriptions import PATH, notify, pushing, subscribe, subscribed
from gateway.rest.test_routes import refused
from interlock.ports.channel import NoReceiver, NotAsked
from interlock.ports.ledger import Change, WriteBatch
from interlock.protocol.access import BROWSER_IDLE_MS, BROWSER_LIFE_MS, MAX_PUSH_SUBSCRIPTIONS
from small_gateway.running import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.req("J-18")]


async def audited(gateway: Gateway) -> list[str]:
    records = [json.loads(record.body) for record in await gateway.desk.ledger.audit("default", 0, 100)]
    return [one["meta"]["step"] for one in records if one["action"] == "login" and one["meta"]["step"] != "opened"]


@pytest.mark.req("J-15")
async def test_a_subscription_ends_with_its_session_and_its_key(gateway: Gateway) -> None:
    async with pushing(gateway) as service, subscribed(gateway, service, "phone") as (page, _, made), \
            subscribed(gateway, service, "desk", "approver") as (_, desk, _):
        gateway.desk.at_ms += BROWSER_IDLE_MS + 1
        await notify(gateway)
        assert len(service.got) == 2, "an idle session is notified: opening the notice asks for a login"
        gateway.desk.at_ms -= BROWSER_IDLE_MS + 1
        ended = await page.delete("/v1/browser-sessions/me", headers={"Idempotency-Key": "leave-the-console"})
        assert ended.status_code == 200
        await notify(gateway, "dlv_2")
        assert [one.line for one in service.got[2:]] == [f"POST {desk.path}"]
        refused(await gateway.post(f"{PATH}/{made['id']}/test", {}), "NotFound")
        assert (await gateway.post("/v1/keys/default-approver/revoke", {})).status_code == 200
        with pytest.raises(NoReceiver):
            await notify(gateway, "dlv_3")
        gateway.desk.at_ms += BROWSER_LIFE_MS + 1
        assert (await gateway.http.get(PATH)).json()["items"] == []


async def test_a_browser_that_logs_in_again_is_notified_once(gateway: Gateway) -> None:
    async with pushing(gateway) as service, subscribed(gateway, service, "phone") as (_, phone, first), \
            browser(gateway) as page:
        await logged_in(page, key="ilk_default_owner")
        second = await subscribe(page, phone, idempotency_key=None)
        assert second.status_code == 201, second.text
        listed = (await page.get(PATH)).json()["items"]
        assert [one["id"] for one in listed] == [second.json()["id"]] != [first["id"]]
        await notify(gateway)
        assert len(service.got) == 1


async def test_the_browsers_notified_per_person_are_bounded(gateway: Gateway) -> None:
    async with pushing(gateway) as service, AsyncExitStack() as stack:
        for number in range(MAX_PUSH_SUBSCRIPTIONS):
            await stack.enter_async_context(subscribed(gateway, service, f"n{number}"))
        page = await stack.enter_async_context(browser(gateway))
        await logged_in(page, key="ilk_default_owner")
        refused(await subscribe(page, SubscribedBrowser(service, "more")), "QuotaExceeded")
        await stack.enter_async_context(subscribed(gateway, service, "other-person", "approver"))


async def test_a_subscription_that_the_push_service_ended_is_removed(gateway: Gateway) -> None:
    async with pushing(gateway) as service, subscribed(gateway, service, "phone") as (page, _, _):
        service.status = 410
        await notify(gateway)
        assert (await page.get(PATH)).json()["items"] == []
    assert await audited(gateway) == ["subscribed", "unsubscribed"]


async def test_only_browsers_that_missed_the_notice_are_retried(gateway: Gateway) -> None:
    async with pushing(gateway) as service, post_server() as busy, \
            subscribed(gateway, service, "phone") as (_, phone, _), subscribed(gateway, busy, "desk") as (_, desk, _):
        busy.status, busy.headers = 429, {"retry-after": "75"}
        with pytest.raises(NotAsked) as failed:
            await notify(gateway)
        assert (failed.value.final, failed.value.retry_after_ms) == (False, 75_000)
        busy.status = 201
        await notify(gateway)
        assert (len(phone.posted()), len(desk.posted())) == (1, 2)


@pytest.mark.req("H-5")
async def test_a_subscription_forged_in_the_database_is_not_notified(gateway: Gateway) -> None:
    async with pushing(gateway) as service, post_server() as thief, \
            subscribed(gateway, service, "phone") as (_, _, made):
        await gateway.access.credentials.rows.adopt()
        login = await gateway.desk.ledger.browser_login(made["browser_session_id"])
        assert login is not None
        stolen = msgspec.structs.replace(login, push=SubscribedBrowser(thief).target)
        await gateway.desk.ledger.commit(WriteBatch([Change(stolen)]))
        with pytest.raises(NoReceiver):
            await notify(gateway)
    assert service.got == thief.got == []
