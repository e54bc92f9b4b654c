"""Named places beside every commit, acknowledgement, release and publication, where a process kills itself (R4).

`proof.faults.failpoints POINT,before|after,N gateway|runner …` is a component of a stack that dies before or after the
N-th call of a point. The product has no code for it: its classes are wrapped in this process only.
"""

from __future__ import annotations

import functools
import inspect
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from interlock.agents.dps.agent import DpsAgent
from interlock.backends.jsonl.transcripts import JsonlTranscripts
from interlock.backends.objects.directory import DirectoryObjects
from interlock.backends.outbox.sqlite import SqliteOutbox
from interlock.backends.sqlite.ledger import SqliteLedger
from interlock.engine.viewers.viewers import Viewers
from interlock.gateway.link.outflow import RunnerOutflow
from interlock.ports.ledger import (
    Append,
    DropControls,
    DropTranscript,
    PutApproval,
    PutControl,
    PutIdempotency,
)
from interlock.ports.outbox import StoreControl, TransientText
from interlock.protocol.envelope import Frame
from interlock.runner.link.send_queue import Sending
from proof.processes import component
from proof.processes.stack import Component

Moment = Literal["before", "after"]
MOMENTS: tuple[Moment, ...] = ("before", "after")


class Point(NamedTuple):
    """A call of a method for which `meant` returns True; at most the `calls`-th call of a process
    is chosen."""

    owner: type
    method: str
    meant: Callable[..., bool] = lambda *_: True
    calls: int = 6


def _writes(*kinds: type) -> Callable[..., bool]:
    """Whether a commit holds a write of each of these kinds."""
    def meant(_ledger: Any, batch: Any) -> bool:
        return all(any(isinstance(write, kind) for write in batch.writes) for kind in kinds)

    return meant


def _frames(_ledger: Any, batch: Any) -> bool:
    return any(isinstance(write, Append) and write.kind == "C" for write in batch.writes)


def _stores(kind: type) -> Callable[..., bool]:
    def meant(_outbox: Any, writes: Any, **_: Any) -> bool:
        return any(isinstance(write, kind) for write in writes)

    return meant


POINTS: dict[Component, dict[str, Point]] = {
    "gateway": {
        "commit of a command": Point(SqliteLedger, "commit", _writes(PutIdempotency)),
        "commit of a vote": Point(SqliteLedger, "commit", _writes(PutIdempotency, PutApproval)),
        "commit of a release": Point(SqliteLedger, "commit", _writes(PutControl)),
        "commit of frames": Point(SqliteLedger, "commit", _frames),
        "commit of a confirmation": Point(SqliteLedger, "commit", _writes(DropControls)),
        "commit of written entries": Point(SqliteLedger, "commit", _writes(DropTranscript)),
        "lease of a lane": Point(SqliteLedger, "take"),
        "publication": Point(Viewers, "tell"),
        "release to the runner": Point(RunnerOutflow, "send"),
        "acknowledgement of frames": Point(RunnerOutflow, "ack"),
        "writing of entries": Point(JsonlTranscripts, "append"),
        "keeping of an object": Point(DirectoryObjects, "put"),
    },
    "runner": {
        "storing of a release": Point(SqliteOutbox, "write", _stores(StoreControl)),
        "storing of frames": Point(SqliteOutbox, "write", _stores(Frame)),
        "storing of pieces": Point(SqliteOutbox, "write", _stores(TransientText)),
        "trimming": Point(SqliteOutbox, "ack"),
        "joining of a gateway": Point(SqliteOutbox, "join", calls=1),
        "acknowledgement of a release": Point(Sending, "urge"),
        "publication of frames": Point(Sending, "offer"),
        "release to the agent": Point(DpsAgent, "prompt"),
    },
}


def arm(point: Point, moment: Moment, call: int) -> None:
    """Have this process die at the `call`-th call of a point."""
    method = getattr(point.owner, point.method)
    seen = 0

    def due(*args: Any, **kwargs: Any) -> bool:
        nonlocal seen
        if point.meant(*args, **kwargs):
            seen += 1
            return seen == call
        return False

    if inspect.iscoroutinefunction(method):
        @functools.wraps(method)
        async def failing_later(*args: Any, **kwargs: Any) -> Any:
            dies = due(*args, **kwargs)
            if dies and moment == "before":
                _die()
            answer = await method(*args, **kwargs)
            if dies:
                _die()
            return answer

        setattr(point.owner, point.method, failing_later)
    else:
        @functools.wraps(method)
        def failing(*args: Any, **kwargs: Any) -> Any:
            dies = due(*args, **kwargs)
            if dies and moment == "before":
                _die()
            answer = method(*args, **kwargs)
            if dies:
                _die()
            return answer

        setattr(point.owner, point.method, failing)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Arm what the first argument names, and be the component that the others name."""
    name, moment, call = sys.argv.pop(1).split(",")
    point = POINTS["gateway" if sys.argv[1] == "gateway" else "runner"][name]
    arm(point, "before" if moment == "before" else "after", int(call))
    component.main()


if __name__ == "__main__":
    main()
