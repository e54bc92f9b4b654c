"""A desk over the memory ledger: enough of an engine for the API to be driven, and knobs for what tests await."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.ledger import MemoryLedger
from interlock.backends.memory.objects import MemoryObjects
from interlock.command.approval import named, withdraw
from interlock.command.policy.policy import RuleSet
from interlock.command.policy.remembered_rule import read
from interlock.engine.audit_readiness import Signing
from interlock.engine.bridge.context.compaction import RequestedCompaction
from interlock.engine.cron import CronJob
from interlock.engine.drains import Drains
from interlock.engine.engine_status import EngineStatus
from interlock.engine.lanes.rows import RowAudit
from interlock.engine.sessions.transcript_desk import TranscriptDesk
from interlock.engine.setbacks import Setbacks
from interlock.engine.viewers.viewers import Viewers
from interlock.gateway.audit.checkpoints import CheckpointSigner
from interlock.gateway.hooks import ConfiguredHook as Door
from interlock.gateway.rest.service import Remember
from interlock.gateway.telemetry.metrics import Metrics
from interlock.gateway.webhooks import ConfiguredWebhook
from interlock.ports.ledger import (
    Append,
    AuditAppend,
    PutApproval,
    PutCommand,
    PutIdempotency,
    PutSession,
    Receipt,
    StoredBallot,
    WriteBatch,
)
from interlock.protocol.clock import iso
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.identifiers import command_stream, session_stream, tenant_stream
from interlock.protocol.payloads import ChangedCommit, WorkspaceChanges
from interlock.protocol.problems import Problem
from interlock.protocol.records import ApprovalRecord, AuditDraft, CommandRecord, Event, Principal, SessionRecord
from interlock.protocol.resources import (
    Approval,
    ApprovalCard,
    CardsBody,
    Command,
    CommandBody,
    GrantBody,
    Heartbeat,
    Node,
    Session,
    StatusEvent,
    Vote,
    WorkspaceAccess,
)

NOW = 1_800_000_000_000


class NoChats:
    """Chats for tests that need none: every request to them is a conflict."""

    async def arrive(self, *_: Any) -> Any:
        raise Problem("Conflict", "This desk has no chats.")

    async def reset(self, *_: Any) -> Any:
        raise Problem("Conflict", "This desk has no chats.")

    async def system(self, *_: Any) -> Any:
        raise Problem("Conflict", "This desk has no chats.")


class SmallSessions:
    """Enough of what is done with sessions."""

    def __init__(self, desk: SmallDesk) -> None:
        self._desk = desk

    async def close(self, principal: Principal, session_id: str, reason: str, remember: Remember) -> SessionRecord:
        record = await self._desk.ledger.session(session_id)
        assert record is not None
        closed = msgspec.structs.replace(record, state="closed", usage={"reason": reason})
        await self._desk.commit([PutSession(closed), PutIdempotency(remember(closed))])
        return closed

    async def patch(self, *_: Any) -> SessionRecord:
        raise Problem("Conflict", "This desk keeps no entries.")

    async def release(self, principal: Principal, session_id: str, to: str, remember: Remember) -> SessionRecord:
        record = await self._desk.ledger.session(session_id)
        assert record is not None
        await self._desk.commit([PutIdempotency(remember(record))])
        return record

    async def discard(self, principal: Principal, session_id: str, files: list[str] | None, remember: Remember
                      ) -> SessionRecord:
        if files == ["nothing"]:
            raise Problem("Conflict", "Nothing is staged.")
        return await self.release(principal, session_id, "", remember)

    async def compact(self, principal: Principal, session_id: str, instructions: str | None, remember: Remember
                      ) -> RequestedCompaction:
        if instructions == "nothing":
            raise Problem("Conflict", "There is nothing to compact.")
        asked = RequestedCompaction("r-1", "m-1", 0)
        await self._desk.commit([PutIdempotency(remember(asked))])
        return asked

    async def archive(self, *_: Any) -> Any:
        raise Problem("Conflict", "This desk archives nothing.")

    async def restore(self, *_: Any) -> Any:
        raise Problem("Conflict", "This desk archives nothing.")

    def active_after_ms(self, minutes: int) -> int:
        return NOW - minutes * 60_000

    def shown(self, record: SessionRecord) -> Session:
        return Session(
            session_id=record.session_id, session_key=record.session_key, tenant_id=record.tenant_id,
            agent_id=record.agent_id, workspace=record.workspace, state=record.state, created_at=iso(record.created_ms),
            updated_at=iso(record.updated_ms),
        )


class NoLooks:
    """Runners that find nothing, and are asked nothing."""

    async def look(self, session: SessionRecord, access: WorkspaceAccess, start_commit: str | None = None
                   ) -> WorkspaceChanges:
        made = ChangedCommit(commit="d" * 40, author="Ann", subject="fix")
        return WorkspaceChanges(request_id="r", session_id=session.session_id, branch="work", commit="c" * 40,
                                head="d" * 40, commits=[made])


class SmallDesk:
    """Commands become queued at once, votes decide at once."""

    def __init__(self) -> None:
        self.ledger = MemoryLedger()
        self.objects = MemoryObjects()
        self.viewers = Viewers(self.ledger)
        self.sessions: Any = SmallSessions(self)
        self.setbacks = Setbacks()
        self.drains = Drains(self.ledger, ManualClock(NOW), RowAudit(self.ledger, ManualClock(NOW)))
        self.policy = RuleSet()
        self.hooks: dict[tuple[str, str], ConfiguredWebhook] = {}
        self.doors: dict[str, Door] = {}
        """The hooks that other programs call."""
        self.jobs: list[CronJob] = []
        self.chats: Any = NoChats()
        """The engine's chats, if a test has an engine."""
        self.gate: asyncio.Event | None = None
        self.entered = asyncio.Event()
        self.beating: set[str] = set()
        self.failure: Exception | None = None
        self.made = 0
        self.at_ms = NOW
        self.metrics = Metrics()
        self.signing = Signing()
        self.signer: CheckpointSigner | None = None
        self.up = True
        self.shut_out: list[tuple[str, str]] = []
        self.transcripts: TranscriptDesk | None = None
        self.looks: Any = NoLooks()

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms

    async def commit(self, writes: list[Any]) -> Receipt:
        """Commit, then publish, as the lanes do."""
        receipt = await self.ledger.commit(WriteBatch(writes))
        appends = [write for write in writes if isinstance(write, Append)]
        for write, n in zip(appends, receipt.numbers, strict=True):
            self.viewers.publish(write.stream, [Event(stream=write.stream, n=n, kind=write.kind, at_ms=write.at_ms,
                                                      body=write.body)])
        return receipt

    def seek(self, principal: Principal, body: CommandBody, *, guess: bool) -> None:
        return None

    async def submit(self, principal: Principal, body: CommandBody, remember: Remember, route: Any = None) -> Command:
        self.entered.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        self.made += 1
        command = Command(
            id=f"cmd_{self.made:026d}", created_at=iso(NOW), updated_at=iso(NOW), tenant_id=principal.tenant_id,
            actor=principal.actor, type=body.type, target=body.target, state="queued", timeout_ms=1000,
            payload=body.payload, payload_sha256="ab", idempotency_key=body.idempotency_key,
        )
        record = CommandRecord(command=command, session_id="s1", created_ms=NOW + self.made)
        await self.commit([PutCommand(record), self.status(command.id, event="state", state="queued"),
                           PutIdempotency(remember(command))])
        return command

    def status(self, command_id: str, **fields: Any) -> Append:
        event = StatusEvent(command_id=command_id, at=iso(NOW), **fields)
        return Append("default", command_stream(command_id), "status", NOW, msgspec.json.encode(event))

    async def finish(self, command_id: str) -> None:
        record = await self.ledger.command(command_id, "default")
        assert record is not None
        ended = msgspec.structs.replace(record, command=msgspec.structs.replace(record.command, state="succeeded"))
        await self.commit([PutCommand(ended), self.status(command_id, event="state", state="succeeded"),
                           self.status(command_id, event="result", ok=True)])

    async def add_approval(self, approval_id: str, tenant: str = "default", **fields: Any) -> Approval:
        approval = Approval(
            **{"id": approval_id, "tenant_id": tenant, "created_at": iso(NOW), "expires_at": iso(NOW + 1),
               "title": "run it", "agent_id": "shell", "session_id": "s1", "rule": "ask", "state": "pending",
               "door": "command", "input": msgspec.Raw(b"{}"), "digest": "00", **fields})
        await self.commit([PutApproval(ApprovalRecord(approval=approval, expires_ms=NOW + 1))])
        return approval

    async def ballot(self, principal: Principal, approval_id: str, *, guess: bool) -> StoredBallot:
        found = await self.ledger.ballot(approval_id, principal.tenant_id)
        if found is None:
            raise Problem("NotFound", f"There is no approval {approval_id}.")
        return found

    async def vote(self, principal: Principal, approval_id: str, body: GrantBody, remember: Remember,
                   stored: StoredBallot | None = None) -> Approval:
        record = await self.ledger.approval(approval_id, "default")
        assert record is not None
        if record.approval.state != "pending":
            raise Problem("Conflict", "This approval is decided already.")
        vote = Vote(by=principal.actor.id, at=iso(NOW), decision=body.decision, method=body.method,
                    comment=body.comment)
        state = "granted" if body.decision == "grant" else "denied"
        approval = msgspec.structs.replace(record.approval, state=state, votes=[vote])
        await self.commit([PutApproval(msgspec.structs.replace(record, approval=approval)),
                           PutIdempotency(remember(approval))])
        return approval

    async def withdraw(self, principal: Principal, approval_id: str, remember: Remember,
                       stored: StoredBallot | None = None) -> Approval:
        record = await self.ledger.approval(approval_id, "default")
        assert record is not None
        approval = withdraw(record.approval, principal.actor, iso(NOW))
        await self.commit([PutApproval(msgspec.structs.replace(record, approval=approval)),
                           PutIdempotency(remember(approval))])
        return approval

    async def report_cards(self, principal: Principal, approval_id: str, body: CardsBody, remember: Remember,
                           stored: StoredBallot | None = None) -> Approval:
        record = await self.ledger.approval(approval_id, "default")
        assert record is not None
        cards = [ApprovalCard(service=body.service, chat=chat, reported_by=named(principal.actor))
                 for chat in body.chats]
        approval = msgspec.structs.replace(record.approval, cards=cards)
        await self.commit([PutApproval(msgspec.structs.replace(record, approval=approval)),
                           PutIdempotency(remember(approval))])
        return approval

    async def answer(self, principal: Principal, approval_id: str, text: str | None, remember: Remember,
                     stored: StoredBallot | None = None) -> Approval:
        record = await self.ledger.approval(approval_id, "default")
        assert record is not None
        if record.approval.kind != "question":
            raise Problem("Conflict", "This is not a question.")
        approval = msgspec.structs.replace(record.approval, state="denied" if text is None else "granted", answer=text,
                                           decided_by=principal.actor.id)
        await self.commit([PutApproval(msgspec.structs.replace(record, approval=approval)),
                           PutIdempotency(remember(approval))])
        return approval

    def budgets(self, tenant_id: str) -> list[Any]:
        return []

    async def learn_rules(self) -> None:
        self.policy = self.policy.remembering([read(record.rule) for record in await self.ledger.rules()])

    async def add_session(self, session_id: str = "s1", tenant: str = "default", updated_ms: int = NOW,
                          **fields: Any) -> None:
        record = SessionRecord(**{
            "session_id": session_id, "tenant_id": tenant, "session_key": f"agent:shell:run:{session_id}",
            "agent_id": "shell", "runner_id": "r1", "workspace": "/w", "state": "idle", "created_ms": NOW,
            "updated_ms": updated_ms, "deadline_ms": None, "machine": b"{}", "usage": {}, **fields})
        await self.commit([PutSession(record)])

    async def frame(self, frame: Frame, kind: str = "C") -> None:
        await self.commit([Append("default", session_stream("s1"), kind, NOW, encode(frame))])  # type: ignore[arg-type]

    async def feed(self, body: bytes) -> None:
        await self.commit([Append("default", tenant_stream("default"), "feed", NOW, body)])

    async def audit(self, count: int) -> None:
        draft = AuditDraft(tenant_id="default", at=iso(NOW), who={"id": "owner", "role": "owner"}, action="enqueue")
        await self.commit([AuditAppend(draft) for _ in range(count)])

    def engine_status(self) -> EngineStatus:
        return EngineStatus(self.up, [2, 3], 1)

    def heartbeat(self, record: CommandRecord) -> Heartbeat | None:
        command_id = record.command.id
        if command_id not in self.beating:
            return None
        return Heartbeat(event="heartbeat", command_id=command_id, agent_id="shell", at=iso(NOW), state="running")

    async def nodes(self, tenant_id: str) -> list[Node]:
        return [Node(node_id="r1", device_name="desk", status="online", last_seen=iso(NOW), capabilities=[],
                     active_sessions_count=0, config_versions={})]
