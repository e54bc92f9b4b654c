"""The gateways that a runner is paired with: one independent link each (D-5)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec
import structlog

from interlock.ports.clock import Clock, Entropy
from interlock.ports.objects import Objects
from interlock.ports.outbox import Outbox
from interlock.protocol.payloads import Hello, RefusedControl
from interlock.runner.link.attachment import Look, first, no_look
from interlock.runner.link.link import NORMAL_PACE, GatewayConnector, LinkIntervals, LinkState, TokenRefused
from interlock.runner.link.link_log import LinkLog
from interlock.runner.link.outflow import Outflow
from interlock.runner.session.sessions import RunnerSessions
from interlock.runner.turn.interactions import LivePresence

HANDSHAKE_TIMEOUT_S = 10.0
"""A gateway that does not take a new hello within this is not waited for."""
FORGET_S = 60
"""Interval at which ended sessions are forgotten."""
SWEEP_S = 15 * 60
"""Interval at which observers that have been away for too long are removed."""
log = structlog.get_logger()


class PairedGateway(msgspec.Struct, frozen=True, kw_only=True):
    """One gateway, and the credentials of this runner for it."""

    url: str
    token: str
    runner_id: str
    tls: ssl.SSLContext | None = None
    """Certificates to trust on a wss:// link; None for the system's."""


HelloTo = Callable[[PairedGateway, str], Awaitable[Hello]]
"""Make the hello for a gateway, from the pairing and the gateway's id ("" while unknown)."""


class Gateways:
    """Keeps a runner attached to all its gateways. The first pairing is the one from before there were several."""

    def __init__(self, pairings: list[PairedGateway], *, outbox: Outbox, objects: Objects, outflow: Outflow,
                 sessions: RunnerSessions, presence: LivePresence, hello: HelloTo, clock: Clock, entropy: Entropy,
                 pace: LinkIntervals = NORMAL_PACE, look: Look = no_look) -> None:
        self._pairings = pairings
        self._outbox = outbox
        self._objects = objects
        self._outflow = outflow
        self._sessions = sessions
        self._presence = presence
        self._hello = hello
        self._clock = clock
        self._entropy = entropy
        self._pace = pace
        self._look = look
        self._links: list[GatewayConnector] = []
        sessions.on_refused(self._refused)

    async def run(self) -> None:
        """Stay attached until cancelled. Raises TokenRefused once every gateway refuses its token, UnsafeUrl, and the
        errors of control frames."""
        known = {row.link: row.gateway_id for row in await self._outbox.gateways()}
        self._links = [self._link(pairing, known.get(pairing.runner_id, ""), primary=place == 0)
                       for place, pairing in enumerate(self._pairings)]
        tasks = {asyncio.create_task(link.run(), name=f"link {link.name}") for link in self._links}
        sweeping = asyncio.create_task(first(self._sweep(), self._forget()), name="sweep")
        try:
            await self._live(tasks, sweeping)
        finally:
            for task in (*tasks, sweeping):
                task.cancel()
            await asyncio.gather(*tasks, sweeping, return_exceptions=True)

    def greet_again(self) -> None:
        """Send every gateway the current offering (L-4)."""
        for link in self._links:
            link.greet_again()

    async def greeted(self) -> None:
        """Wait, at most HANDSHAKE_TIMEOUT_S, until every gateway that is attached now has the current offering."""
        greetings = [link.greeted() for link in self._links if link.attached]
        with suppress(TimeoutError):
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                await asyncio.gather(*greetings)

    async def _live(self, tasks: set[asyncio.Task[None]], sweeping: asyncio.Task[None]) -> None:
        waiting = {*tasks, sweeping}
        while True:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                refused = task.exception()
                # A refused token stops only its own link, while another gateway still accepts frames.
                if not isinstance(refused, TokenRefused) or not any(one in tasks for one in waiting):
                    task.result()

    def _link(self, pairing: PairedGateway, gateway_id: str, *, primary: bool) -> GatewayConnector:
        logged = LinkLog(pairing.url)
        link = GatewayConnector(
            url=pairing.url, token=pairing.token, outbox=self._outbox, objects=self._objects,
            outflow=self._outflow,
            hello=lambda known: self._hello(pairing, known), control=self._sessions.control,
            live_agents=self._sessions.live_agents, clock=self._clock, entropy=self._entropy,
            on_state=lambda state: self._changed(pairing, logged, state), tls=pairing.tls, name=pairing.runner_id,
            gateway_id=gateway_id, primary=primary, pace=self._pace, look=self._look,
            taken=lambda named: any(one.attached and one.gateway_id == named for one in self._links if one is not link),
        )
        return link

    def _changed(self, pairing: PairedGateway, logged: LinkLog, state: LinkState) -> None:
        if state.kind != "notice" and state.gateway_id:
            if state.kind == "attached" and pairing is self._pairings[0]:
                self._sessions.attached(state.gateway_id)
            self._presence.set(state.kind == "attached", state.gateway_id)
        attached = sum(link.attached for link in self._links)
        logged.note(state, f"{attached} of {len(self._links)}")

    def _refused(self, gateway_id: str, session_id: str, refusal: RefusedControl) -> None:
        for link in self._links:
            if link.gateway_id == gateway_id:
                link.refused(session_id, refusal)

    async def _forget(self) -> None:
        while True:
            await asyncio.sleep(FORGET_S)
            await self._sessions.forget_over()

    async def _sweep(self) -> None:
        while True:
            for session_id, gateway_id in await self._outbox.sweep(self._clock.now_ms()):
                log.warning("observer lost its place", session_id=session_id, gateway_id=gateway_id)
            await asyncio.sleep(SWEEP_S)
