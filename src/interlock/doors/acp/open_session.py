"""One session of an editor: its stream is followed while the editor has it open (O-3, O-5)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine
from typing import Any

import msgspec

from interlock.doors.acp.card import ShownCards
from interlock.doors.acp.permission import Permissions
from interlock.doors.acp.settings import MODE, EditorSettings
from interlock.doors.acp.view import EditorView
from interlock.jsonrpc import Rpc
from interlock.protocol.answers import FrameEvent
from interlock.protocol.limits import PAGE_MAX
from interlock.protocol.resources import Command, ExecutePayload, StatusEvent
from interlock.sdk import AsyncInterlock, InterlockError, Lost, Reattached, StreamEvent

DRAIN_S = 10.0
"""Time to wait for the last frames of a command that has ended."""
ATTENDED = ("pending_approval", "running")
"""States of a command in which it may wait for an approval."""
TURNS_KEPT = 64
"""Turns whose end is remembered until the end of their command is known."""
TURN_END = b"session.turn.end"
"""Part of the bytes of each frame that ends a turn, and of hardly any other: most frames need not be decoded."""
_frame = msgspec.json.Decoder(dict[str, Any])
_event = msgspec.json.Decoder(FrameEvent)


class PromptFailed(Exception):
    """The command did not succeed; the text is its reason, `code` the gateway's."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class OpenSession:
    """`editor_id` is the session's id in ACP, which is its key at the gateway. Call `close` at the end."""

    def __init__(self, gateway: AsyncInterlock, rpc: Rpc, permissions: Permissions, editor_id: str, agent_id: str,
                 workspace: str, *, runner_id: str | None = None, session_id: str | None = None) -> None:
        self._gateway = gateway
        self._rpc = rpc
        self._permissions = permissions
        self.editor_id = editor_id
        self.session_id = session_id
        """The id at the gateway; None until the first command has opened it."""
        self.shown = ShownCards()
        """Approvals that a slash command can decide, since they were shown whole in this conversation."""
        self._agent_id = agent_id
        self._runner_id = runner_id
        self._workspace = workspace
        self._own = set[str]()
        self._view = EditorView(self._own.__contains__)
        self._settings_sent: list[dict[str, Any]] = []
        self._cursor: str | None = None
        self._busy = False
        self._submitted = asyncio.Event()
        self._submitted.set()
        self._command_id: str | None = None
        self._ended_turns: dict[str, str] = {}
        """The stop reasons of the last turns whose end was sent to the editor."""
        self._turn_ended = asyncio.Event()
        self._tasks = set[asyncio.Task[None]]()
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._following = False

    @property
    def settings(self) -> EditorSettings:
        """Return the settings that the stream has reported, with the editor's choices."""
        return self._view.settings

    @property
    def busy(self) -> bool:
        """Return whether a prompt of this editor is running."""
        return self._busy

    async def replay(self, *, show: bool) -> None:
        """Read the stream to its end, and send the conversation to the editor if `show`. Raises InterlockError."""
        while self.session_id is not None:
            page = await self._gateway.sessions.frames(self.session_id, since=self._cursor, limit=PAGE_MAX)
            for raw in page.events:
                for update in self._updates(_event.decode(raw)):
                    if show:
                        await self._send(update)
            self._cursor = page.next_cursor
            if not page.has_more:
                return

    def follow(self) -> None:
        """Follow the stream live from the end of `replay`; a second call does nothing."""
        if self.session_id is not None and not self._following:
            self._following = True
            self._start(self._follow())

    def attend(self) -> None:
        """Ask about the approvals of running commands, as for a prompt of this editor."""
        if self.session_id is not None:
            self._start(self._attend(self.session_id))

    async def _attend(self, session_id: str) -> None:
        try:
            for state in ATTENDED:
                found = await self._gateway.commands.list(session=session_id, state=state, limit=1)
                for command in found.items:
                    self._start(self._watch(command.id))
        except InterlockError as error:
            await self.note(f"What waits for approval is not known: {error}")

    async def _watch(self, command_id: str) -> None:
        try:
            await self._follow_command(command_id)
        except InterlockError as error:
            await self.note(f"Command {command_id} is not followed any more: {error}")

    async def _follow_command(self, command_id: str) -> None:
        async for item in self._gateway.commands.follow(command_id):
            if isinstance(item, StreamEvent) and isinstance(item.data, StatusEvent):
                await self._status(item.data)

    async def prompt(self, payload: ExecutePayload) -> str:
        """Run a prompt to its end; return ACP's stop reason. Raises InterlockError, PromptFailed."""
        self._busy = True
        try:
            return await self._run(await self._submit(payload))
        finally:
            self._busy = False

    async def _submit(self, payload: ExecutePayload) -> Command:
        # The stream may contain the prompt before the answer names its command, and an editor shows its own one itself.
        self._submitted.clear()
        try:
            command = await self._gateway.commands.submit(
                payload, agent=self._agent_id, session_key=self.editor_id, runner_id=self._runner_id,
                workspace=self._workspace if self.session_id is None else None,
                idempotency_key="acp-" + secrets.token_hex(16))
            self._own.add(command.id)
            return command
        finally:
            self._submitted.set()

    async def _run(self, command: Command) -> str:
        self._command_id = command.id
        try:
            if command.target.session_id != self.session_id:
                self.session_id, self._cursor, self._following = command.target.session_id, None, False
            self.follow()
            await self._follow_command(command.id)
            ended = await self._gateway.commands.get(command.id)
            if ended.turn_id is not None:
                await self._drained(ended.turn_id)
            return _stop_reason(ended, self._ended_turns.get(ended.turn_id or "", ""))
        finally:
            self._command_id = None
            await self._withdraw_all()

    async def cancel(self) -> None:
        """Cancel the running prompt. Raises InterlockError."""
        if self._command_id is not None:
            await self._gateway.commands.cancel(self._command_id, reason="canceled in the editor")

    async def close(self) -> None:
        """Leave the session; running work continues."""
        await self._withdraw_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def reply(self, text: str) -> None:
        """Answer the editor's user in the conversation, which the agent does not see."""
        await self._send({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text + "\n"}})

    async def note(self, sentence: str) -> None:
        """Show a sentence of the door."""
        await self._send({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": sentence + "\n"}})

    async def _follow(self) -> None:
        assert self.session_id is not None
        try:
            async for item in self._gateway.sessions.follow(self.session_id, since=self._cursor):
                match item:
                    case StreamEvent():
                        await self._submitted.wait()
                        self._cursor = item.cursor or self._cursor
                        before = self.settings.version
                        for update in self._updates(item.data):
                            await self._send(update)
                        if self.settings.version != before:
                            await self._send_settings()
                        self._note_end(item.data)
                    case Lost():
                        await self.note(f"The connection to the gateway was lost ({item.why}). The agent's work goes "
                                        "on; reconnecting.")
                    case Reattached():
                        await self.note(f"Connected to the gateway again after {item.away_s:.0f} s.")
        except InterlockError as error:
            await self.note(f"The session is not followed any more: {error}")
        finally:
            self._following = False

    async def _send_settings(self) -> None:
        """Send the settings if they differ from the editor's."""
        now = self.settings.config_options()
        if now != self._settings_sent:
            self._settings_sent = now
            if self.settings.values(MODE):
                await self._send({"sessionUpdate": "current_mode_update", "currentModeId": self.settings.current(MODE)})
            await self._send({"sessionUpdate": "config_option_update", "configOptions": now})

    def config_options(self) -> list[dict[str, Any]]:
        """Return ACP's config options, for this answer to the editor."""
        self._settings_sent = self.settings.config_options()
        return self._settings_sent

    def _updates(self, event: FrameEvent) -> list[dict[str, Any]]:
        if event.notice is not None:
            return list(self._view.notice(event.notice))
        if not isinstance(event.frame, msgspec.Raw) or event.kind == "refused":
            return []
        return list(self._view.updates(bytes(event.frame)))

    def _note_end(self, event: FrameEvent) -> None:
        if event.kind != "C" or not isinstance(event.frame, msgspec.Raw) or TURN_END not in bytes(event.frame):
            return
        frame = _frame.decode(event.frame)
        if frame.get("type") == "session.turn.end":
            self._ended_turns[frame["payload"]["turn_id"]] = frame["payload"]["stop_reason"]
            if len(self._ended_turns) > TURNS_KEPT:
                del self._ended_turns[next(iter(self._ended_turns))]
            self._turn_ended.set()

    async def _drained(self, turn_id: str) -> None:
        """Wait until the turn's last frame was sent to the editor, or DRAIN_S if the stream does not contain it."""
        try:
            async with asyncio.timeout(DRAIN_S):
                while turn_id not in self._ended_turns:
                    self._turn_ended.clear()
                    await self._turn_ended.wait()
        except TimeoutError:
            return

    async def _status(self, event: StatusEvent) -> None:
        if event.event != "approval" or event.approval_id is None:
            return
        if event.approval_state == "pending" and event.approval_id not in self._asking:
            task = self._start(self._permissions.ask(self.editor_id, event.approval_id, self.shown))
            self._asking[event.approval_id] = task
        elif event.approval_state != "pending":
            await _ended(self._asking.pop(event.approval_id, None))

    async def _withdraw_all(self) -> None:
        while self._asking:
            await _ended(self._asking.popitem()[1])

    async def _send(self, update: dict[str, Any]) -> None:
        await self._rpc.notify("session/update", {"sessionId": self.editor_id, "update": update})

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _stop_reason(ended: Command, turn: str) -> str:
    if ended.state == "succeeded":
        return "max_tokens" if turn == "max_tokens" else "end_turn"
    if ended.state == "canceled":
        return "cancelled"
    failure = ended.error
    raise PromptFailed(failure.code if failure is not None else ended.state,
                       failure.message if failure is not None else f"The command is {ended.state.replace('_', ' ')}.")


async def _ended(task: asyncio.Task[None] | None) -> None:
    if task is not None and not task.done():
        task.cancel()
        await asyncio.wait([task])


