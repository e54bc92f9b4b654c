"""Claude Code through the Claude Agent SDK for Python (A-7). Needs the extra `agents`."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any

from interlock.agents.claude.launch import launch
from interlock.ports.agent import (
    AgentPrompt,
    AgentStart,
    AgentStartFailed,
    CompactionFailed,
    ProcessExit,
    PromptSettings,
    SettingRefused,
    Spent,
    Started,
    TurnOutcome,
    TurnWriter,
)
from interlock.ports.process import Process, Spawn
from interlock.protocol.extras import install
from interlock.protocol.payloads import Compacted, Features, SessionCompact

if TYPE_CHECKING:
    from interlock.agents.claude import conversation as late

START_TIMEOUT_S = 60.0
"""Limit from the program's start to the end of the SDK's handshake."""
SWITCH_TIMEOUT_S = 10.0
STDERR_SHOWN_CHARS = 2_000
MISSING = f"The Claude Agent SDK is not installed on the runner; run: {install('agents')}."
FEATURES = Features(
    adapter_type="sdk", permission="asks", context_owner="agent", context_compaction=True, plan_mode=True,
    pause="signal", resume_session=True, images=True, files=True, thinking=True, model_switch=True, read_only=True,
    questions=True, updated_input=True,
)


class ClaudeAgent:
    """One conversation with Claude Code, whose program is supervised like any other agent's process."""

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn
        self._process: Process | None = None
        self._conversation: late.ClaudeConversation | None = None

    async def open(self, opening: AgentStart) -> Started:
        """Load the SDK, start the program, shake hands. Raises AgentStartFailed."""
        # The import takes seconds: the runner's other sessions continue meanwhile.
        module: Any = await asyncio.to_thread(_load)
        start = launch(opening, module.BUNDLED)
        process = self._process = await self._spawn(start.argv, start.environment, opening.workspace)
        conversation: late.ClaudeConversation = module.ClaudeConversation(process, opening)
        self._conversation = conversation
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                info = await conversation.greet()
        except BaseException as error:
            await self.close()
            if not isinstance(error, Exception):
                raise
            raise AgentStartFailed(self._why(error)) from error
        return Started(FEATURES, opening.spec.name or "Claude Code", _text(info.get("claude_code_version")),
                       _model(info, opening.spec.args), agent_session=start.agent_session, resumed=start.resumes)

    def _why(self, error: Exception) -> str:
        why = (f"did not answer within {START_TIMEOUT_S:.0f} s" if isinstance(error, TimeoutError)
               else f"reported: {error}")
        shown = self.stderr_tail().strip()[-STDERR_SHOWN_CHARS:]
        sentence = f"Claude Code did not start; it {why}."
        return f"{sentence}\n{shown}" if shown else sentence

    async def prompt(self, prompt: AgentPrompt, turn_writer: TurnWriter) -> TurnOutcome:
        """Run one prompt, to its result."""
        return await self._initialized().prompt(prompt, turn_writer)

    async def cancel(self) -> None:
        """Send the SDK's interrupt; the runner denies open questions."""
        if self._conversation is not None:
            self._conversation.cancel()

    async def switch_mode(self, mode: str) -> None:
        """Switch to `plan` or `default` (A-6). Raises SettingRefused for another, or if Claude Code does not react."""
        try:
            async with asyncio.timeout(SWITCH_TIMEOUT_S):
                await self._initialized().switch_mode(mode)
        except TimeoutError:
            raise SettingRefused(f"Claude Code did not switch to the mode {mode!r}.") from None

    async def settle(self, settings: PromptSettings) -> None:
        """Apply the mode and the model of the next prompt. Raises SettingRefused."""
        try:
            async with asyncio.timeout(SWITCH_TIMEOUT_S):
                await self._initialized().settle(settings)
        except TimeoutError:
            raise SettingRefused("Claude Code did not apply the prompt's mode or model.") from None

    async def compact(self, request: SessionCompact, spent: Spent) -> Compacted:
        """Compact its context now (T-6), and report the usage. Raises CompactionFailed."""
        if self._conversation is None:
            raise CompactionFailed("The session is not open.")
        return await self._conversation.compact(request, spent)

    async def pause(self) -> None:
        """Stop the process tree (C-6)."""
        if self._process is not None:
            self._process.pause()

    async def resume(self) -> None:
        """Resume the process tree."""
        if self._process is not None:
            self._process.resume()

    async def close(self) -> ProcessExit | None:
        """End the program and all its descendants (A-4)."""
        if self._conversation is not None:
            return await self._conversation.close()
        return await self._process.terminate() if self._process is not None else None

    async def gone(self) -> ProcessExit:
        """Wait until the program has ended by itself."""
        return await self._initialized().gone()

    def stderr_tail(self) -> str:
        """Return the last lines of its standard error (A-8)."""
        return self._process.stderr_tail() if self._process is not None else ""

    def _initialized(self) -> late.ClaudeConversation:
        assert self._conversation is not None, "open comes first"
        return self._conversation


def _load() -> Any:
    """Return the module that imports the SDK. Raises AgentStartFailed if the SDK is not installed."""
    try:
        return importlib.import_module("interlock.agents.claude.conversation")
    except ImportError as error:
        if (error.name or "").startswith("interlock"):
            raise
        raise AgentStartFailed(MISSING) from error


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _model(info: dict[str, Any], args: list[str]) -> str | None:
    """Return the model that the program would use: that of its `--model`, else its own default."""
    wanted = "default"
    for i, word in enumerate(args):
        if word.startswith("--model="):
            wanted = word.partition("=")[2]
        elif word == "--model" and i + 1 < len(args):
            wanted = args[i + 1]
    models: list[dict[str, Any]] = info.get("models") or []
    nothing: dict[str, Any] = {}
    found = next((model for model in models if model.get("value") == wanted), nothing)
    return _text(found.get("resolvedModel")) or (wanted if wanted != "default" else None)
