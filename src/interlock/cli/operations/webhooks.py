"""`interlock webhooks`: the ways to approvers, and the messages that were never delivered (P-8)."""

from __future__ import annotations

import base64
import secrets
from typing import Annotated

from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.columns import Layout
from interlock.cli.display.terminal import print_sentence, result
from interlock.cli.display.values import ago
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.options import Json
from interlock.cli.verb_answer import ListTable, print_answer
from interlock.config.notices import NOTICE_TABLES
from interlock.protocol.answers import DeliveryList, WebhookList
from interlock.protocol.api.webhooks import LIST_DELIVERIES, LIST_WEBHOOKS
from interlock.protocol.resources import Delivery
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests.base import read
from interlock.sdk.requests.webhooks import deliveries, retry_delivery, try_webhook

WEBHOOKS = ListTable[WebhookList](
    header=("NAME", "KIND", "HOST", "WAITING", "DEAD"),
    rows=lambda answer: [[one.name, one.kind, one.host, str(one.waiting), str(one.dead)] for one in answer.webhooks],
    layout=Layout(text=("HOST",), drop=("KIND",)),
    empty="the config names no way to approvers; add [webhooks.NAME], "
          + " or ".join(f"[{table}.NAME]" for table in NOTICE_TABLES))
DEAD = ListTable[DeliveryList](
    header=("DELIVERY", "NAME", "APPROVAL", "TRIES", "ASKED", "WHY NOT"),
    rows=lambda answer: [[one.id, one.channel, one.approval_id, str(one.attempts), ago(one.created_at), one.why or ""]
                         for one in answer.deliveries],
    layout=Layout(text=("WHY NOT",), extra=("TRIES",), drop=("ASKED", "APPROVAL")),
    empty="no notice is lost; those on the way: interlock webhooks")
DELIVERY = short_ids.IdKind("delivery", LIST_DELIVERIES.at(), "dlv_", "webhooks dead")
SECRET_BYTES = 32


def webhooks(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List the ways to approvers that the config names: webhooks, ntfy topics and Apprise services."""
    return print_answer(where, read(LIST_WEBHOOKS), WEBHOOKS.show, json=json)


def secret() -> int:
    """Make a secret for a webhook: for a file that the config names, and for its receiver."""
    result("whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode())
    return ExitStatus.DONE


def try_(
    name: Annotated[str, Parameter(help="The webhook's name in the config.")],
    /,
    *,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Send a message that asks nothing, to see whether it arrives."""
    short_ids.checked_name("webhook", name, "interlock webhooks")
    return print_answer(where, try_webhook(name), lambda _: print_sentence(f"{name} took a test message"), json=json)


def dead(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List the questions that never arrived, with the reason."""
    return print_answer(where, deliveries(state="dead"), DEAD.show, json=json)


def retry(
    id_: Annotated[str, Parameter(name="ID", help="The delivery: its id, a unique beginning, or @last.")],
    /,
    *,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Retry a dead delivery."""
    async def request(link: GatewayLink) -> RequestSpec[Delivery]:
        found = (await link.ask(deliveries(state="dead"))).deliveries
        return retry_delivery(short_ids.pick(id_, found, DELIVERY, lambda one: one.id, lambda one: one.created_at).id)

    return print_answer(where, request, lambda one: print_sentence(f"{one.id} is sent again"), json=json)
