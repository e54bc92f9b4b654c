"""The runner: connects outbox, outflow, links and sessions, and runs them from its start to SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import secrets
import signal
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import structlog

from interlock import __version__
from interlock.agents.registry import offers
from interlock.config.hangup import on_hangup
from interlock.ports.agent import AgentSpec
from interlock.ports.objects import Objects
from interlock.ports.outbox import Outbox
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.frames import BATCH
from interlock.protocol.hold import Holding
from interlock.protocol.identifiers import uuid4
from interlock.protocol.limits import AGENT_IDLE_MS, OUTBOX_BYTES
from interlock.protocol.payloads import WORKSPACE_CHANGES, Hello
from interlock.runner.agent_catalog import Offered, Offering, OfferingRefused, ReadOffering
from interlock.runner.link.gateways import Gateways, PairedGateway
from interlock.runner.link.link import NORMAL_PACE, LinkIntervals
from interlock.runner.link.outflow import Outflow, OutflowStopped
from interlock.runner.local import listening
from interlock.runner.process.process import AgentProcess
from interlock.runner.process.reaper import lives_mark, reap_leftovers
from interlock.runner.session.session_box import NO_BOX, Boxing
from interlock.runner.session.session_context import Surroundings
from interlock.runner.session.sessions import RunnerSessions
from interlock.runner.turn.interactions import LivePresence
from interlock.runner.turn.turn import SessionTimeouts

STOPPING_TIMEOUT_S = 20.0
"""Limit from SIGTERM to the end: agents get their cancel, their grace and their SIGKILL within it. Outcomes that are
not written by then are written at the next start (D-6)."""

log = structlog.get_logger()


class RunnerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a runner needs. `gateways` has at least one entry, the first pairing in front; `runner_id` marks its agents.
    `roots` are absolute directories, at least one; `agents` as in `[agents]` (G-1)."""

    gateways: list[PairedGateway]
    runner_id: str
    state_dir: Path
    roots: list[str]
    agents: dict[str, AgentSpec] = {}
    holdings: Mapping[str, Holding] = {}
    """Restrictions of each agent of the config (H-10)."""
    device_name: str = ""
    outbox_bytes: int = OUTBOX_BYTES
    agent_idle_ms: int = AGENT_IDLE_MS
    drain_ms: int = 0
    """Time after SIGTERM in which running turns may end by themselves; no new one begins."""
    agent_descriptors: int = 0
    """The soft limit of open files for agents; 0 for the runner's own."""
    boxing: Boxing = NO_BOX
    """Directories hidden from agents, and the walls that hide them (H-15)."""
    pace: LinkIntervals = NORMAL_PACE
    """The links' intervals: a ping every 15 s, dead after two missed (L-5); shorter only in tests."""


Beside = Callable[[Callable[[Offering], None]], Coroutine[Any, Any, None]]
"""Work that runs beside the links; it receives a function that changes the offering."""


class _Clock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


async def run_runner(config: RunnerConfig, outbox: Outbox, objects: Objects,
                     read_offering: ReadOffering | None = None, beside: Beside | None = None) -> None:
    """Run until SIGTERM or SIGINT, then end the agents cleanly and return. The caller closes the outbox.

    On SIGHUP or a local request (`interlock config reload`), agents and roots come from `read_offering`; its mistakes
    are logged, and the previous offering stays (G-1). `beside` runs as long as the runner runs, and may change the
    offering at any time.

    Raises TokenRefused (no gateway accepts its token), UnsafeUrl, OutboxError, each with one sentence.
    """
    stopping = _stop_signals()
    # The runner holds the outbox's lock, so processes that still run under its mark are leftovers of an earlier run.
    mark = lives_mark(config.runner_id, config.state_dir)
    await reap_leftovers(mark)
    clock = _Clock()
    outflow = Outflow(outbox, clock=clock, entropy=secrets.token_bytes, outbox_bytes=config.outbox_bytes)
    presence = LivePresence()
    offered = Offered(Offering(config.agents, config.roots, config.holdings))
    around = Surroundings(
        flow=outflow, objects=objects, clock=clock, entropy=secrets.token_bytes, presence=presence,
        spawn=partial(AgentProcess.start, descriptors=config.agent_descriptors),
        offered=offered, runner_id=mark, environment=os.environ,
        timeouts=SessionTimeouts(idle_s=config.agent_idle_ms / 1000), boxing=config.boxing,
    )
    sessions = RunnerSessions(around, outbox)
    boot_id = uuid4(secrets.token_bytes(16))

    async def hello(pairing: PairedGateway, gateway_id: str) -> Hello:
        return Hello(
            versions=[DPS_VERSION], runner_id=pairing.runner_id, boot_id=boot_id,
            agents=[config.boxing.offered(offer, offered.agents.get(offer.agent_id))
                    for offer in offers(offered.agents, os.environ, offered.holdings)],
            features=[BATCH, WORKSPACE_CHANGES],
            sessions=await sessions.hello_sessions(gateway_id), device_name=config.device_name,
            roots=offered.roots, forgotten=await sessions.hello_forgotten(gateway_id),
            software=f"interlock {__version__}",
            system=f"{platform.system()} {platform.release()} {platform.machine()}",
        )

    gateways = Gateways(config.gateways, outbox=outbox, objects=objects, outflow=outflow, sessions=sessions,
                        presence=presence, hello=hello, clock=clock, entropy=secrets.token_bytes,
                        pace=config.pace, look=sessions.look)

    def reload() -> list[str]:
        return reread(offered, read_offering, gateways.greet_again)

    async def reload_and_offer() -> list[str]:
        mistakes = reload()
        await gateways.greeted()  # A new agent can be used as soon as the reload is reported.
        return mistakes

    def offer(offering: Offering) -> None:
        if offered.take(offering):
            gateways.greet_again()

    flowing = asyncio.create_task(outflow.run(), name="outflow")
    aside = [asyncio.create_task(beside(offer), name="beside")] if beside is not None else []
    try:
        await sessions.recover()
        async with listening(config.state_dir, sessions, reload_and_offer):
            on_hangup(reload, stopping.set)
            await _until(stopping, asyncio.create_task(gateways.run(), name="links"), flowing, sessions,
                         config.drain_ms / 1000)
    finally:
        for task in (*aside, flowing):
            await _end(task)


def reread(offered: Offered, read_offering: ReadOffering | None, greet_again: Callable[[], None]) -> list[str]:
    """Reload the offering from the config, and send a new hello if it changed; return the mistakes found (G-1)."""
    if read_offering is None:
        return ["This runner was started without a config."]
    try:
        offer = read_offering()
    except OfferingRefused as refused:
        log.warning("config_not_reloaded", sentences=refused.sentences)
        return refused.sentences
    if offered.take(offer):
        greet_again()
    log.info("config_reloaded", agents=sorted(offered.agents), roots=offered.roots)
    return []


async def _until(stopping: asyncio.Event, linking: asyncio.Task[None], flowing: asyncio.Task[None],
                 sessions: RunnerSessions, drain_s: float) -> None:
    """Run until a signal, or until link or outflow fail; then let turns end for `drain_s` or until a second signal, and
    close the agents. Raises the failure."""
    stop = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait([stop, linking, flowing], return_when=asyncio.FIRST_COMPLETED)
        if stop.done() and drain_s > 0:
            stopping.clear()
            await _drain(stopping, linking, flowing, sessions, drain_s)
        try:
            async with asyncio.timeout(STOPPING_TIMEOUT_S):
                await sessions.close_all("the runner is stopping")
        except (TimeoutError, OutflowStopped):
            log.warning("not every agent's end could be written in time; the next start writes the rest")
    finally:
        stop.cancel()
        failures = [task for task in (linking, flowing) if task.done()]
        await _end(linking)
    for task in failures:
        task.result()


async def _drain(stopping: asyncio.Event, linking: asyncio.Task[None], flowing: asyncio.Task[None],
                 sessions: RunnerSessions, drain_s: float) -> None:
    """Wait for running turns with the link up; not beyond `drain_s`, a second signal, or a failure."""
    log.info("draining", turns=sessions.hold(), seconds=drain_s)
    rested = asyncio.create_task(sessions.rested(), name="drain")
    again = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait([rested, again, linking, flowing], timeout=drain_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end(rested)
        again.cancel()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task


def _stop_signals() -> asyncio.Event:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    return stopping
