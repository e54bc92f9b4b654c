"""Run one prompt: ask for each command, run it, stream its output, stop at the first that fails or is not allowed.

ACP cannot express a failed prompt, so a failing command answers the prompt with a JSON-RPC error; the sentence is its
message, and the exit status is in its data as `{"interlock": {"exit_code": n}}`.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Literal, NamedTuple

import msgspec

from interlock.shell_agent import script
from interlock.shell_agent.connection import JsonRpcConnection, RequestRefused
from interlock.shell_agent.process import Channel, CommandExit, CommandNotStarted, RunningCommand

COMMAND_FAILED = -32050
"""The JSON-RPC error code of a prompt that stopped at a failing command."""
NOT_ALLOWED = "not allowed"
NOT_STARTED = 126
"""The exit status of a command that could not be started, as in a shell."""
ALLOW, REJECT = "allow", "reject"
OPTIONS = [
    {"optionId": ALLOW, "name": "Run it once", "kind": "allow_once"},
    {"optionId": REJECT, "name": "Do not run it", "kind": "reject_once"},
]
"""Options for each command. There is no "always": a person allows this one command (A-9)."""


class _Outcome(msgspec.Struct, rename={"option_id": "optionId"}):
    outcome: Literal["selected", "cancelled"]
    option_id: str | None = None


class _Answer(msgspec.Struct):
    outcome: _Outcome
    meta: Any = msgspec.field(default=None, name="_meta")

    @property
    def why(self) -> str:
        """Return who denied the command and why, which Interlock sends as `_meta`; "" for a client that does not."""
        match self.meta:
            case {"interlock": {"denied": str(why)}}:
                return why
            case _:
                return NOT_ALLOWED


class ShellCall(NamedTuple):
    """One command of the prompt: the tool call's id, the command, its number from 1."""

    call_id: str
    command: str
    number: int


class ShellTurn:
    """One prompt of a session. `cancel` may be called at any time; `run` then answers with stopReason `cancelled`."""

    def __init__(
        self, connection: JsonRpcConnection, session_id: str, workspace: str, turn_id: str, commands: list[str]
    ) -> None:
        self._connection = connection
        self._session_id = session_id
        self._workspace = workspace
        self._calls = [ShellCall(f"{turn_id}_{n}", command, n) for n, command in enumerate(commands, start=1)]
        self._cancelled = asyncio.Event()
        self._running: RunningCommand | None = None

    def cancel(self) -> None:
        self._cancelled.set()

    async def abandon(self) -> None:
        """End the running command, if there is one: the peer is gone."""
        self._cancelled.set()
        if self._running is not None:
            await self._running.terminate()

    async def run(self) -> dict[str, Any]:
        """Run the commands in order. Raises RequestRefused (COMMAND_FAILED) at the first that fails."""
        for call in self._calls:
            await self._announce(call)
            denied = await self._denied(call)
            if self._cancelled.is_set():
                await self._close(call, "failed", "canceled before it ran")
                return {"stopReason": "cancelled"}
            if denied is not None:
                await self._close(call, "failed", denied)
                await self._write(script.stopped(call.number, len(self._calls), f"was {NOT_ALLOWED}", call.command))
                return {"stopReason": "end_turn"}
            await self._execute(call)
            if self._cancelled.is_set():
                return {"stopReason": "cancelled"}
        await self._write(f"ran {script.plural(len(self._calls), 'command')}")
        return {"stopReason": "end_turn", "_meta": {"interlock": {"exit_code": 0}}}

    async def _announce(self, call: ShellCall) -> None:
        await self._update({"sessionUpdate": "tool_call", **_described(call)})

    async def _denied(self, call: ShellCall) -> str | None:
        """Return why the command may not run; None if it may. Anything but that one option is a no: another option, an
        error, a lost peer."""
        asking = asyncio.ensure_future(self._connection.ask("session/request_permission", {
            "sessionId": self._session_id, "toolCall": _described(call), "options": OPTIONS}))
        try:
            await self._or_cancelled(asking)
            if not asking.done():
                return NOT_ALLOWED
            answer = msgspec.convert(asking.result(), _Answer)
        except (RequestRefused, ConnectionError,
                msgspec.ValidationError):  # The last: an invalid answer.
            return NOT_ALLOWED
        finally:
            asking.cancel()
        if answer.outcome.outcome != "selected":
            # ACP answers a pending question with `cancelled` only if the whole prompt was cancelled.
            self._cancelled.set()
            return NOT_ALLOWED
        return None if answer.outcome.option_id == ALLOW else answer.why

    async def _execute(self, call: ShellCall) -> None:
        await self._progress(call)
        if self._cancelled.is_set():
            await self._close(call, "failed", "canceled before it ran")
            return
        try:
            ended = await self._ran(call)
        except CommandNotStarted as error:
            await self._failed(call, CommandExit(NOT_STARTED, None, 0, 0), f"could not be started ({error})")
            return
        outcome = script.ending(ended.exit_code, ended.signal)
        if self._cancelled.is_set():
            await self._close(call, "failed", f"canceled; it {outcome}", ended)
        elif ended.status == 0:
            await self._close(call, "completed", outcome, ended)
        else:
            await self._failed(call, ended, outcome)

    async def _ran(self, call: ShellCall) -> CommandExit:
        async def emit(channel: Channel, text: str) -> None:
            await self._progress(call, {"interlock": {"stream": {"channel": channel, "text": text}}})

        running = self._running = RunningCommand(call.command, self._workspace, emit)
        finishing = asyncio.create_task(running.finish())
        try:
            await self._or_cancelled(finishing)
            if not finishing.done():
                await running.terminate()
            return await finishing
        finally:
            finishing.cancel()
            self._running = None

    async def _failed(self, call: ShellCall, ended: CommandExit, outcome: str) -> None:
        await self._close(call, "failed", outcome, ended)
        sentence = script.stopped(call.number, len(self._calls), outcome, call.command)
        await self._write(sentence)
        raise RequestRefused(COMMAND_FAILED, sentence, {"interlock": {"exit_code": ended.status}})

    async def _or_cancelled(self, future: asyncio.Future[Any]) -> None:
        """Wait until the future is done or the turn is cancelled, whichever comes first."""
        cancelled = asyncio.create_task(self._cancelled.wait())
        try:
            await asyncio.wait([future, cancelled], return_when=asyncio.FIRST_COMPLETED)
        finally:
            cancelled.cancel()

    async def _progress(self, call: ShellCall, meta: dict[str, Any] | None = None) -> None:
        update: dict[str, Any] = {
            "sessionUpdate": "tool_call_update", "toolCallId": call.call_id, "status": "in_progress"}
        await self._update(update if meta is None else {**update, "_meta": meta})

    async def _close(
        self, call: ShellCall, status: Literal["completed", "failed"], text: str, ended: CommandExit | None = None
    ) -> None:
        """Send the end of a tool call: its outcome, without the output, which was streamed. A command that succeeded
        without output has an empty stream, so that its outcome is not taken for its output."""
        update: dict[str, Any] = {
            "sessionUpdate": "tool_call_update", "toolCallId": call.call_id, "status": status,
            "content": [{"type": "content", "content": {"type": "text", "text": text}}]}
        if status == "completed" and ended is not None and ended.stdout_bytes + ended.stderr_bytes == 0:
            update["_meta"] = {"interlock": {"stream": {"channel": "stdout", "text": ""}}}
        await self._update(update if ended is None else {**update, "rawOutput": ended._asdict()})

    async def _write(self, sentence: str) -> None:
        await self._update({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": sentence}})

    async def _update(self, update: dict[str, Any]) -> None:
        """Send an update; returns once the pipe has accepted it, which slows a command down to the reader's pace."""
        # If the peer is gone there is no reader; `serve` ends the turn, and no further command gets a yes.
        with contextlib.suppress(ConnectionError):
            await self._connection.notify("session/update", {"sessionId": self._session_id, "update": update})


def _described(call: ShellCall) -> dict[str, Any]:
    return {"toolCallId": call.call_id, "title": call.command, "kind": "execute", "status": "pending",
            "rawInput": {"command": call.command}, "_meta": {"interlock": {"toolName": "shell"}}}
