"""The ledger, the leases and the bus as gateways reach them: late, sometimes never, and the bus with losses."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import Any, NamedTuple

from interlock.backends.bus_local.bus import Hub, LocalBus
from interlock.backends.memory.ledger import MemoryLedger
from interlock.backends.memory.transcripts import MemoryTranscripts
from interlock.command.machine import TERMINAL
from interlock.ports.bus import BusTimeout, CutOff, LostOver, Subscription
from interlock.ports.entities import RUNNERS
from interlock.ports.ledger import Fenced, LedgerError, Receipt, WriteBatch
from interlock.ports.writes import AuditAppend, LedgerWrite, Put, PutApproval, PutCommand, PutSession
from interlock.protocol.records import ApprovalRecord, CommandRecord, Event, RunnerRecord, SessionRecord
from proof.simulation.costs import Connections
from proof.simulation.time import PLACE

STORE_S = (0.0005, 0.004)
"""A store's answer takes as long as this, there and back."""
BUS_S = (0.0003, 0.003)
FORWARDED = ".rest"
"""How the subject ends under which a gateway answers requests of clients that others forward to it."""


class Store(MemoryLedger):
    """The ledger of all, with the indexes that a database has: a simulation holds a hundred thousand sessions. It
    watches each commit from the inside: what was written, and under which epoch."""

    def __init__(self) -> None:
        super().__init__("gw_simulated")
        self._of_runner: dict[str, dict[str, None]] = {}
        self._of_session: dict[str, dict[str, None]] = {}
        self._asked_of: dict[str, dict[str, None]] = {}
        self._by_token: dict[str, str] = {}
        self.tallies = Counter[str]()
        self.faults: list[str] = []
        """Writes that should have been refused."""
        self.unaudited: list[str] = []
        """Moves without their record, records without their move."""
        self.moves: dict[str, list[str]] = {}
        """Every state that each command and approval was in, in order."""
        self.pending: dict[str, str] = {}
        """Approvals that wait for a vote, and their tenants."""
        self.checks_epochs = True
        """False leaves the check of epochs out, to see that this is noticed."""

    async def commit(self, batch: WriteBatch) -> Receipt:
        stale = [lane for lane, epoch in batch.epochs if self.lanes.get(lane) != epoch]
        given = batch if self.checks_epochs else WriteBatch(batch.writes)
        try:
            receipt = await super().commit(given)
        except Fenced:
            self.tallies["fenced"] += 1
            raise
        if stale:
            self.faults.append(f"a write under a stale epoch succeeded: {stale[0]}")
        self.tallies["commits"] += 1
        self.tallies["events"] += len(receipt.numbers)
        self._compare(batch)
        return receipt

    def _compare(self, batch: WriteBatch) -> None:
        """Each move of the batch has its one audit record in it, and is one that the table of states has."""
        moved, written = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for write in batch.writes:
            if isinstance(write, PutCommand):
                self._moved(write.record.command.id, write.record.command.state, moved)
            elif isinstance(write, PutApproval):
                self._moved(write.record.approval.id, write.record.approval.state, moved)
                self._note_pending(write.record)
            elif isinstance(write, AuditAppend) and "to" in write.draft.meta:
                written[write.draft.approval_id or write.draft.command_id or "", str(write.draft.meta["to"])] += 1
        self.tallies["transitions"] += moved.total()
        if moved != written:
            self.unaudited.append(f"moved {dict(moved - written)} without a record, recorded "
                                  f"{dict(written - moved)} that did not move")

    def _moved(self, name: str, state: str, moved: Counter[tuple[str, str]]) -> None:
        states = self.moves.setdefault(name, [])
        if not states or states[-1] != state:
            states.append(state)
            moved[name, state] += 1

    def _note_pending(self, record: ApprovalRecord) -> None:
        if record.approval.state == "pending":
            self.pending[record.approval.id] = record.approval.tenant_id
        else:
            self.pending.pop(record.approval.id, None)

    def _apply(self, write: LedgerWrite, receipt: Receipt, undo: Any) -> None:
        super()._apply(write, receipt, undo)
        match write:
            case PutSession(record):
                self._of_runner.setdefault(record.runner_id, {})[record.session_id] = None
            case PutCommand(record):
                self._of_session.setdefault(record.session_id, {})[record.command.id] = None
            case PutApproval(record):
                self._asked_of.setdefault(record.approval.session_id, {})[record.approval.id] = None
            case Put(RunnerRecord() as runner):
                self._by_token[runner.token_sha256] = runner.runner_id
            case _:
                pass

    async def runner_sessions(self, runner_id: str, tenant_id: str) -> list[SessionRecord]:
        found = (self._sessions[one] for one in self._of_runner.get(runner_id, ()))
        return [record for record in found if record.state != "closed"]

    async def live_commands(self, session_id: str, tenant_id: str) -> list[CommandRecord]:
        found = (self._commands[one] for one in self._of_session.get(session_id, ()) if one in self._commands)
        return [record for record in found if record.command.state not in TERMINAL]

    async def live_approvals(self, session_id: str, tenant_id: str) -> list[ApprovalRecord]:
        found = (self._approvals[one] for one in self._asked_of.get(session_id, ()) if one in self._approvals)
        return [record for record in found if record.approval.state in ("pending", "granted")]

    async def runner_by_token(self, token_sha256: str) -> RunnerRecord | None:
        return self._tables[RUNNERS.table].get((self._by_token.get(token_sha256, ""),))

    def plant(self, record: RunnerRecord) -> None:
        """Register a runner from the start, without a search for its token."""
        self._tables[RUNNERS.table][record.runner_id,] = record
        self._by_token[record.token_sha256] = record.runner_id

    # --- what a check reads ---
    def all_commands(self) -> list[CommandRecord]:
        """Every command there is."""
        return list(self._commands.values())

    def all_approvals(self) -> list[ApprovalRecord]:
        """Every approval there is."""
        return list(self._approvals.values())

    def all_sessions(self) -> list[SessionRecord]:
        """Every session there is."""
        return list(self._sessions.values())

    def transcript_waits(self) -> int:
        """Lines that no transcript is known to have."""
        return len(self._transcript)

    def streams(self) -> list[str]:
        """The names of all streams."""
        return self._streams.names()

    def all_events(self, stream: str) -> list[Event]:
        """A whole stream."""
        return self._streams.after(stream, 0, self._streams.kept(stream))

    def last(self, stream: str) -> int:
        """Number of its last event."""
        return self._streams.head(stream)

    def event(self, stream: str, n: int) -> Event | None:
        """One event of a stream."""
        return next(iter(self._streams.after(stream, n - 1, 1)), None)


class KeptTranscripts(MemoryTranscripts):
    """The transcripts of all, as a check reads them."""

    def lines(self, session_id: str, agent_id: str, tenant_id: str) -> list[bytes]:
        """A whole transcript."""
        return self._files.get((session_id, agent_id, tenant_id), [])

    def all_ids(self) -> Iterator[tuple[str, list[str]]]:
        """The ids of the entries of each session."""
        for session_id, agent_id, tenant_id in self._files:
            yield session_id, self._entry_ids(session_id, agent_id, tenant_id)


class Reached:
    """A store as one gateway reaches it: each call there takes a while, in order, and fails while the store refuses.
    Over `connections` it takes as long as its round trips do."""

    def __init__(self, inner: Any, draw: random.Random, error: type[Exception] = LedgerError,
                 connections: Connections | None = None) -> None:
        self._inner = inner
        self._connections = connections
        self._error = error
        self._draw = draw
        self._last_s = 0.0
        self.refuses = False
        self.gone = False
        """Its gateway is dead: nothing of it arrives."""
        self.late_s = 0.0
        """How much later than usual a call arrives there, as with a server that stalls."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def reached(*given: Any, **named: Any) -> Any:
            answered_s = self._answered_s(name, given if not named else ([],))
            await self._travel()
            if self.refuses or self.gone:
                raise self._error("The store refuses.")
            answer = await found(*given, **named)
            await self._travel(answered_s)
            return answer

        self.__dict__[name] = reached
        return reached

    def _answered_s(self, operation: str, given: tuple[Any, ...]) -> float | None:
        if self._connections is None:
            return None
        alike: Hashable = (operation, given)
        try:
            hash(alike)
        except TypeError:  # Like the real one: a request with a list is shared with no other.
            alike = None
        return self._connections.answered_s(operation, asyncio.get_running_loop().time(), alike)

    async def _travel(self, answered_s: float | None = None) -> None:
        loop = asyncio.get_running_loop()
        if answered_s is not None:
            await _until(loop, answered_s)
            return
        # First in, first out: a ledger runs the calls of one gateway in order.
        self._last_s = max(self._last_s + 1e-7, loop.time() + self.late_s + self._draw.uniform(*STORE_S) / 2)
        await _until(loop, self._last_s)


async def _until(loop: asyncio.AbstractEventLoop, at_s: float) -> None:
    arrived = loop.create_future()
    loop.call_at(at_s, _arrive, arrived)
    await arrived


def _arrive(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


class Cut(NamedTuple):
    """What befalls the next request of a client that is forwarded to a gateway: its answer never comes."""

    after: bool
    """Once it is answered there, rather than before it is begun."""
    happens: Callable[[], None]


class LossyBus(LocalBus):
    """The bus with latency, and losses while `loses` is set; a lost note is lost for one reader only."""

    def __init__(self, hub: Hub, draw: random.Random) -> None:
        super().__init__(hub)
        self._draw = draw
        self.loses = 0.0
        self.lost = 0
        self.cut: Cut | None = None

    async def subscribe(self, subject: str, receive: Callable[[bytes], None]) -> Subscription:
        place = PLACE.get()
        last_s = 0.0

        def late(body: bytes) -> None:
            nonlocal last_s
            if self.loses and self._draw.random() < self.loses:
                self.lost += 1
                return
            loop = asyncio.get_running_loop()
            last_s = max(last_s + 1e-7, loop.time() + self._draw.uniform(*BUS_S))
            context = place.context.copy() if place is not None else None
            loop.call_at(last_s, arrive, body, context=context)

        def arrive(body: bytes) -> None:
            if not self.away:
                receive(body)

        return await super().subscribe(subject, late)

    async def request(self, subject: str, body: bytes, timeout_ms: int) -> bytes:
        await asyncio.sleep(self._draw.uniform(*BUS_S))
        if self.loses and self._draw.random() < self.loses:
            raise BusTimeout(f"{subject} was not reached.")
        if self.away:
            raise CutOff(self.where)
        answer = await super().request(subject, body, timeout_ms)
        await asyncio.sleep(self._draw.uniform(*BUS_S))
        if self.away:
            raise LostOver(self.where)
        return answer

    async def serve(self, subject: str, answer: Callable[[bytes], Awaitable[bytes]]) -> Subscription:
        place = PLACE.get()

        async def there(body: bytes) -> bytes:
            # The requested gateway answers on its own host, which may be paused.
            return await place.start(answered(body)) if place is not None else await answer(body)

        async def answered(body: bytes) -> bytes:
            return await answer(body)

        async def forwarded(body: bytes) -> bytes:
            cut, self.cut = self.cut, None
            if cut is None:
                return await there(body)
            if cut.after:
                await there(body)
            cut.happens()
            return await asyncio.get_running_loop().create_future()

        return await super().serve(subject, forwarded if subject.endswith(FORWARDED) else there)
