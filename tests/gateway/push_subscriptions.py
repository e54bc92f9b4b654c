"""Steps of a browser that turns notices on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from channels.post_server import PostServer, post_server
from channels.push_service import SubscribedBrowser
from gateway.browser_logins import browser, logged_in
from interlock.backends.outgoing.http import HttpOutgoing
from interlock.channels.web_push import WebPush
from interlock.gateway.access.push import PushSettings
from interlock.ports.channel import ApprovalNotice
from interlock.protocol.clock import iso
from small_gateway.desk import NOW
from small_gateway.running import Gateway

PATH = "/v1/push-subscriptions"
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
ASKING = ApprovalNotice(approval_id="apr_01", title="$ rm -r build", digest="ab", input="{}", lines="$ rm -r build",
                        agent_id="claude", runner_id="den", workspace="/srv/w", expires_at=iso(NOW + 90_000))


@asynccontextmanager
async def pushing(gateway: Gateway, *, details: bool = False) -> AsyncIterator[PostServer]:
    """Have the gateway notify browsers through a push service on loopback."""
    async with post_server() as service:
        sender = WebPush(KEY, "mailto:ops@example.org", HttpOutgoing(["127.0.0.1/32"]))
        gateway.access.push.configure(PushSettings(sender, details))
        yield service


@asynccontextmanager
async def subscribed(gateway: Gateway, service: PostServer, name: str, role: str = "owner"
                     ) -> AsyncIterator[tuple[httpx2.AsyncClient, SubscribedBrowser, dict[str, Any]]]:
    """A browser that logged in with a role's key and turned notices on."""
    there = SubscribedBrowser(service, name)
    async with browser(gateway) as page:
        await logged_in(page, key=f"ilk_default_{role}")
        answer = await subscribe(page, there)
        assert answer.status_code == 201, answer.text
        yield page, there, answer.json()


async def subscribe(page: httpx2.AsyncClient, there: SubscribedBrowser, **changed: Any) -> httpx2.Response:
    body = {"endpoint": there.endpoint, "keys": there.keys, **changed}
    return await page.post(PATH, json=body, headers={"Idempotency-Key": f"subscribe-{there.path}-{len(changed)}"})


async def notify(gateway: Gateway, delivery_id: str = "dlv_1", asking: ApprovalNotice = ASKING) -> None:
    channel = gateway.access.push.channel("default")
    assert channel is not None
    await channel.ask(delivery_id, gateway.desk.at_ms, asking)
