"""The queue of a lane, in order, bounded by number and bytes: jobs, and runs of frames that are decided together.

Also the runner's link as a lane sees it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from interlock.engine.bridge.inputs import LaneInput
from interlock.engine.bridge.inputs.runner import FrameEntry, FrameRun, FramesReceived
from interlock.ports.ledger import LedgerWrite
from interlock.ports.trips import Trips
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import ACK_FRAMES, MIB

GROUP_JOBS = ACK_FRAMES
"""Jobs or frames after which a decision accepts no more jobs: no acknowledgement waits for more frames to arrive
(D-1)."""
RUN_FRAMES = 256
"""Maximum number of frames in one run. What arrived in one message is decided, committed and acknowledged together
(decision 12)."""
GROUP_BYTES = 4 * MIB
"""Bytes of frames after which a decision accepts no more: this bounds a transaction's size."""
INBOX_JOBS = 1_024
INBOX_BYTES = 8 * MIB
"""Maximum number of jobs or frames, and bytes of frames, that wait in a lane before the link that feeds it is slowed
down."""


class LaneRunnerLink(Protocol):
    """The sender of a lane to its runner: it never blocks; a link that cannot keep up closes itself."""

    def send(self, raw: bytes) -> None: ...

    def ack(self, session_id: str, seq: int) -> None: ...

    def forget(self, session_id: str) -> None:
        """Record that the session's lane is evicted: its next frame is compared with the lane that is read."""
        ...

    def fail(self, sentence: str) -> None:
        """Close after a failed write, so that the runner resends."""
        ...


Keep = Callable[[Any], Iterable[LedgerWrite]]
"""Returns what to store with an answer, such as the row that answers a repeated request."""


class Job(NamedTuple):
    """An input that waits for its lane, and the handling of its answer."""

    input: LaneInput
    reply: asyncio.Future[Any] | None = None
    keep: Keep | None = None
    """Adds to the answer's transaction; not called if the answer is None or a Problem."""
    link: LaneRunnerLink | None = None
    """Set if the job attaches a link: once it is durable, all unconfirmed control frames are sent on it (D-7)."""
    spent: Trips | None = None
    """Counts the round trips of the commit for the caller that waits for `reply`."""
    size_bytes: int = 0
    """Size of the frame that the job holds: it bounds memory if frames are large."""


class Run:
    """Consecutive frames of one session from one link. It grows until its lane takes it."""

    reply = None
    link = None
    keep = None

    def __init__(self, source: object, after: int) -> None:
        """Create a run; `source` is the link that delivered the frames, `after` the last number that it delivered
        before them."""
        self.source = source
        """The link of these frames: only its next frame may join."""
        self.frames: list[FrameEntry] = []
        self.size_bytes = 0
        self._after = after

    @property
    def input(self) -> LaneInput:
        """Return the frames so far as an input."""
        return FramesReceived(self._after, FrameRun(self.frames))


class Inbox:
    """The jobs of one lane, and the feeders that wait for room in it."""

    def __init__(self) -> None:
        self._jobs: deque[Job | Run] = deque()
        self._count = 0
        self._bytes = 0
        self._sleeper: asyncio.Future[None] | None = None
        """Done when a job arrives: only the lane waits, and only while the queue is empty."""
        self.full = False
        """Whether a feeder of the lane should wait for `room`."""
        self._room = asyncio.Event()
        self._room.set()

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __len__(self) -> int:
        return self._count

    def push(self, job: Job | Run) -> None:
        """Add a job; it is decided in the order of the calls."""
        self._jobs.append(job)
        sleeper, self._sleeper = self._sleeper, None
        if sleeper is not None and not sleeper.done():
            sleeper.set_result(None)
        if not isinstance(job, Run):  # A run counts the frames that join it.
            self._grew(job.size_bytes)

    def joined(self, source: object, frame: Frame, raw: bytes) -> bool:
        """Add a frame to the last run, if that is of the same source and has room; returns whether it was."""
        last = self._jobs[-1] if self._jobs else None
        if not isinstance(last, Run) or last.source is not source or len(last.frames) >= RUN_FRAMES:
            return False
        last.frames.append((frame, raw))
        last.size_bytes += len(raw)
        self._grew(len(raw))
        return True

    def _grew(self, size_bytes: int) -> None:
        self._count += 1
        self._bytes += size_bytes
        if self._count >= INBOX_JOBS or self._bytes >= INBOX_BYTES:
            self.full = True
            self._room.clear()

    async def room(self) -> None:
        """Wait until the lane can accept more."""
        await self._room.wait()

    async def wait(self) -> None:
        """Wait until there is a job."""
        if not self._jobs:
            self._sleeper = asyncio.get_running_loop().create_future()
            await self._sleeper

    def take(self) -> list[Job | Run]:
        """Return what is decided together: all that waits, within the limits."""
        group: list[Job | Run] = []
        count = size = 0
        while self._jobs and count < GROUP_JOBS and size < GROUP_BYTES:
            job = self._jobs.popleft()
            count += len(job.frames) if isinstance(job, Run) else 1
            size += job.size_bytes
            group.append(job)
        self._count -= count
        self._bytes -= size
        if self.full and self._count < INBOX_JOBS // 2 and self._bytes < INBOX_BYTES // 2:
            self.full = False
            self._room.set()
        return group

    def take_all(self) -> list[Job | Run]:
        """Return everything, since none of it will be decided, and release the waiting feeders."""
        left = list(self._jobs)
        self._jobs.clear()
        self._count = self._bytes = 0
        self.full = False
        self._room.set()
        return left
