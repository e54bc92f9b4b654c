"""Transcripts on disk: `<state>/agents/<agentId>/sessions/<sessionId>.jsonl`, written on one thread (X-3)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from interlock.backends.jsonl.files import Known, TranscriptFiles
from interlock.backends.jsonl.indexed import Indexed
from interlock.ports.clock import Clock
from interlock.ports.transcripts import Rewrite, TranscriptHeader, TranscriptPage, Transcripts
from interlock.protocol.records import TranscriptLine
from interlock.session.context import Context
from interlock.session.entries import check_line
from interlock.session.tree import Tree, read_tree

T = TypeVar("T")

GROUP_JOBS = 256
"""Appends that share their syncs at the most: one to each file that they concern."""


class _Job(NamedTuple):
    header: TranscriptHeader
    lines: Sequence[TranscriptLine]
    answer: Future[None]


class JsonlTranscripts(Transcripts):
    """See `interlock.ports.transcripts.Transcripts` for what each call guarantees."""

    def __init__(self, root: Path, clock: Clock) -> None:
        """Keep transcripts below `root`, the state directory, whose lock must be held (N-2)."""
        self._files = TranscriptFiles(root, clock)
        self._jobs: deque[_Job] = deque()
        self._thread = ThreadPoolExecutor(1, "transcripts")

    async def append(self, header: TranscriptHeader, lines: Sequence[TranscriptLine]) -> None:
        for line in lines:
            check_line(line)
        job = _Job(header, lines, Future())
        self._jobs.append(job)
        self._thread.submit(self._serve)
        await asyncio.wrap_future(job.answer)

    async def leaf(self, session_id: str, agent_id: str) -> str | None:
        known = await self._on_thread(lambda: self._known(session_id, agent_id))
        return known.leaf if known is not None else None

    async def ids(self, session_id: str, agent_id: str) -> set[str]:
        def copy() -> set[str]:
            known = self._known(session_id, agent_id)
            return set(known.ids) if known is not None else set()

        return await self._on_thread(copy)

    async def read(self, session_id: str, agent_id: str) -> list[bytes]:
        return await self._on_thread(lambda: self._files.lines(self._files.path(session_id, agent_id)))

    async def tree(self, session_id: str, agent_id: str) -> Tree:
        return await self._on_thread(lambda: read_tree(self._files.lines(self._files.path(session_id, agent_id))))

    async def page(self, session_id: str, agent_id: str, after: int, limit: int) -> TranscriptPage:
        return await self._opened(session_id, agent_id, lambda file: TranscriptPage(file.page(after, limit),
                                                                                   file.entries))

    async def context(self, session_id: str, agent_id: str) -> Context:
        return await self._opened(session_id, agent_id, lambda file: file.context())

    async def publish(self, session_id: str, agent_id: str, lines: Sequence[bytes]) -> None:
        await self._on_thread(lambda: self._files.publish(self._files.path(session_id, agent_id), lines))

    async def rewrite(self, session_id: str, agent_id: str, change: Rewrite) -> str | None:
        return await self._on_thread(lambda: self._files.rewrite(self._files.path(session_id, agent_id), change))

    async def close(self) -> None:
        """Finish what was handed over, then end the thread."""
        await asyncio.to_thread(self._thread.shutdown)

    async def _opened(self, session_id: str, agent_id: str, call: Callable[[Indexed], T]) -> T:
        def look() -> tuple[T, Callable[[], None]]:
            with Indexed(self._files.path(session_id, agent_id)) as file:
                return call(file), file.keep_index

        found, keep_index = await self._on_thread(look)
        # Who asked has the answer by then; after the end of the store there is nobody to make it for.
        with suppress(RuntimeError):
            self._thread.submit(keep_index)
        return found

    def _known(self, session_id: str, agent_id: str) -> Known | None:
        path = self._files.path(session_id, agent_id)
        self._files.modernise(path)  # Who asks for ids is about to append.
        return self._files.look(path)

    async def _on_thread(self, call: Callable[[], T]) -> T:
        # The one thread orders reads among the appends, so that no reader sees half a line.
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _serve(self) -> None:
        """Take all appends that wait; those to one file are one write and one sync."""
        groups: dict[TranscriptHeader, list[_Job]] = {}
        for _ in range(min(len(self._jobs), GROUP_JOBS)):
            job = self._jobs.popleft()
            # From here on a caller that is cancelled leaves the work to be done all the same.
            if job.answer.set_running_or_notify_cancel():
                groups.setdefault(job.header, []).append(job)
        for header, jobs in groups.items():
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
