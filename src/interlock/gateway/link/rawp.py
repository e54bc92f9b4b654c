"""The RAWP endpoint: an ASGI callable that connects a runner's WebSocket to the lanes (L-2, L-4, E-3, D-1).

It decodes, routes and counts; the lane interprets the frames.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, MutableMapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import structlog

from interlock.engine.bridge.inputs.runner import ControlsRefused, RunnerAttached, RunnerDetached
from interlock.engine.cluster_sync import ClusterPeers
from interlock.engine.engine import Engine
from interlock.engine.lanes.lane_shell import LaneShell
from interlock.engine.lanes.tenant_place import refusal
from interlock.engine.membership import Elsewhere, LaneMoved
from interlock.engine.presence import Present
from interlock.gateway.audit.ledger_restore import RestoredSessions, forgotten
from interlock.gateway.link.intake import Closing, Inflow, Intake, next_message, refused
from interlock.gateway.link.observed_sessions import Observed
from interlock.gateway.link.outflow import LinkClosed, RunnerOutflow
from interlock.gateway.link.upgrade import not_a_websocket, refuse_tenant, refuse_upgrade
from interlock.ports import trips
from interlock.ports.leases import Overtaken
from interlock.ports.ledger import LaneName, LedgerError
from interlock.protocol import payloads as p
from interlock.protocol.clock import iso
from interlock.protocol.codes import CloseCode, Code
from interlock.protocol.envelope import DPS_VERSION, Frame
from interlock.protocol.frames import BATCH, Direction, InvalidFrame, decode_wire, encode, understand
from interlock.protocol.identifiers import uuid4
from interlock.protocol.limits import (
    ACK_DELAY_MS,
    ACK_FRAMES,
    HEARTBEAT_INTERVAL_MS,
    LARGEST_SEQ,
    MAX_FRAME_BYTES,
    MAX_MESSAGE_BYTES,
    OPENING_TIMEOUT_MS,
)
from interlock.protocol.problems import Problem
from interlock.protocol.records import RunnerRecord
from interlock.protocol.refusals import LinkRefusal, outdated, reason

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

log = structlog.get_logger()

T = TypeVar("T")
TOKENS_AT_ONCE = 500
"""Runners whose tokens are read again in one read of the ledger."""
ATTACHED_TOGETHER = 32
"""Sessions of a runner that are read, compared and attached with the round trips of one."""
PORTIONS_AT_ONCE = 3
"""Number of such portions in parallel: each waits for several round trips in a row. Reads of many lanes have as many
connections."""
LIMITS_SENT = {
    "max_frame_bytes": MAX_FRAME_BYTES, "max_message_bytes": MAX_MESSAGE_BYTES, "ack_frames": ACK_FRAMES,
    "ack_delay_ms": ACK_DELAY_MS, "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
}

class RawpEndpoint:
    """`GET /rawp`, upgraded."""

    def __init__(self, engine: Engine, entropy: Callable[[int], bytes],
                 on_acks: Callable[[int], None] = lambda _count: None) -> None:
        self._on_acks = on_acks
        self._engine = engine
        self._observed = Observed(engine)
        self._restored = RestoredSessions(engine.setbacks, engine.lanes.known_as)
        engine.lanes.on_read.connect(self._was_read)
        self._entropy = entropy
        self._open: dict[RunnerOutflow, str] = {}
        """The open links, each with its runner's tenant."""
        self._links: dict[str, RunnerOutflow] = {}
        """The newest link of each runner."""
        self._tokens: dict[str, str] = {}
        """The hash of the token that each was accepted with."""
        self._gaps: set[tuple[str, int]] = set()
        self._peers: ClusterPeers | None = None

    def join(self, peers: ClusterPeers) -> None:
        """Compare each link with those of the runners to the other gateways of the cluster."""
        self._peers = peers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one runner until its link ends."""
        if scope["type"] != "websocket":
            await not_a_websocket(send)
            return
        runner = await self._authenticate(scope)
        await receive()
        if runner is None:
            await refuse_upgrade(send, LinkRefusal(Code.UNAUTHORIZED, "the token is missing or not known here"))
            return
        tenant = await self._engine.ledger.tenant(runner.tenant_id)
        if tenant is not None and (closed := refusal(tenant)) is not None:
            await refuse_tenant(send, tenant, closed)
            return
        if DPS_VERSION not in scope.get("subprotocols", ()):
            await refuse_upgrade(send, LinkRefusal(Code.VERSION_UNSUPPORTED, f"this gateway supports {DPS_VERSION}"))
            return
        structlog.contextvars.bind_contextvars(tenant_id=runner.tenant_id, runner_id=runner.runner_id)
        await send({"type": "websocket.accept", "subprotocol": DPS_VERSION})
        outflow = RunnerOutflow(send, self._on_acks)
        self._open[outflow] = runner.tenant_id
        try:
            await self._serve(runner, receive, outflow)
        except Closing as closing:
            log.info("link closed", runner_id=runner.runner_id, code=closing.code, reason=closing.sentence)
            await outflow.close(closing.code, closing.sentence)
        except (Elsewhere, LaneMoved, LedgerError, Problem) as error:
            log.info("link closed", runner_id=runner.runner_id, reason=str(error))
            await outflow.close(CloseCode.LEDGER, "a session could not be had here")
        except LinkClosed:
            pass
        finally:
            del self._open[outflow]
            await outflow.stop()

    def end(self) -> None:
        """Close every link, so that runners reconnect as soon as a gateway listens again."""
        for outflow in list(self._open):
            outflow.fail("the gateway is stopping")

    def let_go(self) -> None:
        """Close every runner link: the other gateways considered this one dead and own its sessions now."""
        for outflow in list(self._open):
            outflow.fail("this gateway was away for too long")

    def close_tenants(self, tenants: Collection[str]) -> None:
        """Close the links of runners whose tenant is moved, or being moved: the next one is answered with the new
        address."""
        for outflow, tenant_id in list(self._open.items()):
            if tenant_id in tenants:
                outflow.fail(f"the tenant {tenant_id} is being moved")

    def replaced(self, runner_id: str) -> None:
        """Close the link of a runner that has attached to another gateway."""
        outflow = self._links.get(runner_id)
        if outflow is not None:
            outflow.shut_out("the same runner opened a newer link", CloseCode.REPLACED)

    def shut_out(self, runner_id: str, sentence: str) -> None:
        """Close the live link of a runner whose token was revoked or changed: its further frames are ignored (L-3)."""
        outflow = self._links.get(runner_id)
        if outflow is not None:
            outflow.shut_out(reason(LinkRefusal(Code.UNAUTHORIZED, sentence)))

    async def check_tokens(self) -> None:
        """Close the links of runners whose token another gateway has changed or revoked, or whose row was edited.
        Raises LedgerError."""
        tokens = list(self._tokens.items())
        for start in range(0, len(tokens), TOKENS_AT_ONCE):
            let_in = tokens[start:start + TOKENS_AT_ONCE]
            links = [link for runner_id, _ in let_in if (link := self._links.get(runner_id)) is not None]
            tenants = sorted({self._open[link] for link in links if link in self._open})
            found = await self._engine.ledger.runners_named([runner_id for runner_id, _ in let_in], tenants)
            await asyncio.gather(*(self._engine.rows.look(tenant_id) for tenant_id in {one.tenant_id for one in found}))
            good = {record.runner_id: record.token_sha256 for record in found
                    if not record.revoked and await self._is_genuine(record)}
            for runner_id, token_sha256 in let_in:
                # One that has reattached meanwhile was checked then.
                if good.get(runner_id) != token_sha256 and self._tokens.get(runner_id) == token_sha256:
                    self.shut_out(runner_id, "the runner's token is no longer accepted")

    async def _is_genuine(self, record: RunnerRecord) -> bool:
        """Return whether a runner's row matches its record, by the recent result of `look`."""
        again = partial(self._engine.ledger.runner, record.runner_id, record.tenant_id)
        return await self._engine.rows.genuine(record.tenant_id, record, again, looked=True) is not None

    async def _authenticate(self, scope: Scope) -> RunnerRecord | None:
        headers = {bytes(name).lower(): bytes(value) for name, value in scope["headers"]}
        scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return None
        return await self._accepted(hashlib.sha256(token.strip().encode()).hexdigest())

    async def _accepted(self, token_sha256: str) -> RunnerRecord | None:
        """Return the runner whose token has this hash. None if there is none, if it was revoked, or if its row is not
        the one in the audit record of its last change (H-5)."""
        ledger = self._engine.ledger
        record = await ledger.runner_by_token(token_sha256)
        if record is not None:
            record = await self._engine.rows.genuine(record.tenant_id, record,
                                                     lambda: ledger.runner_by_token(token_sha256))
        return record if record is not None and record.token_sha256 == token_sha256 and not record.revoked else None

    async def _serve(self, runner: RunnerRecord, receive: Receive, outflow: RunnerOutflow) -> None:
        hello = await self._hello(receive)
        if hello.runner_id != runner.runner_id:
            raise refused(Code.UNAUTHORIZED, f"the token is runner {runner.runner_id}'s, not {hello.runner_id}'s")
        if DPS_VERSION not in hello.versions:
            raise refused(Code.VERSION_UNSUPPORTED, f"this gateway supports {DPS_VERSION}, the runner {hello.versions}")
        clock = self._engine.clock
        present = Present(runner, hello, clock.now_ms(), uuid4(self._entropy(16)))
        inflow = Inflow(self._gaps)
        outflow.on_forget.connect(inflow.forget)
        reopens = False
        try:
            with trips.counting() as spent:
                await self._claim(present)
            # At once, and permanently: a delayed link must not continue beside the one that replaced it. It has a close
            # code of its own, or two runners with one token would replace each other's links forever.
            self.replaced(runner.runner_id)
            self._links[runner.runner_id] = outflow
            self._tokens[runner.runner_id] = runner.token_sha256
            self._engine.presence.arrive(present).arrives()
            with trips.counting() as welcoming:
                await self._welcome(hello, present, inflow, outflow)
            spent.ended(spent.in_a_row, welcoming)
            self._engine.lanes.on_trips("attach", spent)
            present.arrived()
            log.info("runner attached", runner_id=runner.runner_id, sessions=len(hello.sessions))
            # A token that was revoked or changed since it was read must not be accepted (L-3).
            if await self._accepted(runner.token_sha256) is None:
                raise refused(Code.UNAUTHORIZED, "the runner's token is no longer accepted")
            await self._engine.seen(runner.tenant_id, runner.runner_id)
            intake = Intake(self._engine, present, inflow, partial(self._observe, present),
                            partial(self._take_refused, runner.runner_id))
            if self._peers is not None:
                intake.on_heartbeat.connect(self._peers.add_heartbeat)
            taking = intake.run(receive, batches=outflow.batch)
            if (ended := await outflow.shut_out_in(taking)) is not None:
                raise Closing(*ended)
        except LinkClosed as closed:
            reopens = closed.code == CloseCode.REOPENING
            raise
        finally:
            present.arrived()
            if self._links.get(runner.runner_id) is outflow:
                del self._links[runner.runner_id], self._tokens[runner.runner_id]
            if self._engine.presence.detach(runner.runner_id, outflow, clock.now_ms()):
                self._engine.looks.lose(runner.runner_id)
            self._detach_lanes(runner.runner_id, outflow, reopens=reopens)
            if self._peers is not None:
                with suppress(LedgerError):  # Then its absence is detected when this gateway's is.
                    await self._peers.detach(present)
            log.info("runner detached", runner_id=runner.runner_id)
            await self._engine.seen(runner.tenant_id, runner.runner_id)

    async def _claim(self, present: Present) -> None:
        """Attach the runner here, and detach it elsewhere. Raises LedgerError, and Closing for a hello that arrives
        late: a suspended gateway, or the network, delayed it while the runner opened a newer link, and its report of
        sessions and turns is out of date (C-7)."""
        presence, runner_id = self._engine.presence, present.record.runner_id
        number = presence.bounded(runner_id, present.hello.link_number)
        present.number_link(number)
        newest = presence.greet(runner_id, number)
        if newest is None and self._peers is not None:
            try:
                await self._peers.attach(present)
            except Overtaken as overtaken:
                newest = overtaken.newest
                presence.known_newest(runner_id, newest)
            else:
                newest = presence.overtook(runner_id, number)
        if newest is not None:
            raise Closing(CloseCode.OUTDATED, outdated(newest))

    async def _hello(self, receive: Receive) -> p.Hello:
        try:
            async with asyncio.timeout(OPENING_TIMEOUT_MS / 1000):
                raw = await next_message(receive)
        except TimeoutError:
            raise Closing(CloseCode.OPENING, "hello did not come in time") from None
        try:
            frame = understand(decode_wire(raw), Direction.C)
        except InvalidFrame as error:
            raise Closing(CloseCode.OPENING, f"hello cannot be read: {error}"[:120]) from None
        if not isinstance(frame.payload, p.Hello):
            raise Closing(CloseCode.OPENING, f"{frame.type} came before hello")
        numbers = [max(known.last_seq_sent, known.control_seq, known.acked_seq) for known in frame.payload.sessions]
        numbers += [max(known.control_seq, known.acked_seq) for known in frame.payload.forgotten]
        if max(*numbers, 0, frame.payload.link_number) > LARGEST_SEQ or frame.payload.link_number < 0:
            raise Closing(CloseCode.OPENING, "hello cannot be read: a number is out of range")
        return frame.payload

    async def _welcome(self, hello: p.Hello, present: Present, inflow: Inflow, outflow: RunnerOutflow) -> None:
        """Answer hello; then attach every lane of the runner and resend its unconfirmed control frames.

        Only then do others see the runner as present: a lane that decided in between would send past its older
        frames.
        """
        listed = {session.session_id: session for session in hello.sessions}
        stored = await self._engine.ledger.runner_sessions(hello.runner_id, present.record.tenant_id)
        records = {r.session_id: r for r in stored}
        durable: list[p.WelcomeSession] = []
        named = list(dict.fromkeys([*listed, *records]))

        async def compare(together: list[str]) -> None:
            await self._engine.lanes.read_together(LaneName(present.record.tenant_id, one) for one in together
                                                   if one in records)
            # In parallel: the lanes just read commit their runner's absence first, and commits share transactions.
            seqs = await _all(self._compared(session_id, hello, listed.get(session_id), present)
                              for session_id in together)
            for session_id, seq in zip(together, seqs, strict=True):
                if seq is None:
                    continue
                inflow.expect(session_id, seq + 1)
                if session_id in listed:
                    durable.append(p.WelcomeSession(session_id=session_id, last_durable_seq=seq))

        async def attach(together: list[str]) -> None:
            await _all(self._attach_lane(session_id, present, listed.get(session_id), outflow)
                       for session_id in together)

        await _by_portions(named, compare)
        known_as = self._engine.lanes.known_as(present.record.tenant_id)
        outflow.send_now(self._link_frame("x-interlock.welcome", p.Welcome(
            version=DPS_VERSION, link_id=present.link_id, gateway_id=known_as, limits=LIMITS_SENT,
            sessions=durable, features=[BATCH])), batch=BATCH in hello.features)
        await _by_portions(named, attach)
        present.connect(outflow)
        for shell in self._engine.lanes.of_runners(hello.runner_id):
            if shell.link is not outflow:
                session_id = shell.lane.state.session_id
                await self._attach_lane(session_id, present, listed.get(session_id), outflow)

    async def _compared(self, session_id: str, hello: p.Hello, known: p.HelloSession | None, present: Present
                        ) -> int | None:
        """Compare a session with its runner's state; returns the last frame that need not be resent. None for another
        runner's: nothing of it is sent to this one."""
        shell = await self._engine.lanes.of_runner(session_id, hello.runner_id)
        if shell is None and await self._engine.ledger.session(session_id) is not None:
            return None
        if shell is None and known is not None:
            shell = await self._observed.begin(present.record, session_id, known.controller, known.agent_id,
                                               known.workspace)
        if shell is None:
            if known is not None:
                self._restored.absent(known, present)
            return 0
        # A session that the runner has forgotten is compared as well: its frames would be numbered from there on.
        return await self._restored.last_durable(shell, known or forgotten(hello, session_id), present)

    async def _attach_lane(
        self, session_id: str, present: Present, session: p.HelloSession | None, outflow: RunnerOutflow
    ) -> None:
        runner_id = present.record.runner_id
        shell = await self._engine.lanes.of_runner(session_id, runner_id)
        if shell is None or shell.link is outflow or shell.lane.state.runner_id != runner_id:
            return
        if self._links.get(runner_id) is not outflow:
            return  # A newer link was opened while this one was still being attached.
        offer = present.offer(shell.lane.state.agent_id)
        had = session or forgotten(present.hello, session_id)
        control_seq = had.control_seq if had is not None else 0
        if session is None:
            self._restored.look(shell, present)
        await shell.attach(outflow, RunnerAttached(control_seq, offer, session))
        if session is not None and session.refused:
            await self._take_refused(runner_id, session_id, session.refused)

    def _was_read(self, shell: LaneShell) -> None:
        """Compare a lane that was read while its runner is attached."""
        present = self._engine.presence.get(shell.lane.state.runner_id)
        if present is not None and present.link is not None:
            self._restored.look(shell, present)

    async def _observe(self, present: Present, session_id: str, change: p.ControlChanged) -> None:
        """Observe a session that another gateway has just opened, from its first frame (D-5)."""
        outflow = self._links.get(present.record.runner_id)
        if outflow is not None and await self._observed.begin(present.record, session_id, change.gateway_id,
                                                              change.agent_id, change.workspace) is not None:
            await self._attach_lane(session_id, present, None, outflow)

    async def _take_refused(self, runner_id: str, session_id: str, refused: list[p.RefusedControl]) -> None:
        """Store refusals of control frames durably before they are confirmed (D-7)."""
        shell = await self._engine.lanes.of_runner(session_id, runner_id)
        if shell is None:
            return
        log.info("control refused", runner_id=runner_id, session_id=session_id, codes=[r.error_code for r in refused])
        await shell.call(ControlsRefused(refused))
        outflow = self._links.get(runner_id)
        if outflow is not None:
            outflow.send(self._link_frame("x-interlock.ack", p.Ack(
                session_id=session_id, seq=0, refused=[one.message_id for one in refused])))

    def _link_frame(self, kind: str, payload: p.Payload) -> bytes:
        at = self._engine.clock.now_ms()
        return encode(Frame(type=kind, payload=payload, message_id=uuid4(self._entropy(16)), timestamp=iso(at)))

    def _detach_lanes(self, runner_id: str, outflow: RunnerOutflow, *, reopens: bool) -> None:
        for shell in self._engine.lanes.of_runners(runner_id):
            if shell.link is outflow:
                shell.drop_link()
                shell.send(RunnerDetached(reopens=reopens))


async def _all(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all of the calls in parallel; returns their results. Raises the first exception, once all have ended: none of
    them outlives its link."""
    done = await asyncio.gather(*calls, return_exceptions=True)
    answers = list[T]()
    for one in done:
        if isinstance(one, BaseException):
            raise one
        answers.append(one)
    return answers


async def _by_portions(session_ids: list[str], do: Callable[[list[str]], Awaitable[None]]) -> None:
    """Call `do` with portions of the sessions, PORTIONS_AT_ONCE in parallel. Raises its exception, once those under way
    have ended; none is started after that."""
    rest = _portions(session_ids)

    async def work() -> None:
        for together in rest:
            try:
                await do(together)
            except BaseException:
                for _ in rest:  # Nothing is started any more.
                    pass
                raise

    await _all(work() for _ in range(PORTIONS_AT_ONCE))


def _portions(session_ids: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(session_ids), ATTACHED_TOGETHER):
        yield session_ids[start:start + ATTACHED_TOGETHER]
