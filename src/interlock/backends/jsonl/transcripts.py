"""Transcripts on disk: `<state>/agents/<agentId>/sessions/<sessionId>.jsonl`, written on one thread (X-3)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from interlock.backends.jsonl.files import TranscriptFiles
from interlock.ports.clock import Clock
from interlock.ports.transcripts import TranscriptHeader, Transcripts
from interlock.protocol.records import TranscriptLine
from interlock.session.entries import check_line

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
        known = await self._on_thread(lambda: self._files.look(self._files.path(session_id, agent_id)))
        return known.leaf if known is not None else None

    async def ids(self, session_id: str, agent_id: str) -> set[str]:
        def copy() -> set[str]:
            known = self._files.look(self._files.path(session_id, agent_id))
            return set(known.ids) if known is not None else set()

        return await self._on_thread(copy)

    async def read(self, session_id: str, agent_id: str) -> list[bytes]:
        return await self._on_thread(lambda: self._files.lines(self._files.path(session_id, agent_id)))

    async def close(self) -> None:
        """Finish what was handed over, then end the thread."""
        await asyncio.to_thread(self._thread.shutdown)

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
