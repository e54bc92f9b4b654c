"""The runner's link to its gateway: dialled for ever, opened with hello and welcome, then attached (L-2, L-4, L-5)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from interlock.config.service_url import is_loopback
from interlock.ports.clock import Clock, Entropy
from interlock.ports.objects import Objects
from interlock.ports.outbox import Outbox
from interlock.protocol.clock import iso
from interlock.protocol.codes import CloseCode, Code
from interlock.protocol.envelope import DPS_VERSION, Frame
from interlock.protocol.frames import BATCH, Direction, InvalidFrame, decode, encode
from interlock.protocol.identifiers import uuid4
from interlock.protocol.limits import (
    ACK_DELAY_MS,
    HEARTBEAT_INTERVAL_MS,
    KIB,
    LARGEST_SEQ,
    LINK_JUMP,
    MAX_MESSAGE_BYTES,
    OPENING_MS_A_SESSION,
    OPENING_SESSIONS,
    OPENING_TIMEOUT_MS,
    PING_INTERVAL_S,
    PING_TIMEOUT_S,
    RECONNECT_LOOPBACK_MAX_MS,
    RECONNECT_MAX_MS,
    RECONNECT_MIN_MS,
)
from interlock.protocol.payloads import Hello, LiveAgent, RefusedControl, Welcome
from interlock.protocol.refusals import LinkRefusal, read_moved, read_outdated, read_problem, read_reason
from interlock.runner.link.attachment import LinkBroken, LinkSession, Look, first, no_look
from interlock.runner.link.inbound import Control, Inbound
from interlock.runner.link.outflow import Outflow
from interlock.runner.link.reconnect import Backoff, UnsafeUrl, check_url, failed_dial, moved_url

CLOSE_TIMEOUT_S = 2
"""A peer that does not answer a close within this is disconnected."""

WRITE_BYTES = 256 * KIB
"""Limit of the socket's own write buffer; sending waits above it."""


class TokenRefused(Exception):
    """The gateway refused the runner's token (L-3): no retry. The text is for the user."""

    code = Code.UNAUTHORIZED


class LinkIntervals(NamedTuple):
    """The link's intervals; shorter only in tests."""

    opening_s: float = OPENING_TIMEOUT_MS / 1000
    ping_interval_s: float = PING_INTERVAL_S
    ping_timeout_s: float = PING_TIMEOUT_S
    heartbeat_s: float = HEARTBEAT_INTERVAL_MS / 1000
    ack_delay_s: float = ACK_DELAY_MS / 1000
    reconnect_min_ms: int = RECONNECT_MIN_MS
    reconnect_max_ms: int = RECONNECT_MAX_MS

    def welcome_s(self, sessions: int) -> float:
        """Timeout of the welcome, in seconds, for a hello that lists this number of sessions."""
        return self.opening_s + max(0, sessions - OPENING_SESSIONS) * OPENING_MS_A_SESSION / 1000


NORMAL_PACE = LinkIntervals()


class LinkState(NamedTuple):
    """The link's state for `on_state`; `sentence` is for a person, `error_code` is the refusal's, if any (W-2). The
    kind "notice" is not a change of state."""

    kind: Literal["attached", "detached", "refused", "notice"]
    sentence: str
    gateway_id: str | None = None
    error_code: str | None = None


class _Dial(connect):
    """Dials as websockets does, but rejects redirects: one could lead the link out of TLS, or to a stranger."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class GatewayConnector:
    """Keeps the runner attached. Raises UnsafeUrl at construction (L-2).

    `hello` is called at each attempt with the gateway's id, "" while unknown. `name` is the pairing that leads to the
    gateway, `gateway_id` the stored id of it; the gateway of a `primary` link is the one from before gateways had
    names; `taken` returns whether another link is attached to the same one. `control` is called once with each control
    frame, in order per session, after it is stored (D-7); an exception of it ends `run`. `on_state` is called at every
    change and must not block.
    """

    def __init__(self, *, url: str, token: str, outbox: Outbox, objects: Objects, outflow: Outflow,
                 hello: Callable[[str], Awaitable[Hello]], control: Control, live_agents: Callable[[], list[LiveAgent]],
                 clock: Clock, entropy: Entropy, on_state: Callable[[LinkState], None] | None = None,
                 pace: LinkIntervals = NORMAL_PACE, tls: ssl.SSLContext | None = None, name: str = "",
                 gateway_id: str = "", primary: bool = True, taken: Callable[[str], bool] = lambda _: False,
                 look: Look = no_look) -> None:
        self._host = check_url(url)
        self._url = url
        self._token = token
        self._outbox = outbox
        self._objects = objects
        self._outflow = outflow
        self._hello = hello
        self._control = control
        self._live_agents = live_agents
        self._clock = clock
        self._entropy = entropy
        self._on_state = on_state
        self._pace = pace
        self._tls = tls
        ceiling_ms = pace.reconnect_max_ms
        if is_loopback(self._host):
            ceiling_ms = min(ceiling_ms, RECONNECT_LOOPBACK_MAX_MS)
        self._backoff = Backoff(entropy, pace.reconnect_min_ms, ceiling_ms)
        self._refusal: str | None = None
        self._beyond = 0
        self._number = 0
        """The number of the latest link."""
        self.attached: bool = False
        self.name = name
        self.gateway_id: str = gateway_id
        self._primary = primary
        self._taken = taken
        self._look = look
        self._attachment: LinkSession | None = None
        self._stale = asyncio.Event()
        self._greeted = asyncio.Event()
        """Set while the gateway has the current offering."""

    def refused(self, session_id: str, refusal: RefusedControl) -> None:
        """Report a refused control frame to the gateway if it is attached; else the next hello does (D-7)."""
        if self._attachment is not None:
            self._attachment.refused(session_id, refusal)

    def greet_again(self) -> None:
        """Reopen the link, so that the gateway receives a new hello; sessions continue as after any lost link (C-7)."""
        self._greeted.clear()
        self._stale.set()

    async def greeted(self) -> None:
        """Wait until the gateway has the current offering."""
        await self._greeted.wait()

    async def run(self) -> None:
        """Stay attached until cancelled. Raises TokenRefused, and the exceptions of `control`."""
        inbound = Inbound(self._outbox, self._objects, self._outflow, self._clock, self._entropy, self._control)

        async def failure() -> None:
            await asyncio.shield(inbound.failed)

        try:
            await first(self._attempts(inbound), failure())
        except TokenRefused as refused:
            self._report("refused", str(refused), refused.code.value)
            raise
        finally:
            await inbound.close()

    async def _attempts(self, inbound: Inbound) -> None:
        while True:
            self._refusal = None
            sentence = await self._attempt(inbound)
            self.attached = False
            self._report("detached", sentence, self._refusal)
            await asyncio.sleep(self._backoff.next_ms() / 1000)

    async def _attempt(self, inbound: Inbound) -> str:
        """Open one link and serve it; return why it ended. Raises TokenRefused."""
        try:
            async with self._dial() as socket:
                try:
                    await self._live(socket, inbound)
                except LinkBroken as broken:
                    if broken.code == CloseCode.VERSION:
                        self._refusal = Code.VERSION_UNSUPPORTED.value
                    await socket.close(broken.code, str(broken)[:100])
                    return str(broken)
        except InvalidStatus as error:
            status, body = error.response.status_code, bytes(error.response.body or b"")
            if (place := read_moved(status, body)) is not None:
                return self._follow(place)
            refusal = read_problem(status, body)
            if refusal is not None:
                return self._refused(refusal)
            return f"The gateway answered HTTP {status} instead of opening the link."
        except ConnectionClosed as closed:
            return self._ended(closed)
        except TimeoutError:
            return "The gateway did not answer in time."
        except (OSError, WebSocketException) as error:
            return f"The gateway at {self._host} cannot be reached: {failed_dial(error)}."
        finally:
            self.attached = False
        return "The link was closed."

    def _dial(self) -> _Dial:
        # Absent, it means the system's certificates; a link without TLS must not pass it.
        trust: dict[str, Any] = {"ssl": self._tls} if self._tls is not None and self._url.startswith("wss:") else {}
        return _Dial(
            self._url,
            subprotocols=[Subprotocol(DPS_VERSION)],
            additional_headers={"Authorization": f"Bearer {self._token}"},
            compression=None,
            max_size=MAX_MESSAGE_BYTES,
            open_timeout=self._pace.opening_s,
            ping_interval=self._pace.ping_interval_s,
            ping_timeout=self._pace.ping_timeout_s,
            close_timeout=CLOSE_TIMEOUT_S,
            write_limit=WRITE_BYTES,
            proxy=None if is_loopback(self._host) else True,
            **trust,
        )

    async def _live(self, socket: ClientConnection, inbound: Inbound) -> None:
        if socket.subprotocol != DPS_VERSION:
            raise LinkBroken(CloseCode.VERSION,
                             f"The gateway does not support {DPS_VERSION}; update the older of the two.")
        self._stale.clear()
        async with asyncio.timeout(self._pace.opening_s) as opening:
            self._number = await self._outbox.number_link(self._beyond)
            hello = msgspec.structs.replace(await self._hello(self.gateway_id), link_number=self._number)
            await socket.send(encode(Frame(type="x-interlock.hello", payload=hello,
                                           message_id=uuid4(self._entropy(16)),
                                           timestamp=iso(self._clock.now_ms()))), text=True)
            opening.reschedule(asyncio.get_running_loop().time() + self._pace.welcome_s(len(hello.sessions)))
            welcome = _welcome(await socket.recv(decode=False))
        await self._join(welcome.gateway_id, inbound)
        self._backoff.reset()
        self.attached = True
        if not self._stale.is_set():  # Changes since the hello was made are in the next one.
            self._greeted.set()
        self._report("attached", f"The runner is attached to its gateway at {self._host}.")
        attachment = self._attachment = LinkSession(
            socket, gateway_id=self.gateway_id, outbox=self._outbox, outflow=self._outflow, inbound=inbound,
            live_agents=self._live_agents, clock=self._clock, entropy=self._entropy, heartbeat_s=self._pace.heartbeat_s,
            ack_delay_s=self._pace.ack_delay_s,
            note=lambda sentence: self._report("notice", sentence),
            batch=BATCH in hello.features and BATCH in welcome.features, look=self._look,
        )
        try:
            await first(attachment.run(welcome, [session.session_id for session in hello.sessions]),
                        self._until_stale())
        finally:
            self._attachment = None
            leaving = asyncio.ensure_future(self._outbox.leave(self.gateway_id, self._clock.now_ms()))
            # If this task is canceled meanwhile, no one else awaits the failure, which the outbox has logged.
            leaving.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            await asyncio.shield(leaving)

    async def _until_stale(self) -> None:
        await self._stale.wait()
        raise LinkBroken(CloseCode.REOPENING, "The runner's offering changed; the link reopens with a new hello.")

    async def _join(self, gateway_id: str, inbound: Inbound) -> None:
        """Apply the gateway's cursors (D-5). Raises LinkBroken if hello named another gateway: the next one is right.
        """
        if self._taken(gateway_id):
            self._backoff.yield_way(self._pace.reconnect_max_ms)
            raise LinkBroken(CloseCode.OPENING, f"Gateway {gateway_id} is attached by another pairing of this runner.")
        known, self.gateway_id = self.gateway_id, gateway_id
        inbound.join(gateway_id)
        rows = await self._outbox.sessions(gateway_id)
        await self._outbox.join(gateway_id, self.name, adopt=self._primary)
        if known != gateway_id and any(row.control_seq or row.acked_seq for row in rows):
            raise LinkBroken(CloseCode.OPENING, f"Gateway {gateway_id} answered instead of the expected one; the link "
                             "reopens with a new hello.")

    def _ended(self, closed: ConnectionClosed) -> str:
        code = closed.rcvd.code if closed.rcvd else None
        reason = closed.rcvd.reason if closed.rcvd else ""
        refusal = read_reason(code, reason)
        if refusal is not None:
            return self._refused(refusal)
        if code == CloseCode.REPLACED:
            self._backoff.yield_way(self._pace.reconnect_max_ms)
            return "Another runner opened a link with this runner's token. Stop one of them, or pair it again."
        if (newest := read_outdated(code, reason)) is not None:
            # A runner that gets this reply is still connected, so its hello is not stale: its outbox was lost or
            # restored from a backup, or another process has its token. One reply moves the number by LINK_JUMP at most,
            # otherwise a gateway could use up the remaining numbers of the others.
            self._beyond = max(self._beyond, min(newest, self._number + LINK_JUMP, LARGEST_SEQ - 1))
            return f"The gateway knows link {newest} of this runner, but its outbox does not; it continues from there."
        if code is None:
            return "The link broke."
        return f"The gateway closed the link ({code}{': ' + reason if reason else ''})."

    def _follow(self, place: str) -> str:
        """Dial the gateway that the runner's tenant was moved to, until this process ends: the paired gateway named it.
        """
        try:
            self._url = moved_url(self._url, place)
            self._host = check_url(self._url)
        except UnsafeUrl as error:
            self._backoff.yield_way(self._pace.reconnect_max_ms)
            return f"The runner's tenant was moved, but the runner does not follow: {error}"
        self._backoff.reset()
        return (f"The runner's tenant was moved to {place}, and the runner dials that gateway now: put the address "
                "into its config.")

    def _refused(self, refusal: LinkRefusal) -> str:
        """Handle a link that the gateway refused with a reason (W-2). Raises TokenRefused; a version is retried after a
        long delay, since one of the two will be updated."""
        if refusal.code is Code.UNAUTHORIZED:
            raise TokenRefused(f"The gateway does not accept this runner's token ({refusal.detail}). Pair the runner "
                               "again: `interlock runner pair CODE`.") from None
        self._refusal = refusal.code.value
        self._backoff.yield_way(self._pace.reconnect_max_ms)
        return refusal.sentence

    def _report(self, kind: Literal["attached", "detached", "refused", "notice"], sentence: str,
              error_code: str | None = None) -> None:
        if self._on_state is not None:
            self._on_state(LinkState(kind, sentence, self.gateway_id, error_code))


def _welcome(raw: bytes) -> Welcome:
    """Decode the first message. Raises LinkBroken for anything but a welcome in our version (L-4)."""
    try:
        frame = decode(raw, Direction.M)
    except InvalidFrame as error:
        raise LinkBroken(CloseCode.OPENING, f"The gateway's welcome is invalid: {error}.") from None
    if not isinstance(frame.payload, Welcome):
        raise LinkBroken(CloseCode.OPENING, f"The gateway sent {frame.type} before its welcome.")
    if frame.payload.version != DPS_VERSION:
        raise LinkBroken(CloseCode.VERSION,
                         f"The gateway chose version {frame.payload.version}, which was not offered.")
    return frame.payload
