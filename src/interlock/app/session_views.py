"""`sessions.json` of each agent: written from the rows, read back after a person has edited it (N-1).

It is written at most once a second and for at most 2 % of the time, on a thread, from pages of rows: an update of a
session only marks its agent, and costs the same whether there are a hundred sessions or a hundred thousand.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError as NeverRead
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import structlog

from interlock.backends.jsonl.view_files import NAME, FileVersion, ViewFile, ViewUnreadable
from interlock.engine.engine import Engine
from interlock.engine.sessions.view_rows import view_row
from interlock.gateway.access.credentials import OWNER_TENANT
from interlock.ports.clock import Clock
from interlock.ports.ledger import LedgerError
from interlock.protocol.clock import iso
from interlock.protocol.identifiers import AGENT_ID
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal
from interlock.protocol.resources import Actor
from interlock.session.store.store_view import BadView, Differences, differences, read_view, written
from interlock.session.store.view_marks import marked, marked_differences, revision_of

TICK_S = 1.0
"""Interval at which files are checked, and minimum interval of writes."""
REST = 49
"""Seconds of rest for each second of writing: at most 2 % of the time is spent on it."""
EASE = 9
"""After each page the thread sleeps for this multiple of the page's duration: acknowledgements must not wait for the
view."""
PAGE_ROWS = 100
LAST_S = 0.5
"""A view that takes longer to write is not written at the end, but at the next start."""
LOGGED = 20
"""Maximum sentences of one text in the log; the number of the others follows."""
EDITOR = Principal(tenant_id=OWNER_TENANT, actor=Actor(type="user", id=NAME), role="owner", key_id="")
"""A person with write access to the state directory owns the gateway; the audit log records that the change came by the
file."""

log = structlog.get_logger("interlock.sessions")


class _Agent(msgspec.Struct):
    """The known state of one agent's view."""

    file: ViewFile
    known: FileVersion | None = None
    """The version of the file whose text was applied, or was written here."""
    pending: FileVersion | None = None
    """Another version that was seen once: an editor may still be writing."""
    is_new: bool = True


class _Taken(NamedTuple):
    text: bytes
    found: Differences | None
    """None if the text is what was written."""


class SessionViews:
    """One task and, while it writes, one thread. `watch` is called with every decision of every lane."""

    def __init__(self, state: Path, engine: Engine, clock: Clock,
                 stopwatch: Callable[[], float] = time.monotonic) -> None:
        """Create the views; `stopwatch` returns seconds: it measures the duration of writes."""
        self._root = state.absolute() / "agents"
        self._engine = engine
        self._clock = clock
        self._stopwatch = stopwatch
        self._agents: dict[str, _Agent] = {}
        self._dirty: set[str] = set()
        self._stopping = asyncio.Event()
        self._ending = threading.Event()
        self._rest_until_ms = 0.0
        self._revision = 0
        self._spent_s = 0.0
        self._trouble = ""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start with what an earlier gateway left, and what was edited since."""
        self._task = asyncio.create_task(self._run(), name="session views")

    async def stop(self) -> None:
        """Write the pending views, unless that takes long, and stop."""
        self._stopping.set()
        self._ending.set()
        if self._task is not None:
            await self._task
            self._task = None

    async def look(self) -> None:
        """Read back edited views, and write due ones; called each second."""
        for agent_id in [*self._agents]:
            await self._look(agent_id, self._agents[agent_id])
        self._dirty |= {agent_id for tenant_id, agent_id in self._engine.lanes.take_changed()
                        if tenant_id == OWNER_TENANT}
        if self._dirty and self._clock.monotonic_ms() >= self._rest_until_ms:
            await self._write()

    async def find(self) -> None:
        """Find the existing views: an edit from while no gateway ran is applied by the next look."""
        for agent_id in await asyncio.to_thread(self._found):
            self._dirty.add(agent_id)
            self._agents[agent_id] = self._agent(agent_id)

    async def _run(self) -> None:
        await self.find()
        while not self._stopping.is_set():
            await self._guarded()
            try:
                await asyncio.wait_for(self._stopping.wait(), TICK_S)
            except TimeoutError:
                continue
        if self._spent_s <= LAST_S:
            self._rest_until_ms = 0.0
            await self._guarded()

    async def _guarded(self) -> None:
        """Run a step of the view, which is a convenience: a failure is logged once, retried, and stops nothing else."""
        try:
            await self.look()
            self._trouble = ""
        except (OSError, LedgerError, Problem, NeverRead) as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                log.warning("sessions.json could not be kept; it is tried again", error=str(error))
            self._rest_until_ms = self._clock.monotonic_ms() + TICK_S * 1000

    def _found(self) -> list[str]:
        if not self._root.is_dir():
            return []
        return sorted(path.name for path in self._root.iterdir()
                      if AGENT_ID.fullmatch(path.name) and (path / "sessions").is_dir())

    def _agent(self, agent_id: str) -> _Agent:
        return _Agent(ViewFile(self._directory(agent_id)))

    def _directory(self, agent_id: str) -> Path:
        return self._root / agent_id / "sessions"

    # --- reading back ---
    async def _look(self, agent_id: str, agent: _Agent) -> None:
        seen = await asyncio.to_thread(agent.file.look)
        if seen == agent.known and not agent.is_new:
            agent.pending = None
        elif seen is None:
            agent.known, agent.is_new = None, False
            self._dirty.add(agent_id)  # Deleting it loses nothing.
        elif agent.is_new or seen == agent.pending:
            await self._take(agent_id, agent, seen)
            agent.is_new = False
        else:
            agent.pending = seen

    async def _take(self, agent_id: str, agent: _Agent, seen: FileVersion) -> None:
        try:
            taken = await asyncio.to_thread(_compared, agent.file)
        except FileNotFoundError:
            return  # It was deleted while it was read: the next look finds that.
        except (BadView, ViewUnreadable) as bad:
            aside = await asyncio.to_thread(agent.file.set_aside, iso(self._clock.now_ms()).replace(":", "-"))
            agent.known = None
            self._dirty.add(agent_id)
            log.warning(f"{NAME} cannot be read: {bad}. It changed nothing, and is kept beside it.",
                        agent_id=agent_id, kept=str(aside))
            return
        if taken.found is not None:
            if agent.file.look() != seen:
                return  # It is still being written.
            await self._apply(agent_id, taken.found)
            await asyncio.to_thread(agent.file.take, taken.text)
            self._dirty.add(agent_id)
        agent.known = seen

    async def _apply(self, agent_id: str, found: Differences) -> None:
        refused = [*found.refused]
        taken = 0
        for edit in found.edits:
            try:
                await self._engine.sessions.take_edit(EDITOR, edit)
                taken += 1
            except Problem as problem:
                if problem.code == "Unavailable":
                    raise  # Nothing is wrong with the text: it is applied at the next look.
                refused.append(f"{edit.key}: {problem.detail}")
        if taken:
            log.info(f"{NAME} was edited", agent_id=agent_id, entries=taken)
        if refused:
            more = f" ({len(refused) - LOGGED} more)" if len(refused) > LOGGED else ""
            log.warning(f"not everything in {NAME} was taken{more}", agent_id=agent_id, sentences=refused[:LOGGED])

    # --- writing ---
    async def _write(self) -> None:
        waiting, self._dirty = self._dirty, set()
        spent_s = 0.0
        try:
            while waiting:
                agent_id = waiting.pop()
                agent = self._agents.setdefault(agent_id, self._agent(agent_id))
                waiting.add(agent_id)
                if agent.is_new or agent.file.look() != agent.known:
                    await self._look(agent_id, agent)  # An edited text is read before it is overwritten.
                if not agent.is_new and agent.pending is None:
                    spent_s += await self._write_one(agent_id, agent)
                else:
                    self._dirty.add(agent_id)
                waiting.discard(agent_id)
        finally:
            self._dirty |= waiting
            self._spent_s = spent_s
            self._rest_until_ms = self._clock.monotonic_ms() + max(TICK_S, REST * spent_s) * 1000

    async def _write_one(self, agent_id: str, agent: _Agent) -> float:
        self._revision = max(self._engine.lanes.clock.now_ms(), self._revision + 1)
        pages = _Pages(self._engine, agent_id, self._directory(agent_id), self._revision,
                       asyncio.get_running_loop(), self._ending, self._stopwatch)
        began = self._stopwatch()
        seen = await asyncio.to_thread(agent.file.write, written(pages), agent.known)
        if seen is None:
            self._dirty.add(agent_id)
        else:
            agent.known = seen
        return self._stopwatch() - began - pages.waited_s


class _Pages:
    """The entries of one agent, page by page, for the writing thread."""

    def __init__(self, engine: Engine, agent_id: str, directory: Path, revision: int, loop: asyncio.AbstractEventLoop,
                 ending: threading.Event, stopwatch: Callable[[], float]) -> None:
        self._engine = engine
        self._agent_id = agent_id
        self._directory = str(directory)
        self._revision = revision
        self._loop = loop
        self._ending = ending
        self._stopwatch = stopwatch
        self.waited_s = 0.0

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        after = ""
        while True:
            began = self._stopwatch()
            reading = asyncio.run_coroutine_threadsafe(
                self._engine.ledger.current_sessions(OWNER_TENANT, self._agent_id, after, PAGE_ROWS), self._loop)
            records = reading.result()
            read = self._stopwatch()
            for record in records:
                row = view_row(record, self._directory)
                if row is not None:
                    yield row[0], marked(*row, self._revision)
            if len(records) < PAGE_ROWS:
                return
            after = records[-1].session_key
            done = self._stopwatch()
            self._ending.wait(EASE * (done - read))
            self.waited_s += (read - began) + (self._stopwatch() - done)


def _compared(file: ViewFile) -> _Taken:
    """Compare the file with what was written. Raises BadView, ViewUnreadable, OSError."""
    text = file.read()
    last = file.last()
    if text in last:
        return _Taken(text, None)
    after = read_view(text)
    before = [read_view(one) for one in last]
    if revision_of(after) is not None or (before and not after):
        return _Taken(text, marked_differences(before, after))
    unmarked = [one for one in before if revision_of(one) is None]
    if not unmarked:
        raise BadView("it does not say what it was written from, so its changes cannot be found; edit the fields of "
                      "the file that is there now, and leave `interlock` in each entry")
    # An older gateway wrote no marks. If a crash left two texts, the nearer one is what the person had loaded.
    return _Taken(text, min((differences(one, after) for one in unmarked),
                            key=lambda found: len(found.edits) + len(found.refused)))
