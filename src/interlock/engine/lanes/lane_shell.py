"""The shell of one lane: it feeds the lane, commits its decisions, then publishes (decide, commit, publish)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import structlog

from interlock.engine.bridge.conditions import Conditions
from interlock.engine.bridge.effects import LaneEvent
from interlock.engine.bridge.inputs import LaneInput
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.engine.bridge.kernel import Decide
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.lanes.inbox import Inbox, Job, Keep, LaneRunnerLink, Run
from interlock.engine.membership import Hold, LaneMoved, Room
from interlock.engine.viewers.stream_items import Durable, durable
from interlock.engine.viewers.viewers import Viewers
from interlock.ports import trips
from interlock.ports.clock import Clock
from interlock.ports.ledger import (
    FIRST_EPOCH,
    Add,
    BeginLane,
    Fenced,
    LaneName,
    Ledger,
    LedgerError,
    LedgerWrite,
    OutcomeUnknown,
    Put,
    PutIdempotency,
    PutTranscript,
    WriteBatch,
)
from interlock.ports.objects import ObjectsError
from interlock.ports.signals import Signal
from interlock.ports.trips import Trips
from interlock.protocol.problems import Problem
from interlock.protocol.records import DeliveryRecord, IdempotencyRecord, SpendingRecord

BROKEN_WAIT_S = 5.0
"""Delay before a lane with clocks whose ledger failed is read again."""
log = structlog.get_logger()


class LaneOwner(Protocol):
    """The owner of all shells, as a shell uses it."""

    room: Room
    ledger: Ledger
    viewers: Viewers
    clock: Clock
    wall: Clock
    conditions: Callable[[LaneState, Sequence[LaneInput]], Conditions]
    decide: Decide
    on_transcript: Signal[[]]
    on_delivery: Signal[[]]
    on_trips: Signal[[str, Trips]]
    on_context: Signal[[Lane]]
    on_leaving: Signal[[Lane]]
    watchers: list[Callable[[Lane], None]]
    changed: set[tuple[str, str]]

    def settle(self, writes: Iterable[LedgerWrite], own: LaneShell) -> None: ...

    def doubt(self) -> None: ...

    async def lane(self, session_id: str) -> LaneShell | None: ...

    def forget(self, shell: LaneShell) -> None: ...

    def wake(self, lane: LaneName, delay_s: float) -> None: ...

    def poison(self, lane: Lane) -> None: ...

    async def keep_objects(self, pieces: Iterable[bytes]) -> None: ...


class LaneShell:
    """A lane's runner: it takes all waiting jobs, decides them together, commits once, publishes in order."""

    def __init__(self, lane: Lane, epoch: int | None, lanes: LaneOwner, link: LaneRunnerLink | None = None) -> None:
        """Create a shell. `epoch` is None if the lane never had an owner, and no other gateway can take it: its first
        commit begins it. `link` is that of the lane's runner, if it is attached."""
        self.lane = lane
        self.link = link
        self._acked = 0
        """The last number that was acknowledged to the runner, on the current link."""
        self.broken = False
        self._begun = epoch is not None
        self.epoch = epoch or FIRST_EPOCH
        self._hold: Hold | None = None
        self.delivered = lane.state.n
        """Number of the last event of the session's stream that was published, or was stored when the lane was read."""
        self.over = False
        """Whether the shell decides nothing any more: it was dropped, and another takes its place."""
        self._lanes = self.lanes = lanes
        self.inbox = Inbox()
        self.push = self.inbox.push
        self._timer: asyncio.TimerHandle | None = None
        self._due_ms: int | None = None
        """The instant that the timer is set to."""
        self._task = asyncio.create_task(self._run(), name=f"lane {lane.state.session_id}")

    def begin_under(self, hold: Hold | None) -> None:
        """Set the hold of a session's key: the first commit is refused once another gateway opens that key."""
        self._hold = hold

    def drop_link(self) -> None:
        """Stop sending to the runner: its link has closed."""
        self.link = None

    async def call(self, input_: LaneInput, remember: Callable[[Any], IdempotencyRecord] | None = None,
                   keep: Keep | None = None) -> Any:
        """Decide an input and wait until it is durable; returns the answer. `remember` makes the row that answers a
        repeated request, `keep` any further rows to store with the answer. Raises Problem, including Unavailable."""
        if self.over:
            return await (await self._successor()).call(input_, remember, keep)
        if remember is not None:
            keep = partial(_remembered, remember)
        return await self._decided(input_, keep)

    async def attach(self, link: LaneRunnerLink, input_: LaneInput) -> None:
        """Decide that the runner is attached, then send it the unconfirmed control frames, in order."""
        if self.over:
            await (await self._successor()).attach(link, input_)
            return
        await self._decided(input_, link=link)

    def send(self, input_: LaneInput, then: Callable[[Any], None] | None = None) -> None:
        """Queue an input, to be decided after the waiting ones. `then` is called with the durable answer; not at all if
        it is a Problem, or never becomes durable."""
        reply: asyncio.Future[Any] | None = None
        if then is not None:
            reply = asyncio.get_running_loop().create_future()
            reply.add_done_callback(partial(_when_durable, then))
        self.push(Job(input_, reply))

    async def _decided(self, input_: LaneInput, keep: Keep | None = None, link: LaneRunnerLink | None = None) -> Any:
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        waits = trips.CURRENT.get()
        if waits is None:
            self.push(Job(input_, reply, keep, link))
            return await reply
        begun_at, spent = waits.in_a_row, Trips()
        self.push(Job(input_, reply, keep, link, spent))
        try:
            return await reply
        finally:
            if spent.statements:
                waits.ended(begun_at, spent)

    async def _successor(self) -> LaneShell:
        """Return the session's current shell: this one was dropped while its holder waited."""
        shell = await self._lanes.lane(self.lane.state.session_id)
        if shell is None or shell is self:
            raise Problem("Unavailable", "The session's lane has ended", headers={"Retry-After": "1"})
        return shell

    @property
    def lane_name(self) -> LaneName:
        """Return the lane's name in the ledger."""
        return LaneName(self.lane.state.tenant_id, self.lane.state.session_id)

    @property
    def idle(self) -> bool:
        """Return whether the lane has no pending work and no open session, so that it can be evicted and reloaded on
        demand."""
        lane = self.lane
        return not self.inbox and not lane.commands and not lane.approvals and lane.state.opening == "closed"

    async def _run(self) -> None:
        state = self.lane.state  # Log lines during a decision carry the session.
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(tenant_id=state.tenant_id, session_id=state.session_id)
        trips.CURRENT.set(spent := Trips())
        while True:
            if not self.inbox:
                if self.idle:
                    self.over = True
                    self._lanes.forget(self)
                    return
                await self.inbox.wait()
            group = self.inbox.take()
            if spent.statements:  # Each decision has its own count; most ledgers add nothing to it.
                trips.CURRENT.set(spent := Trips())
            try:
                await self._decide_commit_publish(group, spent)
            except asyncio.CancelledError:
                if not self._task.cancelling():  # Not the lane: what it waited for was cancelled.
                    self._lanes.doubt()
                    self._break(group, "A write was cancelled, so whether it was done is not known")
                    return
                if self.broken:
                    self._answer(group, LaneMoved)
                else:
                    self._refuse(group, "The gateway is stopping")
                raise
            except Fenced as fenced:
                self._lose(group, fenced)
                return
            except (LedgerError, ObjectsError) as error:
                if isinstance(error, OutcomeUnknown):
                    self._lanes.doubt()
                self._break(group, str(error) if isinstance(error, OutcomeUnknown)
                            else f"The write was rejected: {error}")
                return
            except Exception as error:
                log.exception("lane failed", session_id=self.lane.state.session_id)
                self._break(group, f"The lane failed: {error}")
                return

    async def _decide_commit_publish(self, group: Sequence[Job | Run], spent: Trips) -> None:
        lane = self.lane

        def kept(at: int, answer: Any) -> Sequence[LedgerWrite]:
            keep = group[at].keep
            return tuple(keep(answer)) if keep is not None else ()

        try:
            inputs = [job.input for job in group]
            answers = self._lanes.decide(lane, inputs, self._lanes.conditions(lane.state, inputs), kept)
        except Exception:
            self._lanes.poison(lane)
            raise
        replies = [(job.reply, answer) for job, answer in zip(group, answers, strict=True) if job.reply is not None]
        if lane.out.faults and self.link is not None:
            self.link.fail(lane.out.faults[0])
        numbers: list[int] = []
        if lane.out.objects:
            await self._lanes.keep_objects(lane.out.objects)
        if lane.out.writes:
            epochs: list[Hold] = [self._hold] if self._hold is not None else []
            if self._begun:
                epochs.append((self.lane_name, self.epoch))
            else:
                lane.out.writes.append(BeginLane(self.lane_name))
            numbers = (await self._lanes.ledger.commit(WriteBatch(lane.out.writes, epochs))).numbers
            self._hold, self._begun = None, True
            if spent.statements:
                self._count(group, spent)
            self._lanes.changed.add((lane.state.tenant_id, lane.state.agent_id))
        written = set(map(type, lane.out.writes))
        if PutTranscript in written:
            self._lanes.on_transcript()
        if Put in written or Add in written:
            rows = {type(write.record) for write in lane.out.writes if isinstance(write, (Put, Add))}
            if DeliveryRecord in rows:
                self._lanes.on_delivery()
            if SpendingRecord in rows:
                self._lanes.settle(lane.out.writes, self)
        # The runner first: it may be waiting with a full window, and there are more viewers than acknowledgements.
        self._send(next((job.link for job in reversed(group) if job.link is not None), None))
        watchers, state = self._lanes.watchers, lane.state
        if state.context.due or lane.wants_context or state.leaves:
            watchers = [*watchers, *self._left_to(lane)]
        for watcher in watchers:
            try:  # A failure here affects nothing else: the decision is durable.
                watcher(lane)
            except Exception:
                log.exception("a watcher failed", session_id=state.session_id)
        self._publish(numbers)
        for reply, answer in replies:
            if reply.done():
                continue
            if isinstance(answer, Problem):
                reply.set_exception(answer)
            else:
                reply.set_result(answer)
        self._arm(lane.due_ms if lane.out.writes else lane.deadline_ms())
        lane.end()

    def _left_to(self, lane: Lane) -> Iterator[Callable[[Lane], None]]:
        """Yield the signals to send for a lane that leaves something to do."""
        if lane.state.context.due or lane.wants_context:
            yield self._lanes.on_context
        if lane.state.leaves:
            yield self._lanes.on_leaving

    def _count(self, group: Sequence[Job | Run], spent: Trips) -> None:
        if any(isinstance(job, Run) for job in group):
            self._lanes.on_trips("frames", spent)
        for job in group:
            if isinstance(job, Job) and job.spent is not None:
                job.spent.ended(0, spent)

    def _publish(self, numbers: list[int]) -> None:
        lane, viewers = self.lane, self._lanes.viewers
        next_number = iter(numbers)
        own = burst_of = lane.stream
        burst: list[Durable] = []
        for item in lane.out.published:
            if isinstance(item, LaneEvent):
                event, frame = item
                n = next(next_number)
                if event.stream == own:
                    self.delivered = n
                if not viewers.relayed and event.stream not in viewers.topics:
                    continue
                if burst and burst_of != event.stream:
                    viewers.publish_items(burst_of, burst)
                    burst = []
                burst_of = event.stream
                burst.append(durable(n, event.kind, event.body, event.at_ms, frame))
            else:
                if burst:
                    viewers.publish_items(burst_of, burst)
                    burst = []
                viewers.transient(own, item.raw, item.frame, self.delivered)
        if burst:
            viewers.publish_items(burst_of, burst)

    def _send(self, attached: LaneRunnerLink | None) -> None:
        lane = self.lane
        sends = lane.out.sends
        if attached is not None:
            self.link, self._acked = attached, 0
            sends = list(lane.unconfirmed.values())
        if self.link is None:
            return
        for raw in sends:
            self.link.send(raw)
        if lane.state.last_seq > self._acked:
            self._acked = lane.state.last_seq
            self.link.ack(lane.state.session_id, self._acked)

    def _arm(self, due_ms: int | None) -> None:
        if due_ms == self._due_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due_ms = due_ms
        if due_ms is not None:
            delay_s = max(0.0, (due_ms - self._lanes.clock.now_ms()) / 1000)
            self._timer = asyncio.get_running_loop().call_later(min(delay_s, 3_600.0), self._ring)

    def _ring(self) -> None:
        self._timer = self._due_ms = None
        self.push(Job(ClockTicked()))

    def _break(self, group: Sequence[Job | Run], sentence: str) -> None:
        """Drop the lane from memory after a decision that did not become durable, so that every caller retries."""
        self.broken = self.over = True
        self._lanes.forget(self)
        self._refuse([*group, *self.inbox.take_all()], sentence)
        if self._timer is not None:
            self._timer.cancel()
        if self.link is not None:
            self.link.fail(sentence)
        if self.lane.commands or self.lane.approvals:
            self._lanes.wake(self.lane_name, BROKEN_WAIT_S)  # Its clocks continue without further requests.

    def _lose(self, group: Sequence[Job | Run], fenced: Fenced) -> None:
        """Drop a lane that another gateway owns: it continues there, including its clocks, and waiting callers retry
        there."""
        if not self._lanes.room.shared:
            self._break(group, f"The write was rejected: {fenced}")
            return
        log.info("lane lost", session_id=self.lane.state.session_id)
        self.let_go()
        self._answer([*group, *self.inbox.take_all()], LaneMoved)

    def let_go(self) -> None:
        """Release the lane; only callers that wait in it are still answered."""
        self.broken = self.over = True
        self._lanes.forget(self)
        # If its runner is attached elsewhere, no request may reach it for long, and its clocks have to continue there.
        self._lanes.room.pass_on(self.lane_name, self.epoch)
        if self._timer is not None:
            self._timer.cancel()
        if self.link is not None:
            self.link.fail("another gateway has this session now")
        self._lanes.viewers.lost(self.lane.stream)

    def _refuse(self, jobs: Sequence[Job | Run], sentence: str) -> None:
        self._answer(jobs, lambda: Problem("Unavailable", sentence, headers={"Retry-After": "1"}))

    def _answer(self, jobs: Sequence[Job | Run], error: Callable[[], Exception]) -> None:
        for job in jobs:
            if job.reply is not None and not job.reply.done():
                job.reply.set_exception(error())

    async def leave(self) -> None:
        """End the shell of a released lane; waiting callers retry."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._answer(self.inbox.take_all(), LaneMoved)

    async def stop(self) -> None:
        """End the shell; decided inputs are committed, waiting ones are refused."""
        if self._timer is not None:
            self._timer.cancel()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.over = True
        self._refuse(self.inbox.take_all(), "The gateway is stopping")


def _remembered(remember: Callable[[Any], IdempotencyRecord], answer: Any) -> Iterable[LedgerWrite]:
    return (PutIdempotency(remember(answer)),)


def _when_durable(then: Callable[[Any], None], reply: asyncio.Future[Any]) -> None:
    if not reply.cancelled() and reply.exception() is None:
        then(reply.result())
