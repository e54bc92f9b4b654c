"""One conversation with Claude Code through the Claude Agent SDK. The only module that its adapter loads late (A-7)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import claude_agent_sdk
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    CLIConnectionError,
    Message,
    ProcessError,
    ResultMessage,
    SystemMessage,
)

from interlock.agents.claude.content import NotTaken, block_of
from interlock.agents.claude.gate import PermissionGate
from interlock.agents.claude.results import answered, usage_of
from interlock.agents.claude.transport import OVERFLOW, SupervisedTransport
from interlock.agents.claude.updates import ClaudeUpdates
from interlock.agents.process_end import died
from interlock.ports.agent import (
    AgentPrompt,
    AgentStart,
    CompactionFailed,
    ProcessExit,
    PromptSettings,
    Relay,
    SettingRefused,
    Spent,
    TurnOutcome,
    TurnUsage,
    TurnWriter,
)
from interlock.ports.process import Process
from interlock.protocol.codes import Code
from interlock.protocol.limits import CANCEL_GRACE_MS
from interlock.protocol.payloads import Compacted, SessionCompact

BUNDLED = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
"""The program in the SDK's wheel."""
MODES = {"default": "default", "act": "default", "plan": "plan"}
"""Our modes → Claude Code's. Those that let tools run unasked are not among them."""
INTERRUPTS = 5
"""Attempts to interrupt, a second apart: a prompt that has not begun yet ignores an interrupt."""
INTERRUPT_EVERY_S = 1.0
DRAIN_S = 5.0
"""Limit for processing its last messages after its end."""


class ClaudeConversation:
    """The SDK's side of one session: created for a running process, greeted once, then prompted repeatedly."""

    def __init__(self, process: Process, opening: AgentStart) -> None:
        self._process = process
        self._transport = SupervisedTransport(process)
        relay: Relay | None = opening.relay
        self._updates = ClaudeUpdates(relay)
        self._gate = PermissionGate(self._updates)
        options = ClaudeAgentOptions(can_use_tool=self._gate.can_use_tool, hooks=self._gate.hooks(),
                                     cwd=opening.workspace, env=opening.environment)
        self._sdk = ClaudeSDKClient(options, transport=self._transport)
        self._result: asyncio.Future[ResultMessage] | None = None
        self._cost = 0.0
        self._malformed = 0
        self._too_long: str | None = None
        self._cancelled = False
        self._mode = self._mode_now = "default"
        self._model_now: str | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._aside: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()
        self._exit = ProcessExit(0, None)

    async def greet(self) -> dict[str, Any]:
        """Run the SDK's handshake; return the program's report about itself. Raises ClaudeSDKError, or Exception if the
        SDK has no more specific error."""
        self._tasks.append(asyncio.create_task(self._close_at_exit()))
        await self._sdk.connect()
        self._transport.end_handshake()
        self._tasks.append(asyncio.create_task(self._read()))
        return await self._sdk.get_server_info() or {}

    # --- messages ---
    async def _read(self) -> None:
        try:
            while not await self._read_on():
                self._malformed += 1
        finally:
            self._exit = await self._process.terminate()
            self._over.set()

    async def _read_on(self) -> bool:
        """Process messages to the end: True. False if one could not be read; the next may be."""
        try:
            async for message in self._sdk.receive_messages():
                await self._take(message)
        except (CLIConnectionError, ProcessError):
            return True
        except ClaudeSDKError:
            return False
        return True

    async def _take(self, message: Message) -> None:
        if isinstance(message, ResultMessage):
            await self._updates.report_compaction("")
            if self._result is not None and not self._result.done():
                self._result.set_result(message)
        elif isinstance(message, SystemMessage) and message.subtype == OVERFLOW:
            self._too_long = str(message.data.get("text", ""))
            self._begin(self._stop_after_overflow())
        else:
            await self._updates.take(message)

    async def _close_at_exit(self) -> None:
        """End its descendants, which may hold its output open, so that reading ends."""
        await self._process.exited()
        await self._process.terminate()

    def _begin(self, doing: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(doing)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    # --- turns ---
    async def prompt(self, prompt: AgentPrompt, turn_writer: TurnWriter) -> TurnOutcome:
        """Send the prompt, and forward messages until it is answered or the program is gone."""
        faults = self._transport.garbage + self._malformed
        self._cancelled, self._too_long = False, None
        self._updates.begin(turn_writer)
        try:
            return await self._ask(_content(prompt))
        except NotTaken as refused:
            return TurnOutcome("error", error=(Code.UNSUPPORTED_CAPABILITY, str(refused)))
        finally:
            self._updates.end()
            self._gate.end()
            faults = self._transport.garbage + self._malformed - faults
            if faults:
                await turn_writer.warn(Code.INVALID_FRAME,
                                       f"Claude Code wrote {faults} messages that could not be read.")

    async def _ask(self, content: str | list[dict[str, Any]]) -> TurnOutcome:
        result = await self._answer(content)
        if result is None:
            return died(await self.gone())
        usage = self._took(result, self._updates.context_used)
        if self._too_long is not None:
            return TurnOutcome("error", usage, error=(Code.FRAME_TOO_LARGE, self._too_long))
        return TurnOutcome("cancelled", usage) if self._cancelled else answered(result, usage)

    def _took(self, result: ResultMessage, context_used: int | None) -> TurnUsage:
        usage = usage_of(result, self._cost, context_used, self._updates.model)
        self._cost = result.total_cost_usd if result.total_cost_usd is not None else self._cost
        return usage

    async def _answer(self, content: str | list[dict[str, Any]]) -> ResultMessage | None:
        """Return the result of one query; None if the program ended before it."""
        answer = self._result = asyncio.get_running_loop().create_future()
        over = asyncio.create_task(self._over.wait())
        try:
            with contextlib.suppress(BrokenPipeError, ClaudeSDKError):
                await self._sdk.query(_messages(content))
            await asyncio.wait([answer, over], return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else None
        finally:
            over.cancel()
            self._result = None

    def cancel(self) -> None:
        """Interrupt the running prompt; return at once."""
        if self._result is not None and not self._cancelled:
            self._cancelled = True
            self._begin(self._interrupt(self._result))

    async def _interrupt(self, answer: asyncio.Future[ResultMessage]) -> None:
        for _ in range(INTERRUPTS):
            if answer.done() or self._over.is_set():
                return
            with contextlib.suppress(Exception):  # The SDK raises plain Exceptions for an interrupt without a reply.
                await self._sdk.interrupt()
            await asyncio.wait([answer], timeout=INTERRUPT_EVERY_S)

    async def _stop_after_overflow(self) -> None:
        """Stop a turn that has failed: it must not continue. A program that does not react is ended."""
        answer = self._result
        if answer is None:
            return
        self._begin(self._interrupt(answer))
        await asyncio.wait([answer], timeout=CANCEL_GRACE_MS / 1000)
        if not answer.done():
            await self._process.terminate()

    # --- outside turns ---
    async def switch_mode(self, mode: str) -> None:
        """Switch to this mode until further notice. Raises SettingRefused."""
        await self._set_mode(mode)
        self._mode = mode

    async def settle(self, settings: PromptSettings) -> None:
        """Apply the mode and the model of the next prompt; None is the session's. Raises SettingRefused."""
        await self._set_mode(settings.mode or self._mode)
        if settings.model != self._model_now:
            try:
                await self._sdk.set_model(settings.model)
            except Exception as error:  # noqa: BLE001 - the SDK raises plain Exceptions for a control that fails.
                raise SettingRefused(f"Claude Code refused the model {settings.model!r}: {error}") from None
            self._model_now = settings.model

    async def _set_mode(self, mode: str) -> None:
        found = MODES.get(mode)
        if found is None:
            raise SettingRefused(f"Claude Code offers the modes plan and default, not {mode!r} (plan_mode).")
        if found == self._mode_now:
            return
        try:
            await self._sdk.set_permission_mode("plan" if found == "plan" else "default")
        except Exception as error:  # noqa: BLE001 - the SDK raises plain Exceptions for a control that fails.
            raise SettingRefused(f"Claude Code did not switch to the mode {mode!r}: {error}") from None
        self._mode_now = found

    async def compact(self, request: SessionCompact, spent: Spent) -> Compacted:
        """Let the agent compact its context now; `spent` gets the usage. Raises CompactionFailed with its message."""
        updates = self._updates
        updates.request_compaction()
        try:
            result = await self._answer(f"/compact {request.instructions or ''}".strip())
        finally:
            compacted = updates.compaction()
        if result is not None:
            spent(self._took(result, None))
        if compacted is None:
            why = result.result if result is not None and result.result else "it gave no reason"
            raise CompactionFailed(f"Claude Code did not compact its context: {why}.")
        return compacted

    # --- its end ---
    async def close(self) -> ProcessExit:
        """End the program and all its descendants (A-4), and cancel everything that still waits."""
        ended = await self._transport.end()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=DRAIN_S)
        await self._sdk.disconnect()
        for task in [*self._tasks, *self._aside]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._aside, return_exceptions=True)
        self._exit = ended
        self._over.set()
        return ended

    async def gone(self) -> ProcessExit:
        """Wait until the program has ended."""
        await self._over.wait()
        return self._exit


def _content(prompt: AgentPrompt) -> str | list[dict[str, Any]]:
    """Return a single text unchanged, so that Claude Code's own commands (`/compact`) work; else its blocks."""
    if len(prompt.content) == 1 and prompt.content[0].get("type") == "text":
        return str(prompt.content[0].get("text", ""))
    return [block_of(block) for block in prompt.content]


async def _messages(content: str | list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    yield {"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": None}
