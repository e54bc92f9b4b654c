"""People's requests about transcripts: read, label, branch, fork, import, repair (X-4, X-6).

Only the session's lane adds an entry, like any other (X-3). A fork or an import is a file first and a session then: a
file without a session is harmless, a session without its file would be wrong. Each change is subject to policy (P-1),
audited in the transaction that makes it, and verified in the file before it is answered.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from interlock.command.redaction import SECRETS
from interlock.engine.bridge.commands.prompts import first_line_of_entries
from interlock.engine.bridge.commands.verbs import LaneVerb
from interlock.engine.bridge.context.context_state import ContextState
from interlock.engine.bridge.handlers.transcripts import AUDIT_ACTION
from interlock.engine.bridge.inputs.people import EntryAdded, PolicyAsked, RepairBegun, RepairDone, TranscriptBegun
from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.bridge.tenant_lane import tenant_lane_id
from interlock.engine.lanes.lanes import Lanes
from interlock.engine.router import Router
from interlock.engine.sessions.transcript_writer import TranscriptWriter
from interlock.ports.ledger import AuditAppend, LaneName, Ledger, WriteBatch
from interlock.ports.transcripts import TranscriptStore
from interlock.protocol.clock import iso
from interlock.protocol.identifiers import uuid4
from interlock.protocol.limits import MAX_REPAIRED_BYTES, MIB
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import AuditDraft, IdempotencyRecord, Principal, SessionRecord
from interlock.protocol.resources import Target
from interlock.protocol.transcripts import Report
from interlock.session.context.context import ModelContext
from interlock.session.keys import run_key
from interlock.session.transcript import tree_edits
from interlock.session.transcript.doctor import examine, repair
from interlock.session.transcript.entries import VERSION, Header
from interlock.session.transcript.export_redaction import Leaving, Redact, leaving
from interlock.session.transcript.transcript_import import UnderHeader, surveyed
from interlock.session.transcript.tree import Tree

T = TypeVar("T")

REPAIR_INLINE_BYTES = 4 * MIB
"""A transcript up to here is imported from memory."""
TITLE_ENTRIES = 20
"""Entries of a transcript in which the first line of a person is looked for, as the title of the session."""
_state_decoder = msgspec.json.Decoder(LaneState)


class Added(NamedTuple):
    """An added entry, which is now the leaf."""

    session_id: str
    entry_id: str
    parent_id: str | None


class Begun(NamedTuple):
    """A session that started with a transcript, and the findings about its source."""

    record: SessionRecord
    entries: int
    report: Report | None = None


class ImportSource(Protocol):
    """A transcript to import: its lines, which may be read repeatedly, or all of its bytes. Both block."""

    @property
    def size(self) -> int: ...

    @property
    def sha256(self) -> str: ...

    def __iter__(self) -> Iterator[bytes]: ...

    def whole(self) -> bytes: ...


class Text:
    """A transcript in a request's body."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)
        self.sha256 = hashlib.sha256(data).hexdigest()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._data.split(b"\n"))

    def whole(self) -> bytes:
        """Return all of its bytes."""
        return self._data


class Repaired(NamedTuple):
    """The faults found, and the name under which the damaged file is kept; None if there were none."""

    report: Report
    kept: str | None


class TranscriptDesk:
    """The service for transcripts. Raises Problem for every refusal. The caller has checked that the session is the
    tenant's."""

    def __init__(self, ledger: Ledger, transcripts: TranscriptStore, writer: TranscriptWriter, lanes: Lanes,
                 router: Router) -> None:
        self._ledger = ledger
        self._transcripts = transcripts
        self._writer = writer
        self._lanes = lanes
        self._router = router
        self._redact: Redact = SECRETS.text

    def configure(self, redact: Redact) -> None:
        """Redact exported transcripts with `redact` (K-4)."""
        self._redact = redact

    # --- reading ---
    async def tree(self, record: SessionRecord) -> Tree:
        """Return the current transcript as a tree."""
        await self._settle(record)
        return await self._kept(self._transcripts.tree(record.session_id, record.agent_id, record.tenant_id))

    async def page(self, record: SessionRecord, after: int, limit: int) -> tuple[list[bytes], int]:
        """Return lines of the entries after the first `after`, and the total number of entries."""
        await self._settle(record)
        found = await self._kept(self._transcripts.page(record.session_id, record.agent_id, record.tenant_id, after,
                                                        limit))
        return found.lines, found.entries

    async def context(self, record: SessionRecord) -> ModelContext:
        """Return the context that the transcript forms for a model (X-1)."""
        await self._settle(record)
        return await self._kept(self._transcripts.context(record.session_id, record.agent_id, record.tenant_id))

    async def lines(self, record: SessionRecord) -> list[bytes]:
        """Return every line of the file, the header first."""
        await self._settle(record)
        return await self._kept(self._transcripts.read(record.session_id, record.agent_id, record.tenant_id))

    async def leaving(self, record: SessionRecord) -> Leaving:
        """Return every line for an export, with redaction applied to its text (K-4)."""
        return await asyncio.to_thread(leaving, await self.lines(record), self._redact)

    async def note_raw_export(self, principal: Principal, record: SessionRecord, media: str) -> None:
        """Write an audit record of an unredacted export, before it is sent (U-1)."""
        await self._ledger.commit(WriteBatch([AuditAppend(AuditDraft(
            tenant_id=record.tenant_id, at=iso(self._lanes.wall.now_ms()), who=principal.who, action=AUDIT_ACTION,
            session_id=record.session_id, meta={"op": "export", "view": "raw", "format": media}))]))

    async def examine(self, record: SessionRecord) -> Report:
        """Return the faults of the file (X-4)."""
        found: list[Report] = []

        def look(data: bytes) -> None:
            found.append(examine(data))

        await self._settle(record)
        await self._rewrite(record, look)
        return found[0] if found else examine(b"")

    # --- entries ---
    async def label(self, principal: Principal, record: SessionRecord, entry_id: str, label: str | None,
                    remember: Callable[[Added], IdempotencyRecord]) -> Added:
        """Label an entry, or remove its label with None (X-6)."""
        if label is not None and not 0 < len(label.strip()) <= tree_edits.MAX_LABEL_CHARS:
            raise _wrong("/label", f"a label has 1 to {tree_edits.MAX_LABEL_CHARS} characters; null takes it away")
        label = label.strip() if label is not None else None
        changes = {"entry_id": entry_id, "label": label}
        added = await self._add(EntryAdded("label", principal, changes, entry_id, label), record, remember)
        if (await self.tree(record)).labels().get(entry_id) != label:
            raise Problem("Unavailable", f"The label of {entry_id} cannot be seen in the transcript yet")
        return added

    async def branch(self, principal: Principal, record: SessionRecord, entry_id: str, summary: str | None,
                     remember: Callable[[Added], IdempotencyRecord]) -> Added:
        """Continue from an earlier entry: what is appended next is below it (X-6)."""
        changes = {"entry_id": entry_id, **({"summary": summary} if summary is not None else {})}
        added = await self._add(EntryAdded("branch", principal, changes, entry_id, summary), record, remember)
        tree = await self.tree(record)
        place = tree.place(added.entry_id)
        if place is None or tree.nodes[place].parent_id != entry_id:
            raise Problem("Unavailable", f"The branch below {entry_id} cannot be seen in the transcript yet")
        return added

    async def _add(self, input_: EntryAdded, record: SessionRecord, remember: Callable[[Added], IdempotencyRecord]
                   ) -> Added:
        entry_id = input_.entry_id
        if (await self.tree(record)).place(entry_id) is None:
            raise Problem("NotFound", f"The transcript of session {record.session_id} has no entry {entry_id}",
                          hint="List them with `GET /v1/sessions/{id}/tree`.")
        shell = await self._lanes.lane(record.session_id)
        assert shell is not None, "the session is there, and sessions are never removed"

        def named(answer: tuple[str, str | None]) -> Added:
            return Added(record.session_id, *answer)

        return named(await shell.call(input_, lambda answer: remember(named(answer))))

    # --- sessions ---
    async def fork(self, principal: Principal, record: SessionRecord, entry_id: str | None,
                   remember: Callable[[Begun], IdempotencyRecord]) -> Begun:
        """Start a session with the path to an entry, by default the leaf; this session stays as it is (X-6)."""
        tree = await self.tree(record)
        leaf = tree.place(entry_id)
        if leaf is None:
            what = f"no entry {entry_id}" if entry_id is not None else "no entry yet"
            raise Problem("NotFound", f"The transcript of session {record.session_id} has {what}",
                          hint="List them with `GET /v1/sessions/{id}/tree`.")
        await self._ask(record.session_id, LaneVerb("fork", principal, {"entry_id": entry_id} if entry_id else {}))
        source = _state_decoder.decode(record.machine)
        session_id = uuid4(self._lanes.entropy(16))
        fresh = LaneState(
            session_id=session_id, tenant_id=record.tenant_id, session_key=run_key(record.agent_id, session_id),
            agent_id=record.agent_id, runner_id=record.runner_id, workspace=record.workspace,
            created_ms=self._lanes.clock.now_ms(), permission=source.permission, holding=source.holding,
            trusted_kinds=source.trusted_kinds, offered_box=source.offered_box,
            context=ContextState(owner=source.context.owner),
        )
        header = self._header(fresh, f"{record.session_id}.jsonl")
        lines = tree_edits.fork(tree, leaf, header, header.timestamp, self._lanes.entropy)
        return await self._begin(principal, fresh, lines, {"op": "fork", "of": record.session_id}, None, remember)

    async def take_in(self, principal: Principal, target: Target, source: ImportSource,
                      remember: Callable[[Begun], IdempotencyRecord]) -> Begun:
        """Start a session with a transcript that was written elsewhere, versions 1 to 3 (X-2, X-6)."""
        await self._router.look()
        fresh = self._router.begin(principal, await self._router.choose(principal, target))
        lines, report = await asyncio.to_thread(self._readable, source, self._header(fresh, None))
        details = {"agent_id": fresh.agent_id, "runner_id": fresh.runner_id, "workspace": fresh.workspace,
                "content_sha256": source.sha256}
        await self._ask(tenant_lane_id(fresh.tenant_id), LaneVerb("import", principal, details, f"for {fresh.agent_id}",
                                                            fresh.agent_id))
        return await self._begin(principal, fresh, lines, {"op": "import"}, report, remember)

    def _readable(self, source: ImportSource, header: Header) -> tuple[Iterable[bytes], Report]:
        """Return the lines that a session starts with, and the findings. A long file is read line by line."""
        if source.size <= REPAIR_INLINE_BYTES:
            return self._repaired(source.whole(), header)
        report = surveyed(source)
        if report.sound:
            return UnderHeader(header, source), report
        if source.size <= MAX_REPAIRED_BYTES:
            return self._repaired(source.whole(), header)
        found = ", ".join(f"{kind} {count}" for kind, count in report.counts.items())
        raise _wrong("/content", f"it has {source.size} bytes and is not sound ({found}), and only up to "
                     f"{MAX_REPAIRED_BYTES} bytes are mended here; mend it first with `interlock sessions doctor FILE "
                     "--repair`")

    def _repaired(self, data: bytes, header: Header) -> tuple[Iterable[bytes], Report]:
        try:
            found = tree_edits.import_lines(data, header, self._lanes.entropy)
        except tree_edits.NothingToImport as error:
            raise _wrong("/content", str(error)) from None
        return found.lines, found.report

    async def _begin(self, principal: Principal, fresh: LaneState, lines: Iterable[bytes], meta: dict[str, Any],
                     report: Report | None, remember: Callable[[Begun], IdempotencyRecord]) -> Begun:
        await self._lanes.meet(LaneName(fresh.tenant_id, fresh.session_id), fresh.runner_id)
        name = (fresh.session_id, fresh.agent_id, fresh.tenant_id)
        await self._kept(self._transcripts.publish(*name, lines))
        # A session starts with what the store has of it: it is read there before the session exists.
        ids, leaf = await self._kept(self._transcripts.ids(*name)), await self._kept(self._transcripts.leaf(*name))
        head = (await self._kept(self._transcripts.page(*name, 0, TITLE_ENTRIES))).lines
        titled = msgspec.structs.replace(fresh, first_line=first_line_of_entries(head))
        shell = await self._lanes.lane(fresh.session_id, titled)
        assert shell is not None, "a lane that begins is there"

        def named(row: SessionRecord) -> Begun:
            return Begun(row, len(ids), report)

        begun = named(await shell.call(TranscriptBegun(principal, meta, sorted(ids), leaf),
                                       lambda row: remember(named(row))))
        if await self._ledger.session(fresh.session_id, fresh.tenant_id) is None:
            raise Problem("Unavailable", f"Session {fresh.session_id} cannot be seen yet")
        return begun

    def _header(self, state: LaneState, parent_session: str | None) -> Header:
        return Header(version=VERSION, id=state.session_id, timestamp=iso(self._lanes.wall.now_ms()),
                      cwd=state.workspace, parent_session=parent_session)

    # --- repair ---
    async def repair(self, principal: Principal, record: SessionRecord,
                     remember: Callable[[Repaired], IdempotencyRecord]) -> Repaired:
        """Replace a damaged file, which is kept, with a repaired one (X-4). An intact file stays as it is."""
        found = await self.examine(record)
        shell = await self._lanes.lane(record.session_id)
        assert shell is not None, "the session is there, and sessions are never removed"
        await shell.call(RepairBegun(principal, None if found.sound else found.counts))
        header = Header(version=VERSION, id=record.session_id, timestamp=iso(record.created_ms), cwd=record.workspace)
        reports: list[Report] = []

        def change(data: bytes) -> list[bytes] | None:
            made = repair(data, header, self._lanes.entropy)
            reports.append(made.report)
            return None if made.report.sound else made.lines

        kept = await self._rewrite(record, change)
        repaired = Repaired(reports[0] if reports else examine(b""), kept)
        after = await self.examine(record)
        if not after.sound:
            raise Problem("InternalError", f"The repaired transcript is not sound: {', '.join(after.counts)}")
        ids = await self._kept(self._transcripts.ids(record.session_id, record.agent_id, record.tenant_id))

        shell = await self._lanes.lane(record.session_id)
        assert shell is not None, "the session is there, and sessions are never removed"
        await shell.call(
            RepairDone(principal, sorted(ids), after.leaf, after.entries,
                       None if repaired.report.sound else repaired.report.counts, kept or ""),
            lambda _: remember(repaired))
        return repaired

    # --- inside ---
    async def _ask(self, session_id: str, verb: LaneVerb) -> None:
        """Ask policy about what starts in a future session: a yes is consumed first, as for a reset. Raises Problem."""
        shell = await self._lanes.lane(session_id)
        assert shell is not None, "sessions are never removed, and a tenant's lane is always there"
        await shell.call(PolicyAsked(verb))

    async def _settle(self, record: SessionRecord) -> None:
        try:
            await self._writer.settle(record.session_id, record.tenant_id)
        except (OSError, ValueError) as error:
            raise _unavailable(error) from None

    async def _rewrite(self, record: SessionRecord, change: Callable[[bytes], list[bytes] | None]) -> str | None:
        try:
            return await self._transcripts.rewrite(record.session_id, record.agent_id, record.tenant_id, change)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise _unavailable(error) from None

    async def _kept(self, reading: Awaitable[T]) -> T:
        try:
            return await reading
        except (OSError, ValueError) as error:
            raise _unavailable(error) from None


def _wrong(pointer: str, detail: str) -> Problem:
    return Problem("InvalidPayload", f"{pointer}: {detail}", errors=(Place(pointer, detail),))


def _unavailable(error: Exception) -> Problem:
    return Problem("Unavailable", f"The transcript cannot be read or written: {error}", headers={"Retry-After": "1"})
