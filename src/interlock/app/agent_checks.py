"""The runner's own checks (H-10): an agent that was never checked, or has changed since, is checked in the background.

One at a time, at a low priority, each in a process of its own, so that no session waits for one. The result is offered
as soon as it is available; until then the agent is held as the table of known agents states, with the reason "being
checked".
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec
import structlog

from interlock.agents import evidence
from interlock.agents.held import as_held, holding_of, needs_check
from interlock.config import Config
from interlock.ports.agent import AgentSpec
from interlock.probe.model_endpoint import is_known
from interlock.probe.scratch import digest_of
from interlock.protocol.hold import CHECKING, Holding
from interlock.runner.agent_catalog import Offering

LOOK_EVERY_S = 600.0
"""An agent that changes while the runner runs is detected within this."""
CHECK_TIMEOUT_S = 150.0
"""Timeout of one check; it ends by itself before that (`interlock.probe.check`)."""
STOP_TIMEOUT_S = 10.0
"""After an interrupt a check ends its agent within this, or is killed."""
MAX_TRIED = 256
"""Agents, each in one version, that are remembered as checked without a result."""
NICE = 10
STDERR_SHOWN_BYTES = 2_000

RunCheck = Callable[[str], Awaitable[None]]
"""Checks one agent of the config and stores the record. Never raises because of the agent's behaviour."""
log = structlog.get_logger()


class AgentChecks:
    """The agents of the config to check, and how each is held meanwhile."""

    def __init__(self, state: Path, environment: Mapping[str, str], run: RunCheck | None = None) -> None:
        self._state, self._environment = state, environment
        self._run = run or in_own_process(state)
        self._agents: Mapping[str, AgentSpec] = {}
        self._roots: list[str] = []
        self._enabled = False
        self._tried: dict[tuple[str, str], None] = {}
        self._changed = asyncio.Event()

    def offering(self, config: Config, roots: list[str]) -> Offering:
        """Return the runner's offer for this config, with how each agent is held now."""
        self._agents, self._roots, self._enabled = config.agents, roots, config.runner.check_agents
        self._changed.set()
        return self._offering()

    async def keep(self, offer: Callable[[Offering], None]) -> None:
        """Check the due agents, one after the other, and offer the results, until cancelled."""
        while True:
            self._changed.clear()
            due = self._due()
            for name, digest in due.items():
                self._tried[name, digest] = None
                await self._check(name)
                offer(self._offering())
            if due:
                continue
            while len(self._tried) > MAX_TRIED:
                self._tried.pop(next(iter(self._tried)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._changed.wait()
            offer(self._offering())

    async def _check(self, name: str) -> None:
        log.info("agent_check", agent=name)
        try:
            await self._run(name)
        except Exception as error:  # noqa: BLE001 - a check that fails leaves the agent as it was held before.
            log.warning("agent_check_failed", agent=name, error=str(error))
            return
        found = evidence.read(self._state).get(name)
        if found is not None:
            log.info("agent_checked", agent=name, verdict=found.verdict, because=found.because, seconds=found.seconds)

    def _due(self) -> dict[str, str]:
        """Return the agents to check, with the current digest of each."""
        if not self._enabled:
            return {}
        records = evidence.read(self._state)
        found: dict[str, str] = {}
        for name, spec in self._agents.items():
            if not self._can_check(spec):
                continue
            digest = digest_of(spec, self._environment)
            record = records.get(name)
            if (record is None or record.digest != digest) and (name, digest) not in self._tried:
                found[name] = digest
        return found

    def _can_check(self, spec: AgentSpec) -> bool:
        """Return whether the runner may start it by itself: it is installed, and known to use only the stand-in."""
        path = spec.env.get("PATH") or self._environment.get("PATH") or os.defpath
        return needs_check(spec) and is_known(spec.command) and shutil.which(spec.command, path=path) is not None

    def _offering(self) -> Offering:
        records, due = evidence.read(self._state), self._due()
        holdings: dict[str, Holding] = {}
        for name, spec in self._agents.items():
            digest = digest_of(spec, self._environment) if name in records else ""
            holding = holding_of(spec, records.get(name), digest)
            holdings[name] = msgspec.structs.replace(holding, why=CHECKING) if name in due else holding
        agents = {name: as_held(spec, holdings[name], records.get(name)) for name, spec in self._agents.items()}
        return Offering(agents, self._roots, holdings)


def in_own_process(state: Path) -> RunCheck:
    """Return a check that runs `interlock agents check NAME` of this state directory, as its user would."""
    async def run(name: str) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "interlock", "agents", "check", name, "--json", "--state", str(state),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            start_new_session=True)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                _, errors = await process.communicate()
        finally:
            await _end(process)
        if process.returncode:
            raise CheckFailed(errors.decode("utf-8", "replace")[-STDERR_SHOWN_BYTES:].strip())
    return run


class CheckFailed(Exception):
    """Raised if the check could not be made; the text is its output."""


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    # An interrupt lets it end its agent; a kill would leave that to the agent's supervisor.
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
                return
