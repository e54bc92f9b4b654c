"""A lane: the only writer of a session, its commands and its approvals. It decides, and performs no writes itself.

A lane is mutable and belongs to one shell. Its decisions collect in `out`; the shell commits that, then publishes. If
the commit fails, the lane is discarded and read again from the ledger, so nothing that was not durable is ever
visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from interlock.command import approval as approvals
from interlock.command import machine as commands
from interlock.command.audit.record_seal import progress_sha256, terms
from interlock.engine.bridge.conditions import Conditions
from interlock.engine.bridge.context.contexts import Prepared
from interlock.engine.bridge.context.transcriber import FoldedFrame, Transcriber
from interlock.engine.bridge.effects import LaneEvent, LaneTransient, Out
from interlock.engine.bridge.lane_state import LaneHome, LaneState, Limits
from interlock.engine.bridge.live import LiveCommands, RecentIds, activity, next_deadline
from interlock.engine.bridge.tenant_lane import is_tenant_lane
from interlock.ports.ledger import (
    Append,
    AuditAppend,
    LedgerWrite,
    PutApproval,
    PutCommand,
    PutControl,
    PutSession,
    PutTranscript,
)
from interlock.protocol.clock import iso
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.hold import phrase
from interlock.protocol.identifiers import COMMAND_STREAMS, session_stream, tenant_stream, ulid, uuid4
from interlock.protocol.payloads import FileTransfer, Payload
from interlock.protocol.problems import Problem
from interlock.protocol.records import (
    ApprovalRecord,
    AuditDraft,
    CommandRecord,
    ControlRecord,
    EventKind,
    SessionRecord,
)
from interlock.protocol.resources import ApprovalState, CommandState, FeedEvent, Notice, SessionActivity, StatusEvent
from interlock.session.transcript.entries import Draft
from interlock.session.transcript.transcript import approval_draft, notice_draft
from interlock.session.transfers import Digest, set_apart
from interlock.session.turn import Refusal
from interlock.session.turn_output import TurnFold

SYSTEM = {"id": "gateway", "role": "system"}
"""The actor of actions by neither a person nor an agent."""

MAX_NOTICES = 50
"""The newest notices that a command's own row keeps; its stream holds all of them, however often a link flaps."""

UNSEALED = frozenset({"session.error", "session.usage", "session.capabilities", "x-interlock.interaction.held"})
"""Control frames that cause no agent to act, and so need no digest in the audit log (H-5)."""

_encoder = msgspec.json.Encoder()


class Lane:
    """State, live commands and approvals of one session, and the operations that the rest of the bridge is written
    with."""

    def __init__(
        self,
        state: LaneState,
        live_commands: list[CommandRecord],
        live_approvals: list[ApprovalRecord],
        fold: TurnFold,
        entropy: Callable[[int], bytes],
        limits: Limits,
        home: LaneHome,
        transcriber: Transcriber | None = None,
        recent: Iterable[str] = (),
    ) -> None:
        """Create a lane; `recent` are the ids of the session's last messages."""
        self.state = state
        self.commands = LiveCommands(live_commands)
        self.approvals = {record.approval.id: record for record in live_approvals}
        self.fold = fold
        self.gateway_id, self.keeps_objects, self.spending = home
        self.unconfirmed: dict[int, bytes] = {}
        """Control frames by seq that the runner has not confirmed, as stored in the ledger (D-7)."""
        self.controls: dict[int, bytes] = {}
        """Control frames of this decision by seq, as far as they are sealed."""
        self.sealed = b""
        """The state that the lane decides by, as of its digest in the audit log."""
        self.progress = {record.command.id: progress_sha256(record) for record in live_commands}
        """Progress digests of the live commands, as of the audit log."""
        self.now = self.wall = 0
        self._at = ""
        self.due_ms: int | None = None
        """The next instant at which time alone triggers a decision, as of the last snapshot."""
        self.out = Out([], [], [], [], [])
        self.digests: dict[str, Digest] = {}
        """The running digest of each file under way."""
        self.limits = limits
        self.transcriber = transcriber  # None if no transcripts are kept.
        self._trusted_files: str | None = None
        self._prepared: Prepared | None = None
        self.wants_context = False
        self.conditions = Conditions(0, 0)
        """The conditions of the decision, besides this lane and its inputs."""
        self.draining = False
        """Whether a drain keeps waiting work from starting (C-5)."""
        self.answered = False
        """Whether the answer to a person's request is stored with this decision."""
        self.recent = RecentIds(recent)
        self._folded: Sequence[FoldedFrame] = ()
        self.at_input = 0
        """The index of the input being decided; after the last one, of the common consequences."""
        self._applying: Frame | None = None
        self.entropy = entropy
        self.stream = session_stream(state.session_id)
        """The name of the session's stream."""
        self._feed = tenant_stream(state.tenant_id)
        self.is_session = not is_tenant_lane(state.session_id)
        """Whether it belongs to a session, and is not a tenant lane."""

    # --- what it holds besides its state ---
    @property
    def folded(self) -> Sequence[FoldedFrame]:
        """Return the frames that the folds received before the first decision, for a log of the lane's inputs."""
        return self._folded

    def rehydrate(self, fold: TurnFold, folded: Sequence[FoldedFrame], transcriber: Transcriber | None) -> None:
        """Set the fold of the open turn, with the frames that it was built from, and the transcript as it was read."""
        self.fold, self._folded, self.transcriber = fold, folded, transcriber

    def configure(self, limits: Limits) -> None:
        """Use new settings from here on."""
        self.limits = limits

    def draw_from(self, entropy: Callable[[int], bytes]) -> Callable[[int], bytes]:
        """Replace the source of random bytes; returns the previous one."""
        before, self.entropy = self.entropy, entropy
        return before

    def note_sealed(self, deciding: bytes) -> None:
        """Record the deciding state, once the audit log has its digest."""
        self.sealed = deciding

    @property
    def applying(self) -> Frame | None:
        """Return the frame that is being applied: if the lane fails, the one it failed at."""
        return self._applying

    def apply(self, frame: Frame | None) -> None:
        """Record the frame that is being applied; None after the last."""
        self._applying = frame

    def trust_files(self, digest: str) -> None:
        """Allow the next start of the agent to be configured by the files of this digest, by policy (H-13)."""
        self._trusted_files = digest

    def take_trusted_files(self) -> str | None:
        """Return the digest of `trust_files`, once."""
        digest, self._trusted_files = self._trusted_files, None
        return digest

    def keep_context(self, prepared: Prepared) -> None:
        """Store the context for the next prompt, as the shell read it (B-1)."""
        self._prepared = prepared

    def has_context(self) -> bool:
        """Return whether the context for the next prompt is loaded. If not, the shell is asked to read it."""
        if self._prepared is not None and self._prepared.leaf == self.state.context.leaf:
            return True
        self._prepared, self.wants_context = None, True
        return False

    def take_context(self) -> Prepared | None:
        """Return the context for the next prompt, once; None if it was not read yet."""
        prepared, self._prepared = self._prepared, None
        return prepared

    def order_unconfirmed(self) -> None:
        """Sort the unconfirmed control frames by number: they are sent in this order."""
        self.unconfirmed = dict(sorted(self.unconfirmed.items()))

    # --- names and numbers ---
    def begin(self, conditions: Conditions) -> None:
        """Start a decision."""
        self.conditions = conditions
        if conditions.wall_ms != self.wall:
            self._at = ""
        self.now, self.wall, self.draining = conditions.now_ms, conditions.wall_ms, conditions.draining
        self.answered, self._applying, self._folded = False, None, ()
        self.wants_context = False
        self.out = Out([], [], [], [], [])
        self.controls = {}

    def end(self) -> None:
        """Drop the effects of a decision, once they are done: a lane that waits holds none of them."""
        self.out = Out([], [], [], [], [])

    def advance_to(self, at: int) -> None:
        """Record the index of the input that is decided next."""
        self.at_input = at

    def store_with_answer(self, rows: Sequence[LedgerWrite]) -> None:
        """Store rows with the answer to a person's request."""
        self.out.writes.extend(rows)
        self.answered = True

    @property
    def at(self) -> str:
        """Return the decision's instant as text. Most frames need none."""
        if not self._at:
            self._at = iso(self.wall)
        return self._at

    def new_id(self, prefix: str) -> str:
        """Create an id that sorts by time: `cmd_…`, `apr_…`. Objects with an id also get a date, so `at` is computed
        here."""
        made = ulid(self.now, self.entropy(10))
        self._at = self._at or iso(self.wall)
        return f"{prefix}_{made}"

    def new_uuid(self) -> str:
        """Create a UUID v4."""
        return uuid4(self.entropy(16))

    def check_controlled(self) -> None:
        """Raise Problem Conflict if another gateway controls the session; it names that gateway (D-5)."""
        if controller := self.state.controller:
            session_id = self.state.session_id
            raise Problem("Conflict", f"Gateway {controller} controls session {session_id}; this one only observes it",
                          hint="Ask it there, or take control on the runner's host: interlock runner take "
                               f"{session_id} --to {self.gateway_id}. To put it away here: interlock sessions archive "
                               f"{session_id}")

    @property
    def active(self) -> CommandRecord | None:
        """Return the command that occupies the session, if it is still live."""
        return self.commands.get(self.state.active) if self.state.active else None

    # --- the session's stream ---
    def append(self, kind: EventKind, body: bytes, message_id: str = "", frame: Frame | None = None) -> int:
        """Append to the session's stream; returns the number that it will have. `frame` is the applied runner's frame
        that `body` holds, so that it need not be parsed again."""
        self.state.n += 1
        self._append(Append(self.state.tenant_id, self.stream, kind, self.wall, body, message_id), frame)
        return self.state.n

    def _append(self, event: Append, frame: Frame | None = None) -> None:
        self.out.writes.append(event)
        self.out.published.append(LaneEvent(event, frame))

    def transient(self, frame: Frame, raw: bytes) -> bool:
        """Forward a transient frame to viewers; one that does not fit an open turn is dropped, as is allowed, and False
        is returned (E-4, T-4).
        """
        try:
            self.state.machine.check(frame)
        except Refusal:
            return False
        self.out.published.append(LaneTransient(raw, frame))
        return True

    def control(self, kind: str, payload: Payload, metadata: dict[str, Any] | None = None) -> Frame:
        """Create a control frame: numbered, stored until the runner has it (D-7), in the stream, sent after the commit.
        An observer's frame is not sent (D-5)."""
        if self.state.controller:
            return Frame(type=kind, payload=payload, message_id=self.new_uuid(), session_id=self.state.session_id,
                         timestamp=self.at)
        self.state.control_seq += 1
        frame = Frame(
            type=kind, payload=payload, message_id=self.new_uuid(), session_id=self.state.session_id,
            seq=self.state.control_seq, timestamp=self.at, metadata=metadata or {},
        )
        raw = encode(frame)
        self._keep_control(frame, raw)
        shown = raw
        if self.keeps_objects and isinstance(payload, FileTransfer):
            shown = set_apart(frame, raw, self.out.objects)[1]
        self.append("M", shown, frame.message_id)
        self.transcribe_frame(frame)
        self.out.sends.append(raw)
        return frame

    def replace_control(self, frame: Frame) -> None:
        """Replace a control frame that the runner has not confirmed (D-7)."""
        raw = encode(frame)
        self._keep_control(frame, raw)
        self.append("M", raw, frame.message_id)

    def _keep_control(self, frame: Frame, raw: bytes) -> None:
        """Store a control frame until the runner confirms it."""
        assert frame.seq is not None
        self.out.writes.append(PutControl(ControlRecord(session_id=self.state.session_id, seq=frame.seq,
                                                        message_id=frame.message_id, body=raw), self.state.tenant_id))
        if frame.type not in UNSEALED:
            self.controls[frame.seq] = raw
        self.unconfirmed[frame.seq] = raw

    def notice(self, notice: Notice) -> None:
        """Notify every viewer of the session, and of its live command, of something that people must know."""
        self.append("notice", _encoder.encode(notice))
        self.transcribe([notice_draft(notice)])
        record = self.active
        if record is not None:
            kept = [*record.command.notices, notice][-MAX_NOTICES:]
            command = msgspec.structs.replace(record.command, notices=kept)
            self.keep(msgspec.structs.replace(record, command=command))
            self.status(StatusEvent(event="notice", command_id=command.id, at=self.at, notice=notice))

    # --- the transcript ---
    def transcribe_frame(self, frame: Frame) -> None:
        """Append the transcript entries that a durable frame of either direction completes (X-8)."""
        drafts = self.transcriber.fold.feed(frame, self.wall) if self.transcriber is not None else None
        if drafts:  # Most frames complete no entry, so no id or date is needed.
            self.transcribe(drafts)

    def transcribe(self, drafts: Iterable[Draft]) -> None:
        """Append entries to the transcript: their lines are committed with this decision, then written (X-3)."""
        if self.transcriber is not None:
            record = self.active
            origin = "flush" if record is not None and record.origin == "flush" else None
            lines = self.transcriber.lines(drafts, self.at, self.entropy, origin)
            self.out.writes.extend(map(PutTranscript, lines))
            self.note_leaf()

    def reserve_entry(self) -> str:
        """Return the id that the next prompt's entry will have; "" if no transcript is kept."""
        return self.transcriber.reserve(self.entropy) if self.transcriber is not None else ""

    def note_leaf(self) -> None:
        """Record the leaf that the transcript continues from."""
        if self.transcriber is not None:
            self.state.transcript_leaf, self.state.context.leaf = self.transcriber.leaf, self.transcriber.context_leaf

    # --- commands ---
    def keep(self, record: CommandRecord, *, new: bool = False) -> CommandRecord:
        """Store a new or a changed command; one that has ended leaves the lane."""
        command, kept = record.command, record
        if command.updated_at != self.at:
            command = msgspec.structs.replace(command, updated_at=self.at)
            kept = msgspec.structs.replace(record, command=command)
        self.out.writes.append(PutCommand(kept, new))
        if command.state in commands.TERMINAL:
            self.commands.drop(command.id)
        else:
            self.commands.keep(kept)
        return kept

    def status(self, event: StatusEvent, *, opens: bool = False) -> None:
        """Append to a command's stream; `opens` if it is new."""
        self._append(Append(self.state.tenant_id, COMMAND_STREAMS + event.command_id, "status", self.wall,
                            _encoder.encode(event), opens=opens))

    def feed(self, event: FeedEvent) -> None:
        """Append to the tenant's feed."""
        self._append(Append(self.state.tenant_id, self._feed, "feed", self.wall, _encoder.encode(event)))

    def move(
        self,
        record: CommandRecord,
        to: CommandState,
        who: dict[str, str],
        meta: dict[str, Any] | None = None,
        **changes: Any,
    ) -> CommandRecord:
        """Move a command according to the state table: row, event, feed and exactly one audit record (invariant 3).

        `changes` are fields of the record; those named in `Command` are part of the resource. Raises IllegalMove.
        """
        before = record.command.state
        commands.check_move(before, to)
        resource: dict[str, Any] = {"state": to}
        for name in tuple(changes):
            if name in type(record.command).__struct_fields__ and name not in type(record).__struct_fields__:
                resource[name] = changes.pop(name)
        command = msgspec.structs.replace(record.command, **resource)
        if to in commands.TERMINAL:
            command = msgspec.structs.replace(command, ended_at=self.at)
        kept = self.keep(msgspec.structs.replace(record, command=command, **changes))
        self.record_state(kept, before, who, meta)
        return kept

    def record_state(
        self, record: CommandRecord, before: CommandState | None, who: dict[str, str], meta: dict[str, Any] | None,
        personal: Mapping[str, str | None] | None = None,
    ) -> None:
        """Append the state event, the feed's and the audit record of one transition."""
        command = record.command
        self.status(StatusEvent(event="state", command_id=command.id, at=self.at, state=command.state,
                                previous=before, by=who["id"]), opens=before is None)
        self.feed(FeedEvent(event="command", at=self.at, id=command.id, state=command.state,
                            session_id=self.state.session_id, by=who["id"]))
        details: dict[str, Any] = {"to": command.state, **(meta or {})}
        if before is not None:
            details["from"] = before
        self.audit(commands.AUDIT_ACTION[command.state], who, details, command_id=command.id, personal=personal)

    # --- approvals ---
    def keep_approval(self, record: ApprovalRecord) -> ApprovalRecord:
        """Store a changed approval; a terminal one leaves the lane."""
        self.out.writes.append(PutApproval(record))
        if record.approval.state in approvals.TERMINAL:
            self.approvals.pop(record.approval.id, None)
        else:
            self.approvals[record.approval.id] = record
        return record

    def move_approval(
        self, record: ApprovalRecord, to: ApprovalState, who: dict[str, str], **changes: Any
    ) -> ApprovalRecord:
        """Move an approval according to its state table, with events and exactly one audit record."""
        moved = approvals.moved(record.approval, to, **changes)
        kept = self.keep_approval(msgspec.structs.replace(record, approval=moved))
        self.record_approval(kept, who)
        return kept

    def record_approval(self, record: ApprovalRecord, who: dict[str, str]) -> None:
        """Append an approval's event on the command's stream and the feed, and its audit record (P-5)."""
        approval = record.approval
        self.transcribe([approval_draft(approval, who["id"])])
        # The terminal state is the last event of a command's stream, so a tool's late end is published in the feed
        # alone.
        over = approval.door == "tool" and approval.command_id not in self.commands
        if approval.command_id is not None and not over:
            self.status(StatusEvent(event="approval", command_id=approval.command_id, at=self.at,
                                    approval_id=approval.id, approval_state=approval.state, by=who["id"]))
        self.feed_approval(record, who["id"])
        opened: dict[str, Any] = {"terms": terms(record)} if approval.state == "pending" else {}
        if approval.holding is not None and approval.state == "pending":
            opened["held"] = phrase(approval.holding)
        self.audit(approvals.AUDIT_ACTION[approval.state], who,
                   {"to": approval.state, "door": approval.door, "digest": approval.digest, "rule": approval.rule,
                    **opened}, command_id=approval.command_id, approval_id=approval.id)

    def feed_approval(self, record: ApprovalRecord, by: str) -> None:
        """Publish an approval's state in the tenant's feed."""
        approval = record.approval
        self.feed(FeedEvent(event="approval", at=self.at, id=approval.id, state=approval.state,
                            command_id=approval.command_id, session_id=approval.session_id, by=by))

    # --- audit and row ---
    def audit(
        self, action: str, who: dict[str, str], meta: dict[str, Any], *,
        command_id: str | None = None, approval_id: str | None = None, personal: Mapping[str, str | None] | None = None,
    ) -> None:
        """Add one audit record to this transaction (U-1); text written by people is stored in `personal` only (U-4)."""
        self.out.writes.append(
            AuditAppend(AuditDraft(tenant_id=self.state.tenant_id, at=self.at, who=who, action=action,
                                   command_id=command_id, session_id=self.state.session_id, approval_id=approval_id,
                                   meta=meta, personal={name: text for name, text in (personal or {}).items() if text}))
        )

    def snapshot(self) -> PutSession:
        """Return the session's row after this decision."""
        state = self.state
        if not state.updated_ms or self._is_activity():
            state.updated_ms = self.now
        self.due_ms = self.deadline_ms()
        return PutSession(
            SessionRecord(
                session_id=state.session_id, tenant_id=state.tenant_id, session_key=state.session_key,
                agent_id=state.agent_id, runner_id=state.runner_id, workspace=state.workspace,
                state=self.session_state(), created_ms=state.created_ms, updated_ms=state.updated_ms,
                deadline_ms=state.wanted_ms(self.due_ms), machine=_encoder.encode(state),
                usage={"input_tokens": state.input_tokens, "output_tokens": state.output_tokens,
                       "context_tokens": state.context_tokens},
            )
        )

    def _is_activity(self) -> bool:
        """Return whether the conversation had activity: its turn continues, or a command, an approval, an entry or a
        person's change is written. Attaching and detaching of a runner, and agents that close with it, do not count: a
        restart must not make every session look new."""
        return self.state.machine.phase in ("turn", "usage") or self.answered or any(
            isinstance(write, (PutCommand, PutApproval, PutTranscript))
            or (isinstance(write, AuditAppend) and write.draft.who.get("role") not in ("system", "runner"))
            for write in self.out.writes)

    def session_state(self) -> SessionActivity:
        """Return the session's current state."""
        return activity(self.state, self.commands, self.approvals.values())

    def deadline_ms(self) -> int | None:
        """Return the next instant at which time alone triggers a decision; None if nothing waits."""
        return next_deadline(self.state, self.commands, self.approvals.values())
