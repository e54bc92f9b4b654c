"""Follow a command: its session's frames, its status and its approvals, until it has ended (G-4)."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from typing import Any

import msgspec

from interlock.cli.approvals.approval_prompt import ApprovalPrompt, decided, decision_style
from interlock.cli.display.terminal import one_line, write
from interlock.cli.display.values import count, span
from interlock.cli.exit_status import BY_STATE
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.link.sse import CursorForgotten, SseEvent, SseStream, StreamLost, StreamResumed
from interlock.cli.tasks.cursors import Cursors, ShownCursor
from interlock.cli.tasks.queue_reason import queue_reason
from interlock.cli.tasks.screen import Screen
from interlock.cli.tasks.session_frames import CommandFrames, Shown
from interlock.cli.verb_error import Trouble
from interlock.command.card.permission_request import title_of_approval
from interlock.protocol import payloads as p
from interlock.protocol.api.approvals import GET_APPROVAL, LIST_APPROVALS
from interlock.protocol.api.commands import GET_COMMAND, GET_STATUS
from interlock.protocol.api.sessions import GET_FRAMES
from interlock.protocol.resources import Approval, Command, Notice

DRAIN_S = 5.0
"""Maximum wait for the last frames of an ended command."""
KEEP_EVERY_S = 1.0
"""Interval at which the cursor is stored while frames arrive."""
QUEUED_S = 1.0
"""A shorter wait in the queue is not reported."""
TERMINAL = frozenset(BY_STATE)
_WAITS = {
    "pending_approval": "the task waits for an approval before it starts",
    "pausing": "pausing: the agent stops at its next step",
    "paused": "paused; continue with: interlock resume",
    "canceling": "canceling",
}


class Follower:
    """Follows one command to its end. The caller passes what shows it, and how approvals are answered.

    With `events` every event is printed as a line of JSON (`--jsonl`).
    """

    def __init__(
        self, link: GatewayLink, command: Command, screen: Screen, asker: ApprovalPrompt, cursors: Cursors, *,
        place: ShownCursor, events: bool = False, queued_s: float = QUEUED_S,
    ) -> None:
        self._link = link
        self._command = command
        self._command_id = command.id
        self._session_id = command.target.session_id or ""
        self._screen = screen
        self._approvals = _Approvals(link, screen, asker)
        self._cursors = cursors
        self._events = events
        screen.enter(command.state)
        self._queued_s = queued_s
        self._in_queue: asyncio.Task[None] | None = None
        """Reports what the command waits for, if it waits for longer than `queued_s`."""
        self._part = CommandFrames(command.id, place.phase, place.turn_id)
        self._cursor = place.cursor
        self._status_cursor = place.status_cursor
        self._kept_at = time.monotonic()
        screen.restore(place.shown)

    async def follow(self) -> Command:
        """Show the command until it has ended; returns its final state. Raises Trouble."""
        try:
            async with asyncio.TaskGroup() as group:
                frames = group.create_task(self._follow_frames())
                self._enter(self._command.state, group)
                await self._follow_status(group)
                self._approvals.leave()
                ended = await self._link.read(GET_COMMAND.at(self._command_id), Command)
                if ended.turn_id is not None or ended.started_at is not None:
                    await asyncio.wait([frames], timeout=DRAIN_S)
                frames.cancel()
            self._screen.show_errors(ended.error.message if ended.error is not None else None)
            return ended
        except BaseExceptionGroup as group_error:
            raise group_error.exceptions[0] from None
        finally:
            self._screen.end_line()
            self.keep()

    def keep(self) -> None:
        """Write down how far the command was shown."""
        place = ShownCursor(cursor=self._cursor, status_cursor=self._status_cursor, phase=self._part.phase,
                            turn_id=self._part.turn_id, shown=self._screen.shown())
        self._cursors.keep(self._session_id, self._command_id, place)
        self._kept_at = time.monotonic()

    async def _follow_frames(self) -> None:
        if self._part.is_over:
            return
        stream = SseStream(self._link, GET_FRAMES.at(self._session_id), self._cursor)
        away = False
        async for item in stream:
            if not isinstance(item, SseEvent):
                away = isinstance(item, StreamLost)
                self._screen.remark(link_sentence(item), "bold", "lost" if away else "reattached")
            elif not self._part.is_over:
                await self._take_frame(item)
            self._cursor = stream.cursor
            if self._part.is_over and not away:  # A loss that was reported is followed by its outcome.
                return
            if time.monotonic() - self._kept_at > KEEP_EVERY_S:
                self.keep()

    async def _take_frame(self, event: SseEvent) -> None:
        if self._events:
            _event_line("frames", event)
        shown = self._part.take(event.data)
        if isinstance(shown, Shown):
            await self._approvals.take_frame(shown.payload)
            self._screen.frame(shown.frame_type, shown.payload)
        elif isinstance(shown, Notice):
            self._screen.notice(shown)

    async def _follow_status(self, group: asyncio.TaskGroup) -> None:
        if self._status_cursor is not None:
            # An approval that was shown before this terminal left, and is still pending, is asked again.
            for approval in await self._link.list(LIST_APPROVALS.at(), Approval, {"state": "pending"}):
                if approval.command_id == self._command_id:
                    await self._approvals.take(approval.id, "pending", group)
        stream = SseStream(self._link, GET_STATUS.at(self._command_id), self._status_cursor)
        async for item in stream:
            self._status_cursor = stream.cursor
            if not isinstance(item, SseEvent):
                continue  # The frames' stream reports the same about the same link.
            if self._events:
                _event_line("status", item)
            event = item.data
            if event.get("event") == "approval":
                await self._approvals.take(str(event.get("approval_id")), str(event.get("approval_state")), group)
            elif event.get("event") == "state":
                state = str(event.get("state"))
                self._enter(state, group)
                if state in TERMINAL:
                    return
                if state in _WAITS:
                    self._screen.remark(_WAITS[state])


    def _enter(self, state: str, group: asyncio.TaskGroup) -> None:
        self._screen.enter(state)
        if state != "queued":
            if self._in_queue is not None:
                self._in_queue.cancel()
        elif self._in_queue is None:
            self._in_queue = group.create_task(self._say_queued())

    async def _say_queued(self) -> None:
        await asyncio.sleep(self._queued_s)
        with suppress(Trouble):  # It is a remark; errors are reported where the command is followed.
            reason = await queue_reason(self._link, self._command)
            if reason is not None:
                self._screen.remark(reason)


class _Approvals:
    """The approvals of one command: each is asked once, and its decision shown once, with its approver.

    Status and frames are two streams, and either may be ahead. A tool's output follows the frame that released the
    tool, and its result follows the frame that withdrew its question; so the decision is shown at that frame, if the
    status has not reported it before.
    """

    def __init__(self, link: GatewayLink, screen: Screen, asker: ApprovalPrompt) -> None:
        self._link = link
        self._screen = screen
        self._asker = asker
        self._asked: dict[str, asyncio.Task[bool]] = {}
        self._held: dict[str, str] = {}
        """The approval of each pending interaction, by the interaction's id."""
        self._closed: set[str] = set()
        """The approvals whose decision was shown."""
        self._replacing: set[str] = set()
        """The approvals that replaced another one, whose input an approver changed."""
        self._closing = asyncio.Lock()
        """Held until a decision is on the screen, so that the stream that reports it second waits."""
        self._one_at_a_time = asyncio.Lock()

    async def take(self, approval_id: str, state: str, group: asyncio.TaskGroup) -> None:
        """Process an approval's event from the status."""
        if state != "pending":
            if approval_id in self._asked:  # Otherwise it was decided and shown before; `consumed` follows `granted`.
                await self._close(approval_id)
        elif approval_id not in self._asked and approval_id not in self._closed:
            self._asked[approval_id] = group.create_task(self._ask(approval_id))

    async def take_frame(self, payload: p.Payload) -> None:
        """Process a frame of the command before it is shown."""
        match payload:
            case p.InteractionHeld():
                self._held[payload.interaction_id] = payload.approval_id
            case p.InteractionResponse(interaction_id=ended) | p.InteractionResolved(interaction_id=ended) \
                    if ended in self._held:
                await self._close(self._held.pop(ended))
            case _:
                pass

    async def _close(self, approval_id: str) -> None:
        async with self._closing:
            if approval_id not in self._closed:
                await self._show_decision(approval_id)
                self._closed.add(approval_id)

    async def _show_decision(self, approval_id: str) -> None:
        prompt = self._asked.pop(approval_id, None)
        answered_here = False
        if prompt is not None and not prompt.done():
            # Decided elsewhere while it was asked here, or by the vote whose response is still on its way.
            prompt.cancel()
            await asyncio.wait([prompt])
        elif prompt is not None and not prompt.cancelled():
            answered_here = prompt.result()
        if not answered_here:
            approval = await self._link.read(GET_APPROVAL.at(approval_id), Approval)
            if approval.id in self._replacing:  # It was granted as it was made, so its request was never shown here.
                self._screen.remark(f"approval {approval.id}: {one_line(title_of_approval(approval))}")
            if approval.superseded_by is not None:
                self._replacing.add(approval.superseded_by)
            self._screen.remark(decided(approval), *decision_style(approval))

    def leave(self) -> None:
        """Stop asking: the command has ended."""
        for prompt in self._asked.values():
            prompt.cancel()

    async def _ask(self, approval_id: str) -> bool:
        """Ask one question at a time; returns whether the decision was shown."""
        async with self._one_at_a_time:
            try:
                approval = await self._link.read(GET_APPROVAL.at(approval_id), Approval)
                if approval.state != "pending":
                    return False
                with self._screen.asking():
                    return await self._asker.answer(approval)
            except Trouble as trouble:
                # A person who may not vote can still watch; others may answer.
                self._screen.remark(trouble.line(), "red", trouble.label)
                return False


def link_sentence(item: StreamLost | StreamResumed | CursorForgotten) -> str:
    """Return the outcome of the connection."""
    match item:
        case StreamLost(why):
            cause = f" ({why})" if why else ""
            return f"the connection to the gateway was lost{cause}; the work continues, reconnecting"
        case StreamResumed(replayed, away_s, more):
            return f"reattached after {span(away_s)}: {'more than ' if more else ''}{count(replayed, 'event')} replayed"
        case CursorForgotten():
            return "what lies behind the place where this terminal left off is no longer kept; showing what is"


def _event_line(stream: str, event: SseEvent) -> None:
    line: dict[str, Any] = {"stream": stream, **({"cursor": event.cursor} if event.cursor else {}), **event.data}
    write(sys.stdout, msgspec.json.encode(line).decode() + "\n")

