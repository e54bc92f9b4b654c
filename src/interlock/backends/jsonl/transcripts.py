"""Transcripts on disk: `<state>/agents/<agentId>/sessions/<sessionId>.jsonl`, written on one thread (X-3)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from interlock.backends.jsonl.files import FileState, TranscriptFiles, survey
from interlock.backends.jsonl.plain_files import Snapshot
from interlock.backends.jsonl.transcript_index import Indexed, ids_by_index, keep_of, renew_index
from interlock.ports.clock import Clock
from interlock.ports.transcripts import Rewrite, TranscriptHeader, TranscriptPage, TranscriptStore
from interlock.protocol.records import TranscriptLine
from interlock.session.context.context import ModelContext
from interlock.session.transcript.entries import check_line
from interlock.session.transcript.tree import Tree, read_tree

T = TypeVar("T")

READERS = 2
"""Threads that read files, so that a long one does not delay appends."""
REWRITE_TRIES = 8
"""Maximum reads of a transcript that grows while it is rewritten."""
RENEWED_AT_CLOSE = 64
"""Number of indexes that are updated at the end: those of the files that were appended to last."""
KEPT_LINES_BYTES = 256 * 1024 * 1024
"""The lines of a larger file are not kept in memory until its index is built."""
GROUP_JOBS = 256
"""Maximum appends that share their syncs: one per file."""


class _Job(NamedTuple):
    header: TranscriptHeader
    lines: Sequence[TranscriptLine]
    answer: Future[None]


class JsonlTranscripts(TranscriptStore):
    """See `interlock.ports.transcripts.Transcripts` for what each call guarantees."""

    def __init__(self, root: Path, clock: Clock) -> None:
        """Open the transcripts below `root`, the state directory, whose lock must be held (N-2)."""
        self._files = TranscriptFiles(root, clock)
        self._jobs: deque[_Job] = deque()
        self._thread = ThreadPoolExecutor(1, "transcripts")
        self._readers = ThreadPoolExecutor(READERS, "transcript readers")
        self._surveying: dict[str, list[_Job]] = {}
        """Session → appends that wait until its file was surveyed."""

    async def append(self, header: TranscriptHeader, lines: Sequence[TranscriptLine]) -> None:
        for line in lines:
            check_line(line)
        job = _Job(header, lines, Future())
        self._jobs.append(job)
        self._thread.submit(self._serve)
        await asyncio.wrap_future(job.answer)

    async def leaf(self, session_id: str, agent_id: str, tenant_id: str) -> str | None:
        known = await self._known(session_id, agent_id)
        return known.leaf if known is not None else None

    async def ids(self, session_id: str, agent_id: str, tenant_id: str) -> set[str]:
        known = await self._known(session_id, agent_id)
        return set(known.ids) if known is not None else set()

    async def read(self, session_id: str, agent_id: str, tenant_id: str) -> list[bytes]:
        return await self._read(session_id, agent_id, lambda file: [line for line in file.lines() if line], [])

    async def tree(self, session_id: str, agent_id: str, tenant_id: str) -> Tree:
        return await self._read(session_id, agent_id, lambda file: read_tree(file.lines()), read_tree(()))

    async def trunk(self, session_id: str, agent_id: str, tenant_id: str) -> Tree:
        return await self._opened(session_id, agent_id, lambda file: file.trunk())

    async def page(self, session_id: str, agent_id: str, tenant_id: str, after: int, limit: int) -> TranscriptPage:
        return await self._opened(session_id, agent_id, lambda file: TranscriptPage(file.page(after, limit),
                                                                                   file.entries))

    async def context(self, session_id: str, agent_id: str, tenant_id: str) -> ModelContext:
        return await self._opened(session_id, agent_id, lambda file: file.context())

    async def publish(self, session_id: str, agent_id: str, tenant_id: str, lines: Iterable[bytes]) -> None:
        path = await self._on_thread(lambda: self._files.path(session_id, agent_id))
        await self._on_readers(lambda: self._files.publish(path, lines))

    async def rewrite(self, session_id: str, agent_id: str, tenant_id: str, change: Rewrite) -> str | None:
        for _ in range(REWRITE_TRIES):
            file = await self._on_thread(lambda: self._files.settled(self._files.path(session_id, agent_id)))

            with file:
                made = await self._on_readers(partial(_changed, file, change))
                if made is None:
                    return None
                kept = await self._on_thread(partial(self._files.replace, file, made))
            if kept is not None:
                return kept
        raise OSError(f"the transcript of session {session_id} grows faster than it can be rewritten")

    async def close(self) -> None:
        """Finish what was submitted, then end the threads. The next process finds current indexes."""
        while waiting := await self._on_thread(self._unanswered):
            await asyncio.gather(*map(asyncio.wrap_future, waiting), return_exceptions=True)
        await asyncio.to_thread(self._readers.shutdown)
        await asyncio.to_thread(self._thread.shutdown)
        await asyncio.to_thread(self._renew_indexes)

    def _unanswered(self) -> list[Future[None]]:
        """Return the appends whose file is being surveyed: the readers must outlive them."""
        return [job.answer for jobs in self._surveying.values() for job in jobs]

    def _renew_indexes(self) -> None:
        for file in self._files.grown(RENEWED_AT_CLOSE):
            renew_index(file)

    async def _opened(self, session_id: str, agent_id: str, call: Callable[[Indexed], T]) -> T:
        path = self._files.path(session_id, agent_id)

        snapshot = await self._snapshot(session_id, agent_id)

        def look() -> tuple[T, Callable[[], None]]:
            with Indexed(path, file=snapshot) as file:
                return call(file), file.keep_index

        found, keep_index = await self._on_readers(look)
        # The caller has the answer by then; after the store has closed, no index is written.
        with suppress(RuntimeError):
            self._readers.submit(keep_index)
        return found

    async def _read(self, session_id: str, agent_id: str, call: Callable[[Snapshot], T], nothing: T) -> T:
        file = await self._snapshot(session_id, agent_id)
        if file is None:
            return nothing

        def read() -> T:
            with file:
                return call(file)

        return await self._on_readers(read)

    async def _snapshot(self, session_id: str, agent_id: str) -> Snapshot | None:
        """Return a file between the appends; None if it does not exist."""

        def take() -> Snapshot | None:
            with suppress(FileNotFoundError):
                return self._files.snapshot(self._files.path(session_id, agent_id))
            return None

        return await self._on_thread(take)

    async def _known(self, session_id: str, agent_id: str) -> FileState | None:
        path = self._files.path(session_id, agent_id)

        def prepare() -> Snapshot | None:
            self._files.modernise(path)  # A caller that reads ids is about to append.
            return self._files.unsurveyed(path)

        file = await self._on_thread(prepare)
        if file is not None:
            known, keep_index = await self._on_readers(partial(_surveyed, file))
            await self._on_thread(lambda: self._files.adopt(path, known))
            with suppress(RuntimeError):
                self._readers.submit(keep_index)
        return await self._on_thread(lambda: self._files.look(path))

    async def _on_thread(self, call: Callable[[], T]) -> T:
        # The one thread orders snapshots among the appends, so that no reader sees half a line.
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def _on_readers(self, call: Callable[[], T]) -> T:
        # Work that grows with a file's length runs outside the one thread, for which all sessions wait.
        return await asyncio.get_running_loop().run_in_executor(self._readers, call)

    def _serve(self) -> None:
        """Process all appends that wait; those to one file are one write and one sync. Those to a large file that is
        not cached wait until it was surveyed on another thread."""
        groups: dict[TranscriptHeader, list[_Job]] = {}
        for _ in range(min(len(self._jobs), GROUP_JOBS)):
            job = self._jobs.popleft()
            # From here on a cancelled caller does not stop the work.
            if job.answer.set_running_or_notify_cancel():
                groups.setdefault(job.header, []).append(job)
        for header, jobs in groups.items():
            waiting = self._surveying.get(header.session_id)
            if waiting is not None:
                waiting += jobs
            elif (file := self._unsurveyed(header)) is not None:
                self._surveying[header.session_id] = jobs
                self._readers.submit(self._survey, header.session_id, file)
            else:
                self._append(header, jobs)

    def _unsurveyed(self, header: TranscriptHeader) -> Snapshot | None:
        # The append reports what is wrong with the file.
        with suppress(OSError, ValueError):
            return self._files.unsurveyed(self._files.path(header.session_id, header.agent_id, header.topic))
        return None

    def _survey(self, session_id: str, file: Snapshot) -> None:
        known: FileState | None = None
        keep_index: Callable[[], None] | None = None
        with suppress(OSError):
            known, keep_index = _surveyed(file)
        self._thread.submit(self._resume, session_id, file.path, known)
        if keep_index is not None:
            keep_index()

    def _resume(self, session_id: str, path: Path, known: FileState | None) -> None:
        if known is not None:
            self._files.adopt(path, known)
        groups: dict[TranscriptHeader, list[_Job]] = {}
        for job in self._surveying.pop(session_id):
            groups.setdefault(job.header, []).append(job)
        for header, jobs in groups.items():
            self._append(header, jobs)

    def _append(self, header: TranscriptHeader, jobs: list[_Job]) -> None:
        failure: BaseException | None = None
        try:
            self._files.append(header, [line for job in jobs for line in job.lines])
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the callers' answer.
            failure = error
        for job in jobs:
            if failure is not None:
                job.answer.set_exception(failure)
            else:
                job.answer.set_result(None)
        for file in self._files.let_go():
            self._submit_or_call(partial(renew_index, file))

    def _submit_or_call(self, work: Callable[[], None]) -> None:
        try:
            self._readers.submit(work)
        except RuntimeError:  # The store is closing.
            work()


def _changed(file: Snapshot, change: Rewrite) -> Sequence[bytes] | None:
    return change(b"".join(file.pieces()))


def _surveyed(file: Snapshot) -> tuple[FileState, Callable[[], None]]:
    """Return what an append needs to know of a file, by its index if one is valid; and what builds one, called when no
    caller waits."""
    with file:
        ids = ids_by_index(file)
        if ids is not None:
            return FileState(file.stat.st_size, ids[-1], ids=set(ids), begun=True), _nothing
        if file.stat.st_size > KEPT_LINES_BYTES:
            return survey(file, file.each()), _nothing
        lines = file.lines()
        return survey(file, lines), keep_of(file, lines)


def _nothing() -> None:
    """Do nothing: there is an index already, or the file has none for now."""
