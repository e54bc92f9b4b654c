"""Browsers that are notified of approvals: subscribed and ended over the API, and notified while they may vote (J-18).
"""

from __future__ import annotations

import json

import msgspec
import pytest

from channels.post_server import post_server
from channels.push_service import SubscribedBrowser
from gateway.browser_logins import browser, coded, logged_in
from gateway.push_subscriptions import ASKING, PATH, notify, pushing, subscribe, subscribed
from gateway.rest.test_routes import refused
from interlock.channels.notice import QUOTE
from interlock.ports.channel import NoReceiver
from small_gateway.running import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.req("J-18")]


async def audited(gateway: Gateway) -> list[str]:
    records = [json.loads(record.body) for record in await gateway.desk.ledger.audit("default", 0, 100)]
    return [one["meta"]["step"] for one in records if one["action"] == "login" and one["meta"]["step"] != "opened"]


@pytest.mark.req("F-1")
async def test_a_gateway_without_push_names_the_remedy(gateway: Gateway) -> None:
    assert (await gateway.http.get(PATH)).json() == {"key": None, "items": []}
    assert gateway.access.push.channel("default") is None
    async with browser(gateway) as page, post_server() as service:
        await logged_in(page, code=await coded(gateway))
        refused(await subscribe(page, SubscribedBrowser(service)), "Conflict")


@pytest.mark.needs("http-ece")
@pytest.mark.req("P-8")
async def test_each_browser_of_an_approver_has_one_notice_without_details(gateway: Gateway) -> None:
    async with pushing(gateway) as service, subscribed(gateway, service, "phone") as (page, phone, made), \
            subscribed(gateway, service, "desk", "approver") as (_, desk, _):
        await notify(gateway)
        for there in (phone, desk):
            posted, = there.posted()
            assert msgspec.json.decode(there.read(posted)) == {
                "title": "1 approval waits", "body": "Open it to read and decide.", "approval_id": "apr_01"}
            assert (posted.headers["topic"], posted.headers["ttl"]) == ("apr_01", "90")
        listed = (await page.get(PATH)).json()
        assert listed["key"] == phone.claims(phone.posted()[0])["k"]
        assert made["host"] == "127.0.0.1"
        assert sorted(one.get("current", False) for one in listed["items"]) == [False, True], "an owner sees all"
        assert "/push/" not in str(listed), "an endpoint is a secret of its browser"
        async with gateway.as_role("viewer") as someone:
            assert (await someone.get(PATH)).json()["items"] == []
    assert await audited(gateway) == ["subscribed", "subscribed"]


@pytest.mark.needs("http-ece")
@pytest.mark.req("P-8", "H-4")
async def test_details_are_in_a_notice_only_if_configured_and_if_they_fit(gateway: Gateway) -> None:
    async with pushing(gateway, details=True) as service, subscribed(gateway, service, "phone") as (_, phone, _):
        await notify(gateway)
        await notify(gateway, "dlv_2", msgspec.structs.replace(ASKING, lines='"\\ü' * 9_000))
        first, long = (msgspec.json.decode(phone.read(one))["body"] for one in phone.posted())
    assert first == f"agent claude on den in /srv/w\n{QUOTE}$ rm -r build"
    assert long.endswith("the rest is at the gateway")


@pytest.mark.req("F-1")
async def test_an_invalid_subscription_is_refused(gateway: Gateway) -> None:
    async with pushing(gateway) as service, browser(gateway) as page:
        there = SubscribedBrowser(service)
        body = {"endpoint": there.endpoint, "keys": there.keys}
        refused(await gateway.post(PATH, body), "Forbidden")
        async with browser(gateway) as viewer:
            await logged_in(viewer, key="ilk_default_viewer")
            refused(await subscribe(viewer, there), "Forbidden")
        await logged_in(page, key="ilk_default_approver")
        for endpoint in ("http://10.0.0.7/x", "https://169.254.169.254/x", "file:///etc/x"):
            refused(await subscribe(page, SubscribedBrowser(service, endpoint[-9:-2]), endpoint=endpoint),
                    "InvalidPayload")
        other = {"p256dh": "A" * 87, "auth": there.keys["auth"]}
        refused(await subscribe(page, SubscribedBrowser(service, "point"), keys=other), "InvalidPayload")
        assert (await page.get(PATH)).json()["items"] == []
        with pytest.raises(NoReceiver):
            await notify(gateway)
    assert service.got == []


@pytest.mark.req("M-1")
async def test_a_test_notice_is_sent_once_and_ended_on_request(gateway: Gateway) -> None:
    async with pushing(gateway) as service, subscribed(gateway, service, "phone") as (page, _, made):
        test = f"{PATH}/{made['id']}/test"
        for _ in range(2):
            assert (await page.post(test, headers={"Idempotency-Key": "one-test-of-the-phone"})).json() == {
                "arrived": True}
        assert len(service.got) == 1
        service.status = 500
        problem = refused(await page.post(test, headers={"Idempotency-Key": "another-test-of-it"}), "UpstreamError")
        assert problem["detail"] == ("The test notice was not sent: the push service 127.0.0.1 answered with status "
                                     "500.")
        async with gateway.as_role("approver") as someone:
            refused(await someone.post(test, headers={"Idempotency-Key": "not-the-approvers"}), "NotFound")
        gone = await page.delete(f"{PATH}/{made['id']}", headers={"Idempotency-Key": "turn-it-off-again"})
        assert gone.json()["id"] == made["id"]
        assert (await page.get(PATH)).json()["items"] == []
        assert (await page.get("/v1/whoami")).status_code == 200, "the session continues"
