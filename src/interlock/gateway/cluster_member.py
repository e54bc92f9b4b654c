"""A gateway in a cluster: its links, its API and its caches, joined to the cluster (C-4).

Hints only make it fast: credentials are looked up again each second anyway, and everything else is read again every few
seconds, so that a lost hint causes a delay and no harm.
"""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec
from starlette.types import ASGIApp

from interlock.engine.cluster.cluster import Cluster
from interlock.engine.cluster_sync import ClusterPeers
from interlock.engine.engine import Engine
from interlock.engine.setbacks import Findings
from interlock.gateway.link.rawp import RawpEndpoint
from interlock.gateway.rest.forwarder import WHAT, answer_sent
from interlock.gateway.rest.service import Front
from interlock.ports.bus import BusError
from interlock.ports.ledger import LedgerError
from interlock.protocol.answers import RestoredLedger

TICKET_WAIT_MS = 2_000
FINDINGS_WAIT_MS = 1_000
"""Timeout for another gateway's findings, which are then omitted: `status` is read when something is wrong."""
_strings = msgspec.json.Decoder(list[str])
_findings = msgspec.json.Decoder(RestoredLedger | None)


def share(cluster: Cluster, engine: Engine, rawp: RawpEndpoint, front: Front, rest: ASGIApp) -> ClusterPeers:
    """Join the parts to a cluster; before the cluster and the engine start."""
    peers = engine.join(cluster, rawp.replaced)
    peers.on_let_go.connect(rawp.let_go)
    rawp.join(peers)
    cluster.answer(WHAT, partial(answer_sent, rest))
    _share_credentials(cluster, front)
    _share_runners(cluster, rawp, front)
    _share_duties(cluster, engine, front)
    _share_setbacks(cluster, engine)
    cluster.tenant_moves.learn_by(partial(_learn_tenants, engine, rawp, front))
    cluster.renewal.renewed.connect(front.metrics.renewed)
    cluster.renewal.waited.connect(front.metrics.waited_for_processor)
    cluster.takeover.counted.connect(front.metrics.took_over)
    cluster.on_death.connect(front.metrics.taken_for_dead)
    return peers


def _share_credentials(cluster: Cluster, front: Front) -> None:
    credentials = front.access.credentials
    credentials.on_revoked.connect(partial(cluster.hint, "credentials"))
    cluster.on_hint("credentials", lambda _: credentials.look_again())
    tickets = front.access.tickets
    tickets.join(lambda: cluster.instance_id,
                 lambda issuer, ticket: cluster.ask(issuer, "ticket", ticket, TICKET_WAIT_MS))
    cluster.answer("ticket", tickets.spend_for)


def _share_duties(cluster: Cluster, engine: Engine, front: Front) -> None:
    """Assign the duties that one gateway has for all."""
    front.retention.share(partial(cluster.leads, "retention"))
    engine.lanes.on_delivery.connect(partial(cluster.hint, "deliveries"))
    cluster.on_hint("deliveries", lambda _: front.webhooks.nudge())


async def _learn_tenants(engine: Engine, rawp: RawpEndpoint, front: Front) -> None:
    """Stop work for tenants that are moved or being moved, and load the data of those that arrived."""
    await engine.lanes.learn_tenants()
    front.access.credentials.look_again()
    rawp.close_tenants(engine.lanes.tenants.closed)
    await engine.read_rules()
    await engine.drains.learn()
    await engine.lanes.learn_spending()


def _share_runners(cluster: Cluster, rawp: RawpEndpoint, front: Front) -> None:
    front.pairings.on_shut_out.connect(lambda runner_id, sentence: cluster.hint(
        "shut_out", msgspec.json.encode([runner_id, sentence])))

    async def shut_out(what: bytes) -> None:
        if what:
            runner_id, sentence = _strings.decode(what)
            rawp.shut_out(runner_id, sentence)
        else:
            await rawp.check_tokens()

    cluster.on_hint("shut_out", shut_out)


def _share_setbacks(cluster: Cluster, engine: Engine) -> None:
    """Share each gateway's findings about a restored ledger, for callers of any of them."""

    async def answer(tenant_id: bytes) -> bytes:
        return msgspec.json.encode(engine.setbacks.of(tenant_id.decode()))

    async def found_by(instance_id: str, tenant_id: str) -> RestoredLedger | None:
        try:
            return _findings.decode(await cluster.ask(instance_id, "setbacks", tenant_id.encode(), FINDINGS_WAIT_MS))
        except BusError:
            return None  # It has died, hangs, or is of an earlier version.

    async def found_by_others(tenant_id: str) -> Findings:
        try:
            others = await cluster.alive() - {cluster.instance_id}
        except LedgerError:
            return []
        found = await asyncio.gather(*(found_by(one, tenant_id) for one in sorted(others)))
        return [one for one in found if one is not None]

    cluster.answer("setbacks", answer)
    engine.setbacks.ask_by(found_by_others)
