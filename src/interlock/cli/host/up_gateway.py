"""One gateway, a runner and the processes beside them, supervised from their start to their end (G-3)."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from interlock.cli.access.console_link import qr_code
from interlock.cli.agents.boxes import boxes, unwalled
from interlock.cli.config.config_mistakes import mistakes_of
from interlock.cli.config.place import (
    LOCAL_RUNNER,
    LOGS,
    RUNNER_TOKEN_FILE,
    gateway_file,
    option_for,
)
from interlock.cli.display.terminal import is_terminal, printable, say, write
from interlock.cli.exit_status import ExitStatus
from interlock.cli.host.children import (
    STOP_GRACE_S,
    Child,
    SupervisedChild,
    ending,
    keep_alive,
    keep_apart,
    prepare_log,
)
from interlock.cli.host.own_gateway import OwnGateway
from interlock.cli.verb_error import Trouble
from interlock.config.hangup import on_hangup
from interlock.protocol.limits import READY_TIMEOUT_S
from interlock.protocol.resources import Node

POLL_S = 0.05
"""Interval of readiness checks."""
PROGRESS_S = 1.0
"""A start that takes longer than this is reported."""


def first_verb(agents: Sequence[Mapping[str, Any]], state: Path) -> str:
    """Return the verb to type first: a task for an agent that can start, `shell` before others; if none can start, the
    verb that shows the reason."""
    able = [str(agent.get("agent_id")) for agent in agents if not agent.get("unavailable")]
    if "shell" in able:
        typed = 'interlock run shell "ls -l"'
    elif able:
        typed = f'interlock run {shlex.quote(able[0])} "What is in this directory?"'
    else:
        typed = "interlock agents"
    return typed + option_for(state)


class Up:
    """Gateway and runner, from their start to their end."""

    def __init__(self, state: Path, port: int, roots: list[str], drain_ms: int, aside: list[str], *,
                 verbose: bool, public: str | None = None) -> None:
        """`roots` are those of the command line; if there are none, the runner uses its config's. `aside` are verbs
        that run beside gateway and runner, which continue without them if they fail. `public` is the URL by which other
        machines reach the gateway."""
        self._public = public
        self._state = state
        self._port = port
        self._roots = roots
        self._verbose = verbose
        logs = state / LOGS
        self._gateways = [Child("gateway", self._gateway_arguments, logs / "gateway.log")]
        self._runner = Child("runner", self._runner_arguments, logs / "runner.log",
                             STOP_GRACE_S + drain_ms / 1000)
        self._aside = [Child(verb, partial(self._aside_arguments, verb), logs / f"{verb}.log") for verb in aside]
        self._url = ""
        self._signal: signal.Signals | None = None
        self._stop_asked = asyncio.Event()

    def _gateway_arguments(self) -> list[str]:
        return ["gateway", "--state", str(self._state), "--port", str(self._port)]

    def _runner_arguments(self) -> list[str]:
        roots = [part for root in self._roots for part in ("--root", root)]
        token = str(self._state / RUNNER_TOKEN_FILE)
        return ["runner", "--state", str(self._state), "--url", self._url, "--token-file", token, *roots]

    def _aside_arguments(self, verb: str) -> list[str]:
        return [verb, "--state", str(self._state), "--url", self._url]

    async def run(self) -> int:
        """Start both processes, print what to type next, restart what ends, and stop both, the runner first."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._asked_to_stop, number)
        on_hangup(self._read_again, partial(self._asked_to_stop, signal.SIGHUP))
        children = (*self._gateways, self._runner, *self._aside)
        for child in children:
            prepare_log(child.log)
        shown = [asyncio.create_task(_show(child.log)) for child in children if self._verbose]
        keeping: list[asyncio.Task[None]] = []
        try:
            if await self._unless_stopped(self._start()):
                keeping = [asyncio.create_task(keep_alive(one)) for one in self._supervised()]
                keeping.append(asyncio.create_task(self._keep_runner()))
                keeping += [asyncio.create_task(keep_apart(child)) for child in self._aside]
                await self._unless_stopped(first_failure(keeping))
        finally:
            # The restarting tasks must end before the processes that they restart are ended.
            for task in [*keeping, *shown]:
                task.cancel()
            await asyncio.gather(*keeping, *shown, return_exceptions=True)
            await self._stop()
        return ExitStatus.INTERRUPTED if self._signal is signal.SIGINT else ExitStatus.DONE

    def _asked_to_stop(self, number: signal.Signals) -> None:
        if self._signal is not None:  # Requested twice: stop without waiting.
            for child in (*self._aside, self._runner, *self._gateways):
                child.kill()
            return
        self._signal = signal.Signals(number)
        self._stop_asked.set()  # First: a reader of the message may be gone.
        say("ending the runner and the gateway …", "dim")

    def _read_again(self) -> None:
        """Forward SIGHUP; errors of the config are printed here, too (G-1)."""
        mistakes = mistakes_of(self._state)
        for mistake in mistakes:
            say(mistake)
        if mistakes:
            say("the old settings stay", "bold")
            return
        for child in (*self._gateways, self._runner):
            child.hang_up()
        say("gateway and runner read the config again", "dim")

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run the work unless a signal comes first; returns whether it finished. Raises what the work raises."""
        doing = asyncio.create_task(work)
        stopping = asyncio.create_task(self._stop_asked.wait())
        try:
            await asyncio.wait([doing, stopping], return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
                return True
            return False
        finally:
            doing.cancel()
            stopping.cancel()
            await asyncio.gather(doing, stopping, return_exceptions=True)

    def _supervised(self) -> Sequence[SupervisedChild]:
        """Return the children that are restarted when they end, beside the runner."""
        return self._gateways

    async def _keep_runner(self) -> None:
        """Restart the runner whenever it ends, unless its token was revoked: the gateway has other runners (L-3)."""
        await keep_alive(self._runner, final=ExitStatus.NOT_AUTHORISED)
        say("the runner's token was revoked: it stays ended, and the gateway continues without it. To have a runner "
            f"here again, end this, remove {self._state / RUNNER_TOKEN_FILE} and start it.", "red", "revoked:")
        await asyncio.Event().wait()

    async def _start(self) -> None:
        began = time.monotonic()
        remark = asyncio.get_running_loop().call_later(PROGRESS_S, say, "starting …", "dim")
        try:
            await self._start_gateways()
            await self._runner.start()
            node = await self._online()
            for child in self._aside:
                await child.start()
        finally:
            remark.cancel()
        agents = ", ".join(str(agent.get("agent_id")) for agent in node.agents if not agent.get("unavailable"))
        self._say_gateways()
        say(f"runner   {node.node_id} (process {self._runner.pid}) · agents: {agents or 'none can start'}")
        for child in self._aside:
            say(f"{child.name:<8} (process {child.pid})")
        for sentence in boxes(node.agents):
            say(f"box      {sentence}")
        for sentence in unwalled(node.agents):
            say(f"walls    {sentence}", "bold", "walls")
        say(f"roots    {', '.join(node.roots)}")
        say(f"state    {self._state} · logs in {self._state / LOGS}")
        await self._say_console()
        after = f"ready after {time.monotonic() - began:.1f} s."
        say(f"{after} In another terminal: {first_verb(node.agents, self._state)}", "green", "ready")
        say("Ctrl-C ends all of it.", "dim")

    async def _say_console(self) -> None:
        """Print a link that logs in, and for a phone a QR code; not into a log, which others may read meanwhile."""
        gateway = OwnGateway(self._url, self._state)
        try:
            link = await gateway.console_link()
        except Trouble as trouble:
            say(f"console  no link could be made: {trouble.sentence}")
            return
        if link is None:
            return
        if not is_terminal(sys.stderr):
            say(f"console  {link.partition('#')[0]} · log in with: interlock console")
            return
        say(f"console  {link} (good once, for 5 minutes; another: interlock console)")
        if self._public is not None:
            phone = await gateway.console_link(self._public)
            say(f"phone    {phone}")
            write(sys.stderr, qr_code(str(phone), sys.stderr.encoding), safe=True)

    async def _start_gateways(self) -> None:
        """Start the processes that provide the runner's URL."""
        await self._gateways[0].start()
        self._url = await self._announced(self._gateways[0], self._state)
        # A restarted gateway must have the address of the first one.
        self._port = int(self._url.rpartition(":")[2])

    def _say_gateways(self) -> None:
        say(f"gateway  {self._url} (process {self._gateways[0].pid})")

    async def _stop_gateways(self) -> None:
        await self._gateways[0].stop()


    async def _announced(self, gateway: Child, state: Path) -> str:
        """Wait until a gateway announces its address; returns its URL."""
        async with _ReadyTimeout(gateway):
            while True:
                running = gateway_file(state)
                if running is not None and running.pid == gateway.pid:
                    return running.url
                await self._still(gateway)

    async def _online(self) -> Node:
        """Wait until the gateway counts the runner as online."""
        gateway = OwnGateway(self._url, self._state)
        async with _ReadyTimeout(self._runner):
            while True:
                for node in await gateway.nodes():
                    if node.node_id == LOCAL_RUNNER and node.status != "offline":
                        return node
                await self._still(self._runner)
                await self._still(self._gateways[0])

    async def _still(self, child: Child) -> None:
        if not child.is_running:
            if child is self._runner and await child.wait() == ExitStatus.NOT_AUTHORISED:
                raise Trouble("Unauthorized", f"The runner of {self._state} was revoked.",
                              f"To pair it again, remove {self._state / RUNNER_TOKEN_FILE} and start again.")
            raise _not_started(child, f"it {ending(await child.wait())}")
        await asyncio.sleep(POLL_S)

    async def _stop(self) -> None:
        for child in self._aside:
            await child.stop()
        await self._runner.stop()
        await self._stop_gateways()
        if self._signal is not None:
            say("ended", "dim")


def _not_started(child: Child, why: str) -> Trouble:
    return Trouble("StartFailed", f"The {child.name} did not start, {why}: {child.last_words()}", f"See {child.log}")


class _ReadyTimeout:
    """Bounds the wait for a child to READY_TIMEOUT_S, and raises one sentence instead of the timeout."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._timeout = asyncio.timeout(READY_TIMEOUT_S)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, *what: Any) -> None:
        try:
            await self._timeout.__aexit__(*what)
        except TimeoutError:
            raise _not_started(self._child, f"it was not ready within {READY_TIMEOUT_S} s") from None


async def first_failure(tasks: list[asyncio.Task[None]]) -> None:
    """Wait until one of the tasks has ended. Raises its exception."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def _show(log: Path) -> None:
    """Copy additions to a log to standard error: formatted on a terminal, unchanged if a program reads it."""
    from interlock.log import as_text

    written = as_text if sys.stderr.isatty() else str
    with suppress(FileNotFoundError), log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        while True:
            while line := file.readline():
                write(sys.stderr, printable(written(line.decode("utf-8", "replace"))), safe=True)
            await asyncio.sleep(POLL_S * 4)

