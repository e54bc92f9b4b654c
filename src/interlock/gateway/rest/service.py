"""The REST API's interface to the engine, and the facts it shows of its gateway."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from interlock.command.policy.policy import RuleSet
from interlock.engine.audit_readiness import Signing
from interlock.engine.bridge.context.compaction import RequestedCompaction
from interlock.engine.chats import ChatInbox
from interlock.engine.cron import Crons
from interlock.engine.drains import Drains
from interlock.engine.engine_status import EngineStatus
from interlock.engine.router import Route
from interlock.engine.sessions.transcript_desk import TranscriptDesk
from interlock.engine.sessions.workspace_looks import WorkspaceLooks
from interlock.engine.setbacks import Setbacks
from interlock.engine.viewers.viewers import Viewers
from interlock.gateway.access.access import Access
from interlock.gateway.access.pairings import Pairings
from interlock.gateway.audit.checkpoints import CheckpointSigner
from interlock.gateway.hooks import Hooks
from interlock.gateway.retention import Retention
from interlock.gateway.telemetry.cluster_health import ClusterWatch
from interlock.gateway.telemetry.metrics import Metrics
from interlock.gateway.webhooks import WebhookService
from interlock.ports.clock import Clock
from interlock.ports.ledger import Ledger, StoredBallot
from interlock.ports.objects import Objects
from interlock.protocol.records import CommandRecord, IdempotencyRecord, Principal, SessionRecord
from interlock.protocol.resources import (
    Approval,
    Budget,
    CardsBody,
    Command,
    CommandBody,
    GrantBody,
    Heartbeat,
    Node,
    Session,
)

Remember = Callable[[Any], IdempotencyRecord]
"""Makes the row that answers a repeated request; the engine writes it in the command's transaction (M-2)."""


class SessionService(Protocol):
    """The service for sessions. Refusals are `Problem`s; results are durable."""

    def close(self, principal: Principal, session_id: str, reason: str, remember: Remember
              ) -> Awaitable[SessionRecord]: ...

    def patch(self, principal: Principal, session_id: str, wanted: Mapping[str, Any], remember: Remember
              ) -> Awaitable[SessionRecord]: ...

    def archive(self, principal: Principal, session_id: str, reason: str, remember: Remember
                ) -> Awaitable[SessionRecord]: ...

    def restore(self, principal: Principal, session_id: str, remember: Remember) -> Awaitable[SessionRecord]: ...

    def release(self, principal: Principal, session_id: str, to: str, remember: Remember
                ) -> Awaitable[SessionRecord]: ...

    def discard(self, principal: Principal, session_id: str, files: list[str] | None, remember: Remember
                ) -> Awaitable[SessionRecord]: ...

    def compact(self, principal: Principal, session_id: str, instructions: str | None, remember: Remember
                ) -> Awaitable[RequestedCompaction]: ...

    def active_after_ms(self, minutes: int) -> int: ...

    def shown(self, record: SessionRecord) -> Session: ...


class Desk(Protocol):
    """The engine as used by the API. Refusals are `Problem`s; results are durable."""

    @property
    def ledger(self) -> Ledger: ...

    @property
    def objects(self) -> Objects | None: ...

    @property
    def chats(self) -> ChatInbox: ...

    @property
    def viewers(self) -> Viewers: ...

    @property
    def transcripts(self) -> TranscriptDesk | None:
        """Return the service for transcripts (X-6); None if none are kept."""
        ...

    @property
    def sessions(self) -> SessionService: ...

    def seek(self, principal: Principal, body: CommandBody, *, guess: bool) -> Awaitable[Route] | None: ...

    @property
    def looks(self) -> WorkspaceLooks: ...

    def submit(self, principal: Principal, body: CommandBody, remember: Remember, route: Route | None = None
               ) -> Awaitable[Command]: ...

    def ballot(self, principal: Principal, approval_id: str, *, guess: bool) -> Awaitable[StoredBallot]: ...

    def vote(self, principal: Principal, approval_id: str, body: GrantBody, remember: Remember,
             stored: StoredBallot | None = None) -> Awaitable[Approval]: ...

    @property
    def policy(self) -> RuleSet: ...

    def withdraw(self, principal: Principal, approval_id: str, remember: Remember, stored: StoredBallot | None = None
                 ) -> Awaitable[Approval]: ...

    def report_cards(self, principal: Principal, approval_id: str, body: CardsBody, remember: Remember,
                     stored: StoredBallot | None = None) -> Awaitable[Approval]: ...

    def learn_rules(self) -> Awaitable[None]:
        """Reload the remembered rules, after one was revoked."""
        ...

    def answer(self, principal: Principal, approval_id: str, text: str | None, remember: Remember,
               stored: StoredBallot | None = None) -> Awaitable[Approval]: ...

    @property
    def drains(self) -> Drains: ...

    @property
    def setbacks(self) -> Setbacks: ...

    def budgets(self, tenant_id: str) -> list[Budget]: ...

    def heartbeat(self, record: CommandRecord) -> Heartbeat | None: ...

    def nodes(self, tenant_id: str) -> Awaitable[list[Node]]: ...

    def engine_status(self) -> EngineStatus: ...


class GatewayFacts(NamedTuple):
    """What `GET /v1/status` returns of the gateway itself (N-3)."""

    gateway_id: str
    version: str
    state_dir: str
    store_path: str


Ask = Callable[[str, str, bytes, int], Awaitable[bytes]]
"""Sends a request to a gateway: its instance id, the kind of request, the body, and the timeout in milliseconds. Raises
BusError."""
NewestCheckpoint = Callable[[str], Awaitable[bytes | None]]
"""Signs the current end of a tenant's audit log, and returns that as one line; None if nothing was ever signed
(U-3)."""


NEVER_STALLED = Signing()
"""Of a gateway without a signer."""


class Front(NamedTuple):
    """Everything that the operations share."""

    desk: Desk
    clock: Clock
    facts: GatewayFacts
    checkpoint: NewestCheckpoint
    heartbeat_s: float
    pairings: Pairings
    access: Access
    webhooks: WebhookService
    metrics: Metrics
    retention: Retention
    hooks: Hooks
    crons: Crons
    signing: Signing = NEVER_STALLED
    """Whether the audit logs can be signed."""
    signer: CheckpointSigner | None = None
    ask: Ask | None = None
    """Sends requests to another gateway; None without others."""
    cluster: ClusterWatch | None = None
    """Probes the cluster; None without others."""
    console: Path | None = None
    """The directory of the console's files; None for those of the package."""
