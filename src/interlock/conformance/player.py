"""Play conversations over links, and check the other side's conduct."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from interlock.conformance import steps as s
from interlock.conformance.hands import Hand, HandFailed
from interlock.conformance.links import DialRefused, FrameLink, LinkSource, NoLink
from interlock.conformance.sides import ConversationBroken, Exchange, Side, of_link
from interlock.protocol.frames import Class, InvalidFrame, decode, frame_class
from interlock.protocol.identifiers import uuid4

NEEDS_A_HAND = "it needs a person at the master: name a key, or a program that acts for one"
SLOW = "it waits for a limit of ten seconds; include the slow ones to run it"


class _NotRun(Exception):
    """The conversation does not apply."""


class Player:
    """One side of every conversation. `record` gets every frame that crosses: its sender (C or M), and its bytes."""

    def __init__(self, door: LinkSource, side: Side, hand: Hand | None = None) -> None:
        self._door = door
        self._side = side
        self._hand = hand
        self._line: FrameLink | None = None
        self.record: list[tuple[str, bytes]] = []
        self._begin()

    def _begin(self) -> None:
        self._kept: dict[str, Any] = {"session": None, **self._side.begin()}
        self._frames: dict[str, bytes] = {}
        self._out = self._in = 0
        self._received: list[str] = []
        self._acks = True

    # --- conversations ---
    async def play_all(self, conversations: Sequence[s.ConformanceConversation], *,
                       slow: bool = True) -> list[s.ConformanceFinding]:
        """Play conversations one after another; the link is closed at the end."""
        found = [self._finding(one, "not run", SLOW) if one.slow and not slow else await self.play(one)
                 for one in conversations]
        await self._cut()
        return found

    async def play(self, one: s.ConformanceConversation) -> s.ConformanceFinding:
        """Play one conversation. A listening side keeps the link, a dialling side cuts it."""
        self._begin()
        self._acks = one.acks
        if self._hand is None and any(isinstance(step, s.PersonAction) for step in one.steps):
            return self._finding(one, "not run", NEEDS_A_HAND)
        done = 0
        try:
            for step in one.steps:
                await self._take(step)
                done += 1
        except _NotRun as why:
            return self._finding(one, "not run", str(why))
        except (ConversationBroken, NoLink, DialRefused, HandFailed) as broken:
            await self._cut()
            return self._finding(one, "broken", f"step {done + 1} of {len(one.steps)}: {broken}")
        finally:
            await self._end()
        return self._finding(one, "held")

    @staticmethod
    def _finding(one: s.ConformanceConversation, outcome: str, found: str = "") -> s.ConformanceFinding:
        return s.ConformanceFinding(one.name, one.requirements, one.claim, outcome, found)

    async def _end(self) -> None:
        """End an open session at the other side, as far as it responds."""
        self._acks = True
        closing = self._side.closing(self._kept, self._out)
        if self._line is not None and closing is not None and "session.closed" not in self._received:
            try:
                await self._send_frame(closing[0])
                await self._expect(closing[1])
            except ConversationBroken:
                await self._cut()
        if self._side.dials:
            await self._cut()

    # --- steps ---
    async def _take(self, step: s.Step) -> None:
        match step:
            case s.SendFrame():
                await self._send_frame(step)
            case s.Again():
                await self._send(self._frames[step.name])
            case s.ExpectFrame():
                await self._expect(step)
            case s.Silence():
                await self._silence(step)
            case s.Never():
                if step.kind in self._received:
                    raise ConversationBroken(f"{step.kind} came")
            case s.RefusedLink():
                await self._connect(step)
            case s.Join():
                await self._join(step)
            case s.CutLink():
                await self._cut()
            case s.ExpectClose():
                await self._closed(step)
            case s.PersonAction():
                assert self._hand is not None
                await self._hand.do(step.action)
            case s.Unless():
                if s.part_of(self._kept[step.name], step.path) == step.value:
                    raise _NotRun(step.reason)

    async def _send_frame(self, step: s.SendFrame) -> None:
        frame: dict[str, Any] = {
            "type": step.kind, "message_id": uuid4(secrets.token_bytes(16)), "timestamp": _now(),
            "payload": s.fill(step.payload, self._names(step.payload)),
        }
        if step.metadata:
            frame["metadata"] = s.fill(step.metadata, self._kept)
        kind = frame_class(step.kind)
        if kind is not Class.LINK or step.kind == "session.history":
            frame["session_id"] = self._kept["session"]
        if kind is Class.DURABLE:
            self._out += 1 + step.skip
            frame["seq"] = self._out
        if step.seq is not None:
            frame["seq"] = step.seq
        raw = json.dumps(frame).encode()
        if step.keep is not None:
            self._frames[step.keep] = raw
            self._kept[f"{step.keep}_id"] = frame["message_id"]
        await self._send(raw)

    def _names(self, payload: Any) -> dict[str, Any]:
        """Return the kept values, and the content of a frame that the side makes up if a payload names one."""
        if isinstance(payload, str):
            made = self._side.made(payload.removeprefix("$"), self._kept, self._out)
            if made is not None:
                self._out += made.uses
                return {**self._kept, payload.removeprefix("$"): made.payload}
        return self._kept

    async def _send(self, raw: bytes) -> None:
        if self._line is None:
            raise ConversationBroken("there is no link")
        self.record.append((self._side.sender.value, raw))
        await self._line.send(raw)

    async def _expect(self, step: s.ExpectFrame) -> dict[str, Any]:
        deadline = time.monotonic() + step.within_s
        before: list[str] = []
        while True:
            frame = await self._next(deadline, f"{step.kind}, only {', '.join(before) or 'nothing'}")
            kind = str(frame.get("type"))
            mine = self._side.concerns(frame, self._kept)
            fits = kind == step.kind and mine and s.misfit(frame, step.where, self._kept) is None
            if not fits:
                if step.next_ and mine and (not of_link(frame) or self._received == [kind]):
                    raise ConversationBroken(f"{kind} came where {step.kind} must be next")
                before.append(kind)
                continue
            wrong = s.misfit(frame, step.has, self._kept)
            if wrong is not None:
                raise ConversationBroken(f"{step.kind}: {wrong}")
            self._kept |= {name: s.part_of(frame, path) for name, path in step.keep.items()}
            return frame

    async def _silence(self, step: s.Silence) -> None:
        deadline = time.monotonic() + step.for_s
        while (left := deadline - time.monotonic()) > 0 and self._line is not None:
            try:
                raw = await self._line.next(left)
            except TimeoutError:
                return
            if raw is None:
                raise ConversationBroken("the link ended")
            frame = await self._understood(raw)
            if not step.kinds or (frame["type"] in step.kinds and self._side.concerns(frame, self._kept)):
                raise ConversationBroken(f"{frame['type']} came where nothing of it may")

    async def _next(self, deadline: float, wanted: str) -> dict[str, Any]:
        if self._line is None:
            raise ConversationBroken("there is no link")
        try:
            raw = await self._line.next(max(deadline - time.monotonic(), 0))
        except TimeoutError:
            raise ConversationBroken(f"never received {wanted}") from None
        if raw is None:
            code = self._line.closed.result() if self._line.closed.done() else None
            raise ConversationBroken(f"the link was closed ({code}) while waiting for {wanted}")
        return await self._understood(raw)

    async def _understood(self, raw: bytes) -> dict[str, Any]:
        """Check a frame's form and number, and acknowledge it. Raises ConversationBroken."""
        self.record.append((self._side.receives.value, raw))
        try:
            decode(raw, self._side.receives)
        except InvalidFrame as error:
            raise ConversationBroken(f"a frame without its form: {error}: {raw[:200]!r}") from None
        frame: dict[str, Any] = json.loads(raw)
        session, seq = frame.get("session_id"), frame.get("seq")
        mine = self._side.concerns(frame, self._kept)
        if mine:
            self._received.append(frame["type"])
        if seq is not None and mine:
            if seq > self._in + 1:
                raise ConversationBroken(f"{frame['type']} has number {seq}, after {self._in}")
            self._in = max(self._in, seq)
        for inner in s.part_of(frame, "payload.frames") or () if frame["type"] == "session.history" else ():
            await self._understood(json.dumps(inner).encode())
        if seq is not None and self._acks:
            await self._send_frame(s.SendFrame("x-interlock.ack", {"session_id": session, "seq": seq}))
        return frame

    # --- links ---
    async def _connect(self, step: s.RefusedLink) -> None:
        await self._cut()
        try:
            self._line = FrameLink(await self._door.link(step.token, step.subprotocol))
        except DialRefused as refused:
            if refused.status not in step.refused:
                raise
            return
        if step.refused:
            raise ConversationBroken("the link was opened")

    async def _join(self, step: s.Join) -> None:
        if self._line is not None and not self._line.closed.done():
            return
        await self._connect(s.RefusedLink())
        exchange = Exchange(self._send_frame, self._expect, self._kept, self._in, self._out)
        self._out = await self._side.join(exchange, step)

    async def _cut(self) -> None:
        if self._line is not None:
            await self._line.cut()
            self._line = None

    async def _closed(self, step: s.ExpectClose) -> None:
        deadline = time.monotonic() + step.within_s
        while self._line is not None:
            try:
                raw = await self._line.next(max(deadline - time.monotonic(), 0))
            except TimeoutError:
                raise ConversationBroken(f"the link was not closed within {step.within_s:.0f} s") from None
            if raw is None:
                break
            await self._understood(raw)
        assert self._line is not None
        code = await self._line.closed
        self._line = None
        if step.codes and code not in step.codes:
            raise ConversationBroken(f"the link was closed with {code}, not {' or '.join(map(str, step.codes))}")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
