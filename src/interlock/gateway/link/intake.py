"""The intake of a runner's link: frames are placed in their sessions, grouped into runs and queued for the lanes (E-1,
E-3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

import msgspec
import structlog
from starlette.types import Receive

from interlock.engine.bridge.inputs import LaneInput
from interlock.engine.bridge.inputs.runner import (
    AgentReported,
    ControlsConfirmed,
    GapGivenUp,
    HistoryBegun,
    InvalidFrameReceived,
    PoisonFrameReceived,
)
from interlock.engine.bridge.link.losses import FULL
from interlock.engine.engine import Engine
from interlock.engine.lanes.inbox import Job, Run
from interlock.engine.lanes.lane_shell import LaneShell
from interlock.engine.presence import Present
from interlock.gateway.link.lost_ranges import LostRanges
from interlock.gateway.link.outflow import LinkClosed
from interlock.ports.signals import Signal
from interlock.protocol import payloads as p
from interlock.protocol.codes import CloseCode, Code
from interlock.protocol.envelope import Frame, Wire
from interlock.protocol.frames import Class, Direction, InvalidFrame, decode_wire, frame_class, split, understand
from interlock.protocol.integers import decode_whole
from interlock.protocol.limits import LARGEST_SEQ, MAX_ID_CHARS
from interlock.protocol.refusals import CLOSE, LinkRefusal, reason

LOSSES = {"RING": FULL, "DROP": FULL, "NONE": "this session is not buffered"}
"""By the policy that was applied (D-3)."""
LOST_RANGES_MAX = 2**18
"""Ranges of lost frames that one link may report ahead of its frames: more than a full outbox has."""
UNCONFIRMED_MAX = 4_096
"""Control frames of a session that its runner has not confirmed, beyond which no frame of the session is processed:
each frame may cause one that the gateway keeps in memory."""
PLACE_LOST = {
    "bytes": "this gateway, which observes, was behind by more than the runner's buffer holds",
    "absent": "this gateway, which observes, was away for more than a day",
    "joined": "this gateway joined the session when they were no longer kept",
}
"""By the history's `metadata.place_lost`: why an observer misses frames (D-5)."""


def why_lost(history: Frame) -> str:
    """Return why a history's frames are lost."""
    place = history.metadata.get("place_lost")
    policy = history.payload.buffer_status.policy_applied
    return PLACE_LOST.get(place if isinstance(place, str) else "", LOSSES[policy])


MAX_REASON_CHARS = 1_000
"""Maximum length of a logged reason, which may repeat what the runner sent."""
GAPS_KEPT = 1_024
"""Remembered gaps, over all links; further ones of a runner count as new."""


class FrameGap(Exception):
    """Raised if a durable frame's seq leaves a gap. `again`: the same gap occurred a second time on this gateway."""

    def __init__(self, session_id: str, expected: int, got: int, *, again: bool) -> None:
        super().__init__(f"session {session_id}: expected seq {expected}, got {got}")
        self.session_id = session_id
        self.expected = expected
        self.got = got
        self.again = again


class Inflow:
    """The expected seq of each session on one link."""

    def __init__(self, gaps: set[tuple[str, int]] | None = None) -> None:
        self._expected: dict[str, int] = {}
        self._lost = LostRanges()
        """None lies wholly below the expected number."""
        self._unplaced: set[str] = set()
        self._gaps: set[tuple[str, int]] = set() if gaps is None else gaps

    def expect(self, session_id: str, seq: int) -> None:
        """Record that the gateway has all frames below `seq`."""
        self._expected[session_id] = seq
        self._lost.pass_to(session_id, seq - 1)

    def knows(self, session_id: str) -> bool:
        """Return whether the session's number, or a frame of it, was received since it was last forgotten."""
        return session_id in self._expected

    def forget(self, session_id: str) -> None:
        """Forget the session's position: the next report of it states it again."""
        if session_id not in self._lost:
            self._expected.pop(session_id, None)

    def reached(self, session_id: str) -> int:
        """Return the last seq that was accepted, or that the gateway had."""
        return self._expected.get(session_id, 1) - 1

    def lose(self, session_id: str, ranges: list[tuple[int, int]]) -> None:
        """Record ranges (from, to) that the runner reports as lost: a gap that they cover does not count as a fault
        (D-3). Raises Closing if there are too many."""
        self._lost.add(session_id, ranges)
        self._lost.pass_to(session_id, self.reached(session_id))
        if len(self._lost) > LOST_RANGES_MAX:
            raise Closing(1003, f"metadata.lost_ranges: more than {LOST_RANGES_MAX} ranges are ahead of their frames")

    def lose_unplaced(self, session_id: str) -> None:
        """Record a loss without ranges: a gap in the history, and before the first live frame after it, is attributed
        to it (D-3)."""
        self._unplaced.add(session_id)

    def went_live(self, session_id: str) -> None:
        """Record that the history is over and a live frame has arrived: from here on a gap is a fault again."""
        self._unplaced.discard(session_id)

    @property
    def loses_unplaced(self) -> bool:
        """Return whether gaps are expected in some session."""
        return bool(self._unplaced)

    def follows(self, session_id: str, seq: int) -> bool:
        """Accept a frame that directly follows, as nearly all do; otherwise return False without a change: call
        `next`."""
        if self._expected.get(session_id) != seq or session_id in self._lost:
            return False
        if self._gaps:
            self._gaps.discard((session_id, seq))
        self._expected[session_id] = seq + 1
        return True

    def next(self, session_id: str, seq: int) -> bool:
        """Return whether a frame is the next one; False for a repetition. A gap that is filled is forgotten. Raises
        FrameGap."""
        expected = self._expected.get(session_id, 1)
        if seq < expected:
            return False
        if session_id in self._lost:
            expected = self._lost.after(session_id, expected)
        if seq > expected and session_id not in self._unplaced:
            again = (session_id, expected) in self._gaps
            if len(self._gaps) >= GAPS_KEPT:
                self._gaps.clear()
            self._gaps.add((session_id, expected))
            raise FrameGap(session_id, expected, seq, again=again)
        self._gaps.discard((session_id, expected))
        self._expected[session_id] = seq + 1
        self._lost.pass_to(session_id, seq)
        return True


log = structlog.get_logger()

Observe: TypeAlias = Callable[[str, p.ControlChanged], Awaitable[None]]
Refused: TypeAlias = Callable[[str, list[p.RefusedControl]], Awaitable[None]]

_ranges_decoder = msgspec.json.Decoder(list[tuple[int, int]])


class Intake:
    """Processes the frames of one link, in order. Raises Closing."""

    def __init__(self, engine: Engine, present: Present, inflow: Inflow, observe: Observe, refused: Refused) -> None:
        """Create the intake; `observe` creates the lane of a session that another gateway opened, `refused` receives
        refusals of this gateway's frames."""
        self._engine = engine
        self._present = present
        self._runner_id = present.record.runner_id
        self.on_heartbeat = Signal[[Present, p.RunnerHeartbeat]]()
        """Sent with each heartbeat, for other gateways."""
        self._inflow = inflow
        self._observe = observe
        self._refused = refused
        self._passed_over = 0

    async def run(self, receive: Receive, *, batches: bool) -> None:
        """Process all messages of the link; with `batches` each may hold several frames."""
        while True:
            message = await next_message(receive)
            await self.take(split(message) if batches else (message,))

    async def take(self, frames: Iterable[bytes], *, nested: bool = False) -> None:
        """Process the frames of one message, or with `nested` of a history."""
        for raw in frames:
            try:
                wire = decode_wire(raw)
                frame = understand(wire, Direction.C)
            except InvalidFrame as error:
                if error.wire is None:
                    raise Closing(1003, f"not a frame: {error}"[:120]) from None
                if nested and error.wire.type == "session.history":
                    raise Closing(1003, "a history inside a history") from None
                await self._past_gaps(lambda wire=error.wire, raw=raw, error=error: self._invalid(wire, raw, error))
                continue
            session_id = frame.session_id
            if frame.seq is None and frame_class(frame.type) is not Class.TRANSIENT:
                if nested and frame.type == "session.history":
                    raise Closing(1003, "a history inside a history")
                await self._link_frame(frame)
                continue
            shell = self._engine.lanes.shells.get(session_id or "")
            if (
                shell is None or shell.inbox.full or shell.lane.state.runner_id != self._runner_id
                or len(shell.lane.unconfirmed) > UNCONFIRMED_MAX
                or (frame.seq is not None and not self._inflow.follows(session_id or "", frame.seq))
            ):
                await self._past_gaps(lambda frame=frame, raw=raw: self._one(frame, raw))
            else:
                self._join(shell, frame, raw, self._inflow.reached(session_id or "") - (frame.seq is not None))
            if self._inflow.loses_unplaced and not nested and frame.seq is not None:
                self._inflow.went_live(session_id or "")

    async def _past_gaps(self, taking: Callable[[], Any]) -> None:
        """Process a frame; again if a gap before it is abandoned (E-3)."""
        while True:
            try:
                await taking()
                return
            except FrameGap as gap:
                if not gap.again:
                    raise Closing(CloseCode.GAP, str(gap)) from None
                await self._push(gap.session_id, GapGivenUp(gap.expected, gap.got - 1))
                # The following frames are the session's end, which must be received although frames before it are
                # missing.
                self._inflow.expect(gap.session_id, gap.got)

    async def _one(self, frame: Frame, raw: bytes) -> None:
        """Process a frame whose lane must be read, has no room, or that does not directly follow. Raises FrameGap."""
        session_id = frame.session_id or ""
        shell = await self._lane(session_id)
        if shell is None and not isinstance(frame.payload, p.ControlChanged):
            if frame.seq is not None:
                self._pass_over(frame.type, f"session {session_id} is not this runner's")
            return
        _check_confirmed(shell)
        after = await self._reached(session_id)
        if frame.seq is not None and not self._inflow.next(session_id, frame.seq):
            return
        if shell is None:
            await self._observe(session_id, frame.payload)
            shell = await self._lane(session_id)
        if shell is None:
            self._inflow.forget(session_id)
            return
        self._join(shell, frame, raw, after)
        await shell.inbox.room()

    def _pass_over(self, frame_type: str, reason: str) -> None:
        """Log a frame that belongs to no session of this runner: the first one of the link, the tenth, the hundredth …,
        since any number of them may arrive."""
        self._passed_over += 1
        self._present.passed_over += 1
        if str(self._passed_over).strip("0") == "1":
            log.warning("frame passed over", runner_id=self._runner_id, type=frame_type[:MAX_ID_CHARS],
                        reason=reason[:MAX_REASON_CHARS], count=self._passed_over)

    async def _reached(self, session_id: str) -> int:
        """Return the last number that this link delivered of the session; the lane's own if it delivered none since the
        lane was read."""
        if not self._inflow.knows(session_id):
            shell = await self._lane(session_id)
            if shell is not None:
                self._inflow.expect(session_id, shell.lane.state.last_seq + 1)
        return self._inflow.reached(session_id)

    async def _lane(self, session_id: str) -> LaneShell | None:
        """Return the session's lane, if it is this runner's."""
        return await self._engine.lanes.of_runner(session_id, self._runner_id)

    def _join(self, shell: LaneShell, frame: Frame, raw: bytes, after: int) -> None:
        """Add a frame to its run. `after` is the last seq that this link delivered before it."""
        if shell.inbox.joined(self, frame, raw):
            return
        if frame.seq is not None and (frame.session_id, frame.seq) in self._engine.lanes.poisoned:
            shell.push(Job(PoisonFrameReceived(after, frame.seq, frame.message_id, raw), size_bytes=len(raw)))
            return
        shell.push(Run(self, after))
        shell.inbox.joined(self, frame, raw)

    async def _link_frame(self, frame: Frame) -> None:
        match frame.payload:
            case p.RunnerHeartbeat():
                self._heartbeat(frame.payload, frame.timestamp)
            case p.Ack():
                await self._push(frame.payload.session_id, ControlsConfirmed(frame.payload.seq))
            case p.History():
                await self._history(frame, frame.payload)
            case p.RefusedControl():
                await self._refused(frame.session_id or "", [frame.payload])
            case p.WorkspaceChanges():
                self._engine.looks.answer(self._runner_id, frame.payload)
            case _:
                pass

    async def _history(self, frame: Frame, history: p.History) -> None:
        """Process a history's frames like live ones, and report losses (D-2, D-4): once per history, with its first
        part, so that the report is in the result of a command that ends within the history."""
        session_id = frame.session_id or ""
        try:
            # Through JSON, in which an integral float is an integer.
            named = msgspec.json.encode(frame.metadata.get("lost_ranges", []))
            ranges = decode_whole(_ranges_decoder.decode, named)
        except msgspec.ValidationError as error:
            raise Closing(1003, f"metadata.lost_ranges: {error}"[:120]) from None
        if any(last > LARGEST_SEQ for _, last in ranges):
            raise Closing(1003, "metadata.lost_ranges: a number is too large")
        ranges = [(first, last) for first, last in ranges if 1 <= first <= last]
        own = await self._lane(session_id) is not None
        await self._reached(session_id)
        split = frame.metadata.get("parts", 1) != 1
        if not own:
            pass
        elif ranges:
            self._inflow.lose(session_id, ranges)
        elif history.buffer_status.truncated and not split:
            self._inflow.lose_unplaced(session_id)
        if frame.metadata.get("part", 1) == 1:
            profile, why = bool(ranges) or split, why_lost(frame)
            await self._push(session_id, HistoryBegun(history.buffer_status, ranges, history.last_message_id, profile,
                                                      why))
        await self.take(map(bytes, history.frames), nested=True)

    async def _invalid(self, wire: Wire, raw: bytes, error: InvalidFrame) -> None:
        """Refuse a frame that is invalid for its type, using up its number; the link stays up (E-1). Raises
        FrameGap."""
        session_id = wire.session_id
        if session_id is None:
            self._pass_over(wire.type, str(error))
            return
        if frame_class(wire.type) is not Class.DURABLE:
            # A number on a frame type without one must not use up that of a durable frame.
            wire = msgspec.structs.replace(wire, seq=None)
        shell = await self._lane(session_id)
        if shell is None:
            self._pass_over(wire.type, f"session {session_id} is not this runner's")
            return
        _check_confirmed(shell)
        after = await self._reached(session_id)
        if wire.seq is not None and not self._inflow.next(session_id, wire.seq):
            return
        sentence = f"{wire.type}: {error}"
        shell.push(Job(InvalidFrameReceived(after, wire, raw, error.code, sentence), size_bytes=len(raw)))
        await shell.inbox.room()

    async def _push(self, session_id: str, input_: LaneInput) -> None:
        shell = await self._lane(session_id)
        if shell is not None:
            shell.send(input_)
            await shell.inbox.room()

    def _heartbeat(self, heartbeat: p.RunnerHeartbeat, written_at: str) -> None:
        self._engine.presence.take_heartbeat(self._runner_id, heartbeat, self._engine.clock.now_ms(), written_at)
        self.on_heartbeat(self._present, heartbeat)
        live_agents = {agent.session_id: agent for agent in heartbeat.agents}
        for shell in self._engine.lanes.of_runners(self._runner_id):
            state = shell.lane.state
            live = live_agents.get(state.session_id)
            if state.active is not None or (live is not None and (state.lost_turn or state.orphan is not None)):
                turn_id = live.turn_id if live is not None else None
                shell.send(AgentReported(live is not None, turn_id))


class Closing(Exception):
    """Raised to close the link with a code and one sentence."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


def _check_confirmed(shell: LaneShell | None) -> None:
    """Raise Closing if the runner does not confirm its control frames (D-7): the reattach sends them again."""
    if shell is not None and len(shell.lane.unconfirmed) > UNCONFIRMED_MAX:
        raise Closing(CloseCode.LEDGER, "the runner does not confirm the control frames of session "
                      f"{shell.lane.state.session_id}")


def refused(code: Code, detail: str) -> Closing:
    """Return the close of a refused link, which the runner can show to a person (W-2)."""
    return Closing(CLOSE[code], reason(LinkRefusal(code, detail)))


async def next_message(receive: Callable[[], Awaitable[MutableMapping[str, Any]]]) -> bytes:
    """Return the next text message. Raises LinkClosed, and Closing for another kind of message."""
    message = await receive()
    if message["type"] == "websocket.disconnect":
        raise LinkClosed(message.get("code"))
    text = message.get("text")
    if text is None:
        raise Closing(1003, "frames are text messages")
    return str(text).encode()
