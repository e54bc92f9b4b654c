"""`interlock webhooks`: through what approvers are asked, and what never reached them (P-8)."""

from __future__ import annotations

import asyncio
import base64
import secrets
from typing import Annotated

from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.columns import Layout
from interlock.cli.exit_status import ExitStatus
from interlock.cli.gateway_link import GatewayLink, decoded
from interlock.cli.place import NOWHERE, Here, Where
from interlock.cli.terminal import print_json, print_sentence, print_table, result, say
from interlock.cli.values import ago
from interlock.config.notices import NOTICE_TABLES
from interlock.protocol.api.webhooks import LIST_DELIVERIES, LIST_WEBHOOKS, RETRY_DELIVERY, TEST_WEBHOOK
from interlock.protocol.resources import Delivery, Webhook

PATH = LIST_WEBHOOKS.at()
COLUMNS = Layout(text=("HOST",), drop=("KIND",))
DEAD = Layout(text=("WHY NOT",), extra=("TRIES",), drop=("ASKED", "APPROVAL"))
DELIVERY = short_ids.IdKind("delivery", LIST_DELIVERIES.at(), "dlv_", "webhooks dead")
SECRET_BYTES = 32
Json = Annotated[bool, Parameter(help="Print one JSON document.")]


def webhooks(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List the ways to approvers that the config names: webhooks, ntfy topics and Apprise services."""
    return asyncio.run(_list(where, json=json))


def secret() -> int:
    """Make a secret for a webhook: for a file that the config names, and for its receiver."""
    result("whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode())
    return ExitStatus.DONE


def try_(
    name: Annotated[str, Parameter(help="Its name in the config.")],
    /,
    *,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Send a message that asks nothing, to see whether it arrives."""
    return asyncio.run(_test(name, where, json=json))


def dead(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List the questions that never arrived, with the reason."""
    return asyncio.run(_dead(where, json=json))


def retry(
    id_: Annotated[str, Parameter(name="ID", help="The delivery: its id, a unique beginning, or @last.")],
    /,
    *,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Send again what never arrived."""
    return asyncio.run(_retry(id_, where, json=json))


async def _list(where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        raw = await link.get(PATH)
    if json:
        print_json(raw)
        return ExitStatus.DONE
    found = decoded(raw, dict[str, list[Webhook]], PATH).get("webhooks", [])
    if not found:
        tables = " or ".join(f"[{table}.NAME]" for table in NOTICE_TABLES)
        say(f"the config names no way to approvers; add [webhooks.NAME], {tables}", "dim")
        return ExitStatus.DONE
    print_table([[one.name, one.kind, one.host, str(one.waiting), str(one.dead)] for one in found],
                ("NAME", "KIND", "HOST", "WAITING", "DEAD"), COLUMNS)
    return ExitStatus.DONE


async def _test(name: str, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        raw = await link.send(TEST_WEBHOOK.at(name), {})
    if json:
        print_json(raw)
    else:
        print_sentence(f"{name} took a test message")
    return ExitStatus.DONE


async def _dead(where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        raw = await link.get(DELIVERY.path, {"state": "dead"})
    if json:
        print_json(raw)
        return ExitStatus.DONE
    found = decoded(raw, dict[str, list[Delivery]], DELIVERY.path).get("deliveries", [])
    if not found:
        say("every question arrived", "dim")
        return ExitStatus.DONE
    print_table([[one.id, one.channel, one.approval_id, str(one.attempts), ago(one.created_at),
                  one.why or ""] for one in found],
                ("DELIVERY", "NAME", "APPROVAL", "TRIES", "ASKED", "WHY NOT"), DEAD)
    return ExitStatus.DONE


async def _retry(id_: str, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        raw = await link.get(DELIVERY.path, {"state": "dead"})
        found = decoded(raw, dict[str, list[Delivery]], DELIVERY.path).get("deliveries", [])
        delivery = short_ids.pick(id_, found, DELIVERY, lambda one: one.id, lambda one: one.created_at)
        raw = await link.send(RETRY_DELIVERY.at(delivery.id), {})
    if json:
        print_json(raw)
    else:
        print_sentence(f"{delivery.id} is sent again")
    return ExitStatus.DONE
