"""The parts of the path, each timed by itself in one process on the frames of the whole path's run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import MutableMapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

from interlock.app.place import SystemClock
from interlock.backends.sqlite.ledger import LEDGER_NAME, open_ledger
from interlock.command.policy.budget import Spending
from interlock.command.policy.policy import RuleSet
from interlock.engine.bridge.conditions import Conditions
from interlock.engine.bridge.effects import LaneEvent, Out
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.lane_state import LaneHome, LaneState, Limits
from interlock.engine.bridge.link.frames import take_frame
from interlock.engine.viewers.stream_items import durable
from interlock.engine.viewers.viewers import StreamViewer, Viewers
from interlock.gateway.link.outflow import RunnerOutflow
from interlock.gateway.rest.streams import Render
from interlock.gateway.rest.views import deliver, frames_rendering
from interlock.ports.ledger import LaneName, Ledger, WriteBatch
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import Direction, decode
from interlock.protocol.identifiers import session_stream
from interlock.session.turn import OpenTurn, TurnMachine
from interlock.session.turn_output import TurnFold

VIEWERS = 4


class Parts(NamedTuple):
    """Seconds for all frames, by part."""

    decode: float
    step: float
    commit: float
    ack: float
    viewers: float


class Group(NamedTuple):
    """What one decision made of some frames."""

    out: Out
    batch: WriteBatch
    session_id: str
    seq: int


def measure(folder: Path, frames: Sequence[bytes], group: int) -> Parts:
    """Time each part on `frames` (one session's, of one turn), in groups of `group` as the whole path made them."""
    return asyncio.run(_measure(folder, frames, group))


async def _measure(folder: Path, frames: Sequence[bytes], group: int) -> Parts:
    start = time.perf_counter()
    understood = [decode(raw, Direction.C) for raw in frames]
    decoded = time.perf_counter()
    ledger = await open_ledger(folder / LEDGER_NAME, SystemClock())
    try:
        epoch = await ledger.take(LaneName("default", understood[0].session_id or ""))
        stepping = time.perf_counter()
        groups = _step(frames, understood, group, epoch)
        stepped = time.perf_counter()
        numbers = [(await ledger.commit(each.batch)).numbers for each in groups]
        committed = time.perf_counter()
        acking = await _acknowledge(groups)
        viewing = await _view(ledger, groups, numbers)
    finally:
        await ledger.close()
    return Parts(decoded - start, stepped - stepping, committed - stepped, acking, viewing)


def _step(frames: Sequence[bytes], understood: Sequence[Frame], size: int, epoch: int) -> list[Group]:
    """Decide all frames in a lane with an open turn, as its shell does."""
    lane = _lane(understood[0])
    policy, groups = RuleSet(), list[Group]()
    for first in range(0, len(frames), size):
        lane.begin(Conditions(first, first, policy))
        for raw, frame in zip(frames[first:first + size], understood[first:first + size], strict=True):
            take_frame(lane, frame, raw, policy)
        lane.out.writes.append(lane.snapshot())
        name = LaneName(lane.state.tenant_id, lane.state.session_id)
        groups.append(Group(lane.out, WriteBatch(lane.out.writes, ((name, epoch),)), name.name, lane.state.last_seq))
    return groups


def _lane(first: Frame) -> Lane:
    turn = OpenTurn(first.payload.turn_id, 0, "prompt")
    state = LaneState(session_id=first.session_id or "", tenant_id="default", session_key="agent:bench:main",
                      agent_id="bench", runner_id="local", workspace="/", created_ms=0, opening="open", attached=True,
                      machine=TurnMachine(phase="turn", turn=turn))
    return Lane(state, [], [], TurnFold(), lambda count: b"\1" * count, Limits(),
                LaneHome("", False, Spending()))


async def _acknowledge(groups: Sequence[Group]) -> float:
    """Have each group's acknowledgement written to a link that takes everything at once."""
    written = asyncio.Event()

    async def send(_message: MutableMapping[str, Any]) -> None:
        written.set()

    outflow = RunnerOutflow(send)
    outflow.send_now(b"{}")
    await written.wait()
    start = time.perf_counter()
    for group in groups:
        written.clear()
        outflow.ack(group.session_id, group.seq)
        await written.wait()
    seconds = time.perf_counter() - start
    await outflow.stop()
    return seconds


async def _view(ledger: Ledger, groups: Sequence[Group], numbers: Sequence[list[int]]) -> float:
    """Publish each group to VIEWERS viewers; each writes it as server-sent events, as its HTTP answer does."""
    hub = Viewers(ledger)
    stream = session_stream(groups[0].session_id)
    async with AsyncExitStack() as stack:
        past = numbers[-1][-1]
        joined: list[tuple[StreamViewer, Render]] = []
        for _ in range(VIEWERS):
            viewer = await stack.enter_async_context(hub.join("default", stream, past))
            await viewer.next(0)
            joined.append((viewer, frames_rendering(stream, deliver("delivered", stream))))
        start = time.perf_counter()
        for group, given in zip(groups, numbers, strict=True):
            lane_events = [each for each in group.out.published if isinstance(each, LaneEvent)]
            hub.publish_items(stream, [durable(past + n, event.kind, event.body, event.at_ms, frame)
                              for n, (event, frame) in zip(given, lane_events, strict=True)])
            for viewer, render in joined:
                render(await viewer.next(0))
        return time.perf_counter() - start
