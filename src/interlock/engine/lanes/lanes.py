"""All lanes of a gateway: read from the ledger on demand, woken when one of their clocks is due."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from weakref import WeakValueDictionary

import structlog

from interlock.command.policy.budget import DAY_MS, Spending
from interlock.engine.bridge import seals
from interlock.engine.bridge.conditions import Conditions
from interlock.engine.bridge.context.transcriber import Transcriber
from interlock.engine.bridge.inputs import LaneInput
from interlock.engine.bridge.inputs.gateway import BudgetsChanged, ClockTicked, RowsDiffered, SealsBroken, StartLooked
from interlock.engine.bridge.inputs.runner import RunnerAttached, RunnerDetached
from interlock.engine.bridge.kernel import Decide, decide
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.lane_state import LaneHome, LaneState, Limits
from interlock.engine.bridge.link.mismatch import RowMismatch, examine, subjects
from interlock.engine.bridge.tenant_lane import is_tenant_lane, tenant_lane_id, tenant_lane_state
from interlock.engine.lanes.due_sessions import DueSessions
from interlock.engine.lanes.inbox import Job, LaneRunnerLink
from interlock.engine.lanes.lane_reader import LaneReader, ReadLane, decode_state
from interlock.engine.lanes.lane_shell import BROKEN_WAIT_S, LaneShell
from interlock.engine.lanes.rows import RowAudit
from interlock.engine.lanes.spend import settle
from interlock.engine.lanes.tenant_place import TenantPlaces
from interlock.engine.membership import Alone, Elsewhere, Hold, Room
from interlock.engine.viewers.viewers import Viewers
from interlock.ports.clock import Clock, Entropy
from interlock.ports.ledger import LaneName, Ledger, LedgerError, LedgerWrite
from interlock.ports.objects import Objects
from interlock.ports.signals import Signal
from interlock.ports.stored_lanes import SessionClock
from interlock.ports.transcripts import TranscriptStore
from interlock.ports.trips import Trips
from interlock.protocol.problems import Problem
from interlock.protocol.records import ApprovalRecord, TenantRecord
from interlock.session.transcript.transcript import TranscriptFold
from interlock.session.turn_output import TurnFold

AT_WORK = ("running", "paused", "waiting_approval")
"""States of sessions in which something runs."""
log = structlog.get_logger()


POISON_FRAMES = 256
"""Number of remembered frames at which a lane failed; they are refused when they are resent."""


class Lanes:
    """All lanes of this gateway, read from the ledger on demand."""

    def __init__(
        self,
        ledger: Ledger,
        viewers: Viewers,
        clock: Clock,
        entropy: Entropy,
        limits: Limits,
        transcripts: TranscriptStore | None = None,
        objects: Objects | None = None,
        decide: Decide = decide,
        *,
        wall: Clock | None = None,
        rows: RowAudit | None = None,
        link_of: Callable[[str], LaneRunnerLink | None] = lambda _runner_id: None,
        room: Room | None = None,
        gateway_id: str = "",
        conditions: Callable[[LaneState, Sequence[LaneInput]], Conditions] | None = None,
    ) -> None:
        """Create the lanes. `decide` is the kernel's, or a wrapper that records it. `wall` is the machine's clock,
        `rows` compares stored rows with the audit log, `link_of` returns the link of an attached runner, and
        `conditions` are the conditions of a decision besides its lane and inputs. `room` are the gateways that also
        work on the ledger, if any, and `gateway_id` is this gateway's own, as sent to runners."""
        self.decide = decide
        self.limits = limits
        self.spending = Spending()
        """The durable usage that budgets count (P-7)."""
        self.room: Room = room or Alone(ledger)
        """The other gateways that work on the ledger."""
        self.objects = objects
        self.transcripts = transcripts
        self.ledger = ledger
        self.viewers = viewers
        self.clock = clock
        self.wall = wall or clock
        self.entropy = entropy
        self._link_of = link_of
        self.conditions = conditions or self._by_clock
        self.poisoned: deque[tuple[str, int]] = deque(maxlen=POISON_FRAMES)
        """Session and seq of frames at which a lane failed; nearly always empty."""
        self.on_transcript = Signal[[]]()
        """Sent after a commit that holds transcript lines."""
        self.gateway_id = gateway_id
        self.on_delivery = Signal[[]]()
        """Sent after a commit that holds notices to approvers."""
        self._in_doubt = False
        self.tenants = TenantPlaces(ledger)
        self.on_read = Signal[[LaneShell]]()
        """Sent with a lane that was read while its runner is attached, before it decides."""
        self.on_trips = Signal[[str, Trips]]()
        """Sent with the round trips to the ledger of a batch of frames, or of an attach."""
        self.rows = rows or RowAudit(ledger, clock)
        self.watchers: list[Callable[[Lane], None]] = []
        """Called with each lane after a durable decision (`lane.out`), for metrics and traces."""
        self.on_context = Signal[[Lane]]()
        """Sent with a lane whose context has to be read or compacted."""
        self.on_leaving = Signal[[Lane]]()
        """Sent with a lane that follows another session of its key whose work has not ended."""
        self.changed: set[tuple[str, str]] = set()
        """Tenants and agents of changed sessions; see `take_changed`."""
        self.shells: dict[str, LaneShell] = {}
        """The lanes in memory, by session; only `Lanes` changes it."""
        self._of_runner: dict[str, dict[str, LaneShell]] = {}
        """The same by runner: frames of a link must not need a scan of all other lanes."""
        self._loading: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.due = DueSessions(self._take_due)
        """Sessions that are read because of a clock."""
        self._reader = LaneReader(self)

    def _by_clock(self, _state: LaneState, _inputs: Sequence[LaneInput]) -> Conditions:
        return Conditions(self.clock.now_ms(), self.clock.now_ms())

    def configure(self, limits: Limits) -> None:
        """Apply new settings from here on, in all lanes."""
        self.limits = limits
        for shell in self.live():
            shell.lane.configure(limits)
            shell.send(BudgetsChanged())

    def home_of(self, tenant_id: str) -> LaneHome:
        """Return a lane's knowledge of this gateway, for a tenant."""
        return LaneHome(self.known_as(tenant_id), self.objects is not None, self.spending)

    def take_changed(self) -> set[tuple[str, str]]:
        """Return the tenants and agents of sessions that have changed since the last call."""
        changed, self.changed = self.changed, set()
        return changed

    def poison(self, lane: Lane) -> None:
        """Remember the frame at which a lane failed: its runner resends it, and it must not fail the lane forever."""
        frame = lane.applying
        if frame is not None and frame.seq is not None:
            structlog.contextvars.bind_contextvars(message_id=frame.message_id, seq=frame.seq,
                                                   command_id=lane.state.active)
            self.poisoned.append((lane.state.session_id, frame.seq))

    def peek(self, session_id: str) -> LaneShell | None:
        """Return the lane if it is in memory."""
        return self.shells.get(session_id)

    def settle(self, writes: Iterable[LedgerWrite], own: LaneShell) -> None:
        """Count committed usage; if a shared pot is now used up, or was raised, other lanes check their budgets again
        (P-7)."""
        concerned = settle(self.spending, self.limits.budgets, writes)
        if self.limits.budgets:
            self.room.hint("spending")
        for shell in self.live() if concerned else ():
            if shell is not own and shell.lane.state.tenant_id in concerned:
                shell.send(BudgetsChanged())

    def doubt(self) -> None:
        """Read today's pots again with the next lane: it is unknown whether a commit was counted in them."""
        self._in_doubt = True

    async def learn_spending(self) -> None:
        """Reload today's pots: another gateway also counts in them."""
        if self.limits.budgets:
            self.spending.replace(await self.ledger.spending(self.clock.now_ms() // DAY_MS))
            for shell in self.live():
                shell.send(BudgetsChanged())

    def live(self) -> list[LaneShell]:
        """Return every lane in memory."""
        return list(self.shells.values())

    def of_runners(self, *runner_ids: str) -> list[LaneShell]:
        """Return every lane in memory of these runners."""
        return [shell for runner_id in runner_ids for shell in self._of_runner.get(runner_id, {}).values()]

    def runner_ids(self) -> list[str]:
        """Return the runners of the lanes in memory."""
        return list(self._of_runner)

    async def meet(self, lane: LaneName, runner_id: str) -> None:
        """Ensure that this gateway owns a session's lane, before any work for it outside the lane. Raises Elsewhere."""
        if self.room.shared and lane.name not in self.shells:
            await self.room.take(lane, runner_id)

    async def lane(self, session_id: str, fresh: LaneState | None = None, hold: Hold | None = None
                   ) -> LaneShell | None:
        """Return the session's lane, read from the ledger, or created from `fresh`, under a hold on its key; None if
        there is no such session. Raises Elsewhere, LedgerError."""
        shell = self.shells.get(session_id)
        if shell is not None:
            return shell
        lock = self._loading.setdefault(session_id, asyncio.Lock())
        async with lock:
            shell = self.shells.get(session_id)
            if shell is None:
                shell = await self._read(session_id, fresh)
                if shell is not None:
                    shell.begin_under(hold if fresh is not None else None)
                    self._keep_shell(shell)
        return shell

    async def need(self, session_id: str, fresh: LaneState | None = None, hold: Hold | None = None) -> LaneShell:
        """Do what `lane` does, for a session that must exist. Raises Problem(NotFound)."""
        shell = await self.lane(session_id, fresh, hold)
        if shell is None:
            raise Problem("NotFound", f"There is no session {session_id}")
        return shell

    async def of_runner(self, session_id: str, runner_id: str, fresh: LaneState | None = None) -> LaneShell | None:
        """Return the lane of a session if it is this runner's, created from `fresh` if there is no such session;
        another's is not even taken. Raises Elsewhere, LedgerError."""
        shell = self.shells.get(session_id)
        if shell is None:
            record = await self.ledger.session(session_id)
            is_theirs = record.runner_id == runner_id if record is not None else fresh is not None
            shell = await self.lane(session_id, fresh) if is_theirs else None
        return shell if shell is not None and shell.lane.state.runner_id == runner_id else None

    async def _read(self, session_id: str, fresh: LaneState | None) -> LaneShell | None:
        if is_tenant_lane(session_id):
            return await self._read_tenant_lane(session_id)
        if fresh is not None and not fresh.controller:
            return await self._open(fresh)
        # An observed session was named elsewhere: its lane may have been here before.
        record = await self.ledger.session(session_id)
        if record is not None:
            return await self._take(LaneName(record.tenant_id, session_id), record.runner_id, fresh)
        return await self._take(LaneName(fresh.tenant_id, session_id), fresh.runner_id, fresh) if fresh else None

    async def _read_tenant_lane(self, session_id: str) -> LaneShell:
        """Rebuild a tenant's own lane from its approvals: it has no row."""
        fresh = tenant_lane_state(session_id, self.clock.now_ms())
        await self.tenants.check_open(fresh.tenant_id)
        epoch = await self.room.take(LaneName(fresh.tenant_id, session_id))
        kept = await self.ledger.live_approvals(session_id, fresh.tenant_id)
        await self._settle_doubt()
        return await self._begun(fresh, kept, epoch)

    async def _open(self, fresh: LaneState) -> LaneShell | None:
        """Create the lane of a session that was named here, unless there is one already."""
        lane = LaneName(fresh.tenant_id, fresh.session_id)
        epoch: int | None = None
        if self.room.begins:  # In parallel: one round trip opens a session.
            record, epoch = await asyncio.gather(self.ledger.session(lane.name),
                                                 self.room.begin_new(lane, fresh.runner_id))
        else:
            record = await self.ledger.session(lane.name)
        if record is not None:
            return await self._take(LaneName(record.tenant_id, lane.name), record.runner_id, fresh)
        await self.tenants.check_open(lane.tenant_id)
        if epoch is not None:  # This lane never had an owner, so the session was never written.
            await self._settle_doubt()
            return await self._begun(fresh, [], epoch)
        epoch = await self.room.begin(lane, fresh.runner_id)
        found = await self._reader.read(lane) if self.room.shared else None
        await self._settle_doubt()
        return self._shell(found, epoch) if found is not None else await self._begun(fresh, [], epoch)

    async def _take(self, lane: LaneName, runner_id: str, fresh: LaneState | None) -> LaneShell | None:
        """Take the lane of a session and read it; it is created from `fresh` if it does not exist."""
        await self.tenants.check_open(lane.tenant_id)
        epoch = await self.room.take(lane, runner_id or None)
        # Read only now that no other gateway can write under this epoch: another may have written before, or this one
        # with a commit that was in doubt until the lane was taken (OutcomeUnknown).
        found = await self._reader.read(lane)
        await self._settle_doubt()
        if found is not None:
            return self._shell(found, epoch)
        if fresh is not None:
            return await self._begun(fresh, [], epoch)
        self.room.give_back(lane, epoch)  # It was deleted meanwhile.
        return None

    async def _settle_doubt(self) -> None:
        if not self._in_doubt:
            return
        self._in_doubt = False  # A commit may become in doubt during this read.
        try:
            await self.learn_spending()
        except BaseException:
            self._in_doubt = True
            raise

    async def _begun(self, fresh: LaneState, kept: list[ApprovalRecord], epoch: int | None) -> LaneShell:
        """Create a lane that the ledger does not have. Only a tenant's own stores approvals."""
        transcriber = None
        if self.transcripts is not None:
            transcriber = Transcriber(fresh.tenant_id, fresh.session_id, TranscriptFold(fresh.agent_id), None, set())
        lane = Lane(fresh, [], kept, TurnFold(), self.entropy, self.limits, self.home_of(fresh.tenant_id), transcriber)
        findings = await self._examined(lane) if kept else []
        link = self._link_of(fresh.runner_id)
        shell = LaneShell(lane, epoch, self, link)
        if findings:
            shell.send(RowsDiffered(findings))
        fresh.note_link(attached=link is not None)
        return shell

    def _shell(self, read: ReadLane, epoch: int | None) -> LaneShell:
        """Create the shell of a lane that was read. Nothing is awaited here: a runner that attaches meanwhile finds
        this lane, or is found by it."""
        state = read.lane.state
        link = self._link_of(state.runner_id)
        # Another gateway may have decided for the runner that is attached here: nothing of that was sent on this link.
        is_late = link is not None and (not state.attached or (self.room.shared and bool(read.lane.unconfirmed)))
        shell = LaneShell(read.lane, epoch, self, link)
        if link is not None:
            self.on_read(shell)
        if any(read.broken):
            shell.send(SealsBroken(read.broken))
        if read.findings:
            shell.send(RowsDiffered(read.findings))
        if is_late:
            shell.push(Job(RunnerAttached(state.control_acked, None, late=True), link=link))
        if state.attached and link is None:
            # The link belonged to an earlier gateway, or to this lane before its eviction: its absence has a clock
            # (C-7).
            shell.send(RunnerDetached())
        return shell

    def _keep_shell(self, shell: LaneShell) -> None:
        state = shell.lane.state
        self.shells[state.session_id] = shell
        self._of_runner.setdefault(state.runner_id, {})[state.session_id] = shell

    async def _examined(self, lane: Lane) -> list[RowMismatch]:
        """Compare the approvals of a tenant's lane with their audit records (H-5). Only here: a lane in memory wrote
        them itself."""
        about = subjects(lane)
        found = await asyncio.gather(*(self.ledger.audit_about(lane.state.tenant_id, one) for one in about))
        return examine(lane, dict(zip(about, found, strict=True)))

    async def sealable(self) -> dict[str, str]:
        """Return names and digests of the rows of every session that is not closed."""
        found: dict[str, str] = {}
        for tenant in await self.ledger.tenants():
            for runner in await self.ledger.runners(tenant.tenant_id):
                for record in await self.ledger.runner_sessions(runner.runner_id, tenant.tenant_id):
                    state = decode_state(record.machine)
                    found |= seals.adopted(state, await self.ledger.controls(
                        record.session_id, record.tenant_id, state.control_acked))
        return found

    async def keep_objects(self, pieces: Iterable[bytes]) -> None:
        """Store objects durably before the commit that names them. Raises ObjectsError."""
        assert self.objects is not None, "a lane without a store keeps nothing apart"
        for piece in pieces:
            await self.objects.put([piece])

    def forget(self, shell: LaneShell) -> None:
        """Drop a lane from memory."""
        session_id = shell.lane.state.session_id
        if self.shells.get(session_id) is shell:
            del self.shells[session_id]
            of_runner = self._of_runner[shell.lane.state.runner_id]
            del of_runner[session_id]
            if not of_runner:
                del self._of_runner[shell.lane.state.runner_id]
            if shell.link is not None:
                shell.link.forget(session_id)
            if not shell.broken:
                self.room.give_back(shell.lane_name, shell.epoch)

    async def let_go(self, shells: Iterable[LaneShell] | None = None) -> None:
        """Drop lanes that another gateway owns now, or all of them."""
        gone = self.live() if shells is None else list(shells)
        for shell in gone:
            shell.let_go()
        await asyncio.gather(*(shell.leave() for shell in gone))

    def look_again(self) -> None:
        """Make every lane check whether its waiting work may start now."""
        for shell in self.live():
            shell.send(StartLooked())

    async def wake_due(self) -> None:
        """Read every lane with a running clock at the start, so that timers continue (C-4).

        Sessions with running work are read at once, since their runner may be gone; the nearest deadline first, and few
        at a time: in parallel, the most urgent would wait for the last.
        """
        for tenant in await self.learn_tenants():
            self.wake(LaneName(tenant.tenant_id, tenant_lane_id(tenant.tenant_id)), 0.0)
        due = await self.ledger.due_sessions()
        self.due.read_soon(one.lane for one in due if one.state in AT_WORK)
        for one in due:
            if one.state not in AT_WORK:
                self.wake(one.lane, self.delay_s(one.state, one.deadline_ms, self.clock.now_ms()))

    async def learn_tenants(self) -> list[TenantRecord]:
        """Drop the lanes of tenants that are no longer here, or not yet; returns all tenants. Raises LedgerError."""
        tenants = await self.tenants.load()
        if gone := [shell for shell in self.live() if self.tenants.is_closed(shell.lane.state.tenant_id)]:
            await self.let_go(gone)
        return tenants

    def known_as(self, tenant_id: str) -> str:
        """Return the id by which a tenant's runners know this gateway."""
        return self.tenants.gateway_id(tenant_id) or self.gateway_id

    def delay_s(self, state: str, deadline_ms: int, now_ms: int) -> float:
        """Return in how many seconds to read a session whose gateway has ended: at once if work runs, since its runner
        may be gone; otherwise when its clock is due."""
        return 0.0 if state in AT_WORK else max(0.0, (deadline_ms - now_ms) / 1000)

    async def read_together(self, lanes: Iterable[LaneName]) -> list[LaneName]:
        """Read lanes that are not in memory with the round trips of one; returns those that have to be read one by one,
        since that has already begun or their tenants are closed. Raises LedgerError."""
        sessions = list(lanes)
        known = self.due.take_clocks(sessions)
        wanted = [one for one in sessions if one.name not in self.shells]
        locks = {one: self._loading.setdefault(one.name, asyncio.Lock())
                 for one in wanted if not is_tenant_lane(one.name)}
        locks = {one: lock for one, lock in locks.items() if not lock.locked()}
        async with AsyncExitStack() as held:
            # A free lock may have been passed to a waiting task. All use one order, so that no two calls wait for each
            # other.
            for one in sorted(locks):
                await held.enter_async_context(locks[one])
            clocks = {one: known[one] for one in locks if one in known}
            if unknown := [one for one in locks if one not in known]:
                clocks |= {one.lane: one for one in await self.ledger.session_clocks(unknown)}
            closed = {one for one in clocks if self.tenants.is_closed(one.tenant_id)}
            open_ = [clocks[one] for one in locks if one in clocks and one not in closed]
            await self._read_taken(await self._taken(open_))
        return [one for one in wanted if one not in locks or one in closed]

    async def _take_due(self, lanes: Sequence[LaneName]) -> None:
        """Read sessions that are due, and run their clocks."""
        try:
            alone = await self.read_together(lanes)
        except LedgerError as error:
            for one in lanes:
                self._try_later(one, error)
            return
        for one in lanes:
            if one in alone:
                await self.tick(one)
            elif (shell := self.shells.get(one.name)) is not None:
                shell.send(ClockTicked())

    async def _taken(self, clocks: Sequence[SessionClock]) -> dict[LaneName, int]:
        """Take lanes in parallel; returns the epochs of those that could be taken."""
        answers = await asyncio.gather(*(self.room.take(one.lane, one.runner_id) for one in clocks),
                                       return_exceptions=True)
        epochs: dict[LaneName, int] = {}
        for clock, answer in zip(clocks, answers, strict=True):
            if isinstance(answer, int):
                epochs[clock.lane] = answer
            elif not isinstance(answer, Elsewhere):  # Its clocks run at its owner.
                self._try_later(clock.lane, answer)
        return epochs

    async def _read_taken(self, epochs: Mapping[LaneName, int]) -> None:
        await self._settle_doubt()
        found = await self._reader.read_many(list(epochs))
        for lane, epoch in epochs.items():
            read = found.get(lane.name)
            if isinstance(read, ReadLane):
                self._keep_shell(self._shell(read, epoch))
            elif read is not None:
                self._try_later(lane, read)
            else:  # It was deleted meanwhile.
                self.room.give_back(lane, epoch)

    def _try_later(self, lane: LaneName, error: BaseException) -> None:
        log.error("a lane cannot be read", session_id=lane.name, error=str(error))
        self.wake(lane, BROKEN_WAIT_S)

    def wake(self, lane: LaneName, delay_s: float) -> None:
        """Read the session's lane after a delay and run its clocks."""
        self.due.wake(lane, delay_s)

    async def tick(self, lane: LaneName) -> None:
        """Read the session's lane, if it can be taken, and run its clocks."""
        try:
            shell = await self.lane(lane.name)
        except (Elsewhere, Problem):
            return  # Its clocks run at its owner, or where its tenant was moved.
        except LedgerError as error:
            self._try_later(lane, error)
            return
        if shell is not None:
            shell.send(ClockTicked())

    async def stop(self) -> None:
        """End all shells."""
        await self.due.stop()
        await asyncio.gather(*(shell.stop() for shell in self.live()))
