"""Assembly of a gateway from stores, a clock and settings: for the product, proofs, benchmarks and tests alike."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from interlock.command.policy.policy import RuleSet
from interlock.config import RatesSection
from interlock.engine.bridge.kernel import Decide, decide
from interlock.engine.bridge.lane_state import Limits
from interlock.engine.cluster.cluster import Cluster
from interlock.engine.cron import Crons
from interlock.engine.engine import Engine
from interlock.engine.entropy_pool import EntropyPool
from interlock.engine.viewers.viewers import Viewers
from interlock.gateway.access.access import make_access
from interlock.gateway.access.credentials import Issuers
from interlock.gateway.access.pairings import Pairings
from interlock.gateway.audit.checkpoints import CheckpointSigner
from interlock.gateway.cluster_member import share
from interlock.gateway.hooks import ConfiguredHook, Hooks
from interlock.gateway.link.rawp import RawpEndpoint
from interlock.gateway.rest.app import RestApp
from interlock.gateway.rest.service import Front, GatewayFacts, NewestCheckpoint
from interlock.gateway.retention import Retention
from interlock.gateway.telemetry.cluster_health import ClusterWatch
from interlock.gateway.telemetry.metrics import Metrics
from interlock.gateway.webhooks import ConfiguredWebhook, WebhookService
from interlock.ports.bus import Bus
from interlock.ports.clock import Clock
from interlock.ports.leases import Leases
from interlock.ports.ledger import Ledger
from interlock.ports.objects import Objects
from interlock.ports.transcripts import TranscriptStore
from interlock.protocol.limits import HEARTBEAT_INTERVAL_MS

Entropy = Callable[[int], bytes]


class ClusterPlace(NamedTuple):
    """A gateway's place in a cluster: its name, address, leases and bus."""

    leases: Leases
    bus: Bus
    name: str
    address: str = ""


class GatewayStores(NamedTuple):
    """The stores of a gateway. The caller closes them."""

    ledger: Ledger
    transcripts: TranscriptStore | None = None
    objects: Objects | None = None
    cluster: ClusterPlace | None = None
    """None for a gateway that shares its ledger with no other."""


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The config, opened. By default a gateway has no rules, and sends no requests of its own."""

    policy: RuleSet = RuleSet()
    limits: Limits = Limits()
    rates: RatesSection = RatesSection()
    issuers: Issuers | None = None
    hooks: Mapping[str, ConfiguredHook] = {}
    webhooks: Mapping[tuple[str, str], ConfiguredWebhook] = {}
    own_runner: str = ""
    """The runner that a token file pairs at every start."""
    heartbeat_s: float = HEARTBEAT_INTERVAL_MS / 1000


class AssembledGateway(NamedTuple):
    """The parts of a gateway. Nothing runs before `cluster.start` and `engine.start`."""

    viewers: Viewers
    engine: Engine
    rawp: RawpEndpoint
    front: Front
    rest: RestApp
    cluster: Cluster | None


async def no_checkpoint(_tenant_id: str) -> bytes | None:
    """Return no checkpoint: the log of this gateway is not signed."""
    return None


def assemble(
    stores: GatewayStores,
    clock: Clock,
    facts: GatewayFacts,
    settings: GatewaySettings,
    *,
    wall: Clock | None = None,
    entropy: Entropy = secrets.token_bytes,
    metrics: Metrics | None = None,
    signer: CheckpointSigner | None = None,
    checkpoint: NewestCheckpoint = no_checkpoint,
    decide: Decide = decide,
) -> AssembledGateway:
    """Assemble the parts. `clock` is the line that deadlines are on, `wall` the time that is stored and shown. `decide`
    is the kernel's, or a wrapper that records it."""
    ledger, shown = stores.ledger, wall or clock
    viewers, metrics = Viewers(ledger), metrics or Metrics()
    cluster = None
    if (at := stores.cluster) is not None:
        cluster = Cluster(at.leases, at.bus, ledger, viewers, entropy, at.name, at.address)
    engine = Engine(ledger, viewers, clock, EntropyPool(entropy), settings.policy, settings.limits, stores.transcripts,
                    stores.objects, shown, signer.signing if signer is not None else None, decide, cluster,
                    facts.gateway_id)
    engine.lanes.watchers.append(metrics.watch)
    engine.lanes.on_trips.connect(metrics.waited)
    rawp = RawpEndpoint(engine, entropy, metrics.acked)
    front = Front(
        desk=engine, clock=shown, facts=facts, checkpoint=checkpoint, heartbeat_s=settings.heartbeat_s,
        pairings=Pairings(ledger, shown, entropy, rawp.shut_out, settings.own_runner),
        access=make_access(ledger, shown, entropy, settings.issuers, settings.rates, engine.rows,
                           shared=cluster is not None, deadline_clock=clock),
        webhooks=WebhookService(ledger, shown, entropy, settings.webhooks), metrics=metrics,
        retention=Retention(ledger, engine.objects, shown, clock),
        hooks=Hooks(settings.hooks, ledger, engine.chats, shown, entropy, clock),
        crons=Crons(ledger, engine.chats, shown, cluster))
    if signer is not None:
        front = front._replace(signing=signer.signing, signer=signer)
    if cluster is not None and at is not None:
        front = front._replace(ask=cluster.ask, cluster=ClusterWatch(
            at.leases, at.bus, facts.store_path, cluster.renewal.last_loss))
    rest = RestApp(front)
    if cluster is not None:
        share(cluster, engine, rawp, front, rest)
    return AssembledGateway(viewers, engine, rawp, front, rest, cluster)
