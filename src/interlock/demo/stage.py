"""The environment of the demonstration: a temporary directory with a gateway, a runner and the link between them."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sqlite3
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from interlock.cli.config.place import RUNNER_TOKEN_FILE, Where, gateway_file, write_private
from interlock.cli.display.terminal import result, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.verb_error import Trouble, usage
from interlock.demo import audit, files
from interlock.demo.agent import Chosen, choose, write_config
from interlock.demo.child_processes import ChildProcess, NotStarted
from interlock.demo.course import Course, CutPoint, Noticed
from interlock.demo.figures import DemoFigures, check_audit
from interlock.demo.outbox_file import LOOK_S
from interlock.demo.proxy import Proxy
from interlock.demo.sabotage import SABOTAGES, make_tap
from interlock.ports.ledger import LedgerError
from interlock.protocol.identifiers import uuid4

LIMIT_S = 45.0
"""Limit of the whole demonstration, three times the time that it normally takes."""
AGENT_LIMIT_S = 300.0
"""The same limit with a real agent, whose model is slower."""
OURS = ("INTERLOCK_STATE", "INTERLOCK_URL", "INTERLOCK_KEY")
"""Variables that would select the user's own gateway."""


def run(agent: str | None, as_json: bool, sabotage: str | None, *, prompt: str | None = None) -> int:
    """Run the demonstration, print the result, and return the exit status. `prompt` replaces a real agent's prompt."""
    if sabotage is not None and sabotage not in SABOTAGES:
        trouble = usage(f"There is no sabotage {sabotage!r}.", f"Choose one of: {', '.join(SABOTAGES)}")
        say(trouble.line(), "red", trouble.label)
        return ExitStatus.USAGE
    try:
        chosen = choose(agent)
    except Trouble as trouble:
        say(trouble.line(), "red", trouble.label)
        return trouble.status
    if prompt is not None:
        chosen = chosen._replace(prompt=prompt)
    figures = DemoFigures()
    with _own_environment():
        try:
            asyncio.run(_interruptible(_Stage(chosen, sabotage, figures, quiet=as_json)))
        except (KeyboardInterrupt, asyncio.CancelledError):
            say("interrupted; everything that was started has been ended", "bold", "interrupted;")
            return ExitStatus.INTERRUPTED
    if as_json:
        result(figures.document().decode())
    for sentence in figures.noticed:
        say(f"noticed: {sentence}", "red", "noticed:")
    return ExitStatus.FAILED if figures.noticed else ExitStatus.DONE


@contextmanager
def _own_environment() -> Generator[None]:
    kept = {name: os.environ.pop(name) for name in OURS if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


async def _interruptible(stage: _Stage) -> None:
    """Make SIGTERM and SIGHUP end the demonstration as Ctrl-C does: in order, with everything cleaned up."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    await stage.play()


class _Stage:
    """One demonstration. Failed checks are added to `figures.noticed`."""

    def __init__(self, chosen: Chosen, sabotage: str | None, figures: DemoFigures, *, quiet: bool) -> None:
        self._chosen = chosen
        self._sabotage = sabotage
        self._figures = figures
        self._quiet = quiet
        self._started = time.monotonic()
        self._last = "nothing."
        self._processes: list[ChildProcess] = []
        self._proxy: Proxy | None = None

    async def play(self) -> None:
        """Set up, run, check, clean up; nothing is left behind in any case."""
        limit_s = LIMIT_S if self._chosen.spec is None else AGENT_LIMIT_S
        with tempfile.TemporaryDirectory(prefix="interlock-demo-", ignore_cleanup_errors=True) as name:
            try:
                async with asyncio.timeout(limit_s):
                    await self._play(Path(name))
            except TimeoutError:
                self._fail(f"It was not finished after {limit_s:.0f} s. The last event was: {self._last}")
            except (Noticed, NotStarted, LedgerError) as error:
                self._fail(str(error))
            except Trouble as trouble:
                self._fail(trouble.sentence)
            except (httpx2.HTTPError, sqlite3.Error, OSError) as error:
                self._fail(f"{type(error).__name__}: {error}")
            finally:
                # A second interruption must not leave processes behind.
                await asyncio.shield(asyncio.ensure_future(self._clean_up()))
        if not self._figures.noticed:
            verdict = "Every check passed" if self._sabotage is None else "The sabotage was not noticed"
            self._report(f"{verdict}. Everything is cleaned up, after {time.monotonic() - self._started:.1f} s.")

    async def _play(self, base: Path) -> None:
        state, workspace, export = base / "state", base / "work", base / "audit.ndjson"
        url = await self._set_up(base, state, workspace)
        async with GatewayLink(Where(state=state, url=url)) as link:
            course = Course(link, self._chosen, base, self._figures, self._report)
            assert self._proxy is not None
            await course.play(self._proxy, export)
        for process in reversed(self._processes):
            status = await process.stop()
            if status != 0:
                self._figures.noticed.append(f"The {process.name} ended with status {status}.")
        if self._sabotage == "flip-audit":
            audit.flip(state, export)
        checked = await asyncio.to_thread(audit.check, state, export)
        check_audit(self._figures, checked)
        if self._figures.audit_ok:
            self._report(f"The audit log verifies: {self._figures.audit_records} records, in an exported file and in "
                       "the database, each chained to the one before, the last one signed.")

    async def _set_up(self, base: Path, state: Path, workspace: Path) -> str:
        await asyncio.to_thread(self._lay_out, base, state, workspace)
        self._report(f"{base} has {len(files.NAMES)} files with {files.LINES} lines each.")
        if self._sabotage is not None:
            self._report(f"The sabotage is {self._sabotage}: {SABOTAGES[self._sabotage]}. It must be noticed.")
        gateway = await self._start("gateway", ["--state", str(state)], base)
        url = await gateway.ready(_announced(state))
        cut = CutPoint(self._chosen)
        self._proxy = Proxy(urlsplit(url).port or 0, make_tap(self._sabotage, _new_id), cut.is_here)
        port = await self._proxy.start()
        runner = await self._start("runner", ["--state", str(state), "--url", f"http://127.0.0.1:{port}", "--root",
                                              str(workspace)], base)
        await runner.ready(self._proxy.until_attached(1))
        self._report("A gateway and a runner are up: two processes, joined by a WebSocket through a proxy of our own.")
        return url

    def _lay_out(self, base: Path, state: Path, workspace: Path) -> None:
        """Create the directories and files. The token pairs the runner, as `interlock up` does (G-3)."""
        state.mkdir(mode=0o700)
        (base / "marks").mkdir()
        files.write(workspace)
        write_private(state / RUNNER_TOKEN_FILE, b"ilr_" + secrets.token_urlsafe(32).encode())
        write_config(self._chosen, state)

    async def _start(self, name: str, arguments: list[str], base: Path) -> ChildProcess:
        process = await ChildProcess.start(name, [name, *arguments], base / f"{name}.log", dict(os.environ))
        self._processes.append(process)
        return process

    async def _clean_up(self) -> None:
        if self._proxy is not None:
            await self._proxy.close()
        for process in reversed(self._processes):
            await process.stop()
        if self._figures.noticed and not self._sabotage:
            for process in self._processes:
                if words := process.log_tail():
                    say(f"the end of the {process.name}'s log:", "dim")
                    for line in words.splitlines():
                        say(line, "dim")

    def _fail(self, sentence: str) -> None:
        self._figures.noticed.append(sentence)

    def _report(self, sentence: str) -> None:
        self._last = sentence
        if not self._quiet:
            result(f"{time.monotonic() - self._started:5.1f} s  {sentence}")


async def _announced(state: Path) -> str:
    """Wait until a gateway has written its address into the state directory."""
    while True:
        announced = gateway_file(state)
        if announced is not None:
            return announced.url
        await asyncio.sleep(LOOK_S)


def _new_id() -> str:
    return uuid4(secrets.token_bytes(16))


