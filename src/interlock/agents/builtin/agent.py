"""The builtin agent's interface to the runner (A-7, B-1). Needs the extra `agent`."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any

from interlock.agents.builtin.choice import ModelUnavailable, choose
from interlock.ports.agent import (
    AgentPrompt,
    AgentStart,
    AgentStartFailed,
    CompactionFailed,
    ProcessExit,
    PromptSettings,
    Spent,
    Started,
    TurnOutcome,
    TurnWriter,
)
from interlock.ports.process import Spawn
from interlock.protocol.extras import install
from interlock.protocol.payloads import Compacted, Features, SessionCompact

if TYPE_CHECKING:
    from interlock.agents.builtin import conversation as late

MISSING = f"pydantic-ai is not installed on the runner; run: {install('agent')}."
FEATURES = Features(
    adapter_type="sdk", permission="asks", context_owner="gateway", context_compaction=True, plan_mode=True,
    pause="boundary", resume_session=True, images=True, thinking=True, model_switch=True, prompt_options=True,
    system_append=True, updated_input=True, read_only=True,
)


class BuiltinAgent:
    """Our own loop over a model. Only its shell tool starts processes."""

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn
        self._conversation: late.BuiltinConversation | None = None

    async def open(self, opening: AgentStart) -> Started:
        """Check that a model is available, and load the code for it. Raises AgentStartFailed."""
        try:
            choice = choose(opening.spec, opening.keys)
            # The import takes seconds: the runner's other sessions continue meanwhile.
            module, asking = await asyncio.to_thread(_load)
            self._conversation = await asyncio.to_thread(module.BuiltinConversation, opening, self._spawn, choice,
                                                         asking.ModelTimeouts())
        except ModelUnavailable as error:
            raise AgentStartFailed(str(error)) from None
        # The transcript is its memory: the gateway sends it at each opening.
        return Started(FEATURES, opening.spec.name or "Interlock", model=choice.name, resumed=opening.resume)

    async def prompt(self, prompt: AgentPrompt, turn_writer: TurnWriter) -> TurnOutcome:
        """Run one prompt to its end."""
        return await self._opened().prompt(prompt, turn_writer)

    async def cancel(self) -> None:
        """Abort the request or the tool; the runner denies open questions."""
        if self._conversation is not None:
            self._conversation.cancel()

    async def switch_mode(self, mode: str) -> None:
        """Switch to `plan` or `default` (A-6). Raises SettingRefused for another."""
        self._opened().switch_mode(mode)

    async def settle(self, settings: PromptSettings) -> None:
        """Apply the context, the mode, the model and the options of the next prompt. Raises SettingRefused."""
        await asyncio.to_thread(self._opened().settle, settings)

    async def compact(self, request: SessionCompact, spent: Spent) -> Compacted:
        """Summarise the entries of the plan (T-6, Z-4). Raises CompactionFailed."""
        if self._conversation is None:
            raise CompactionFailed("The session is not open.")
        return await self._conversation.compact(request, spent)

    async def pause(self) -> None:
        """Do nothing: it stops at its next question, whose answer the runner holds back (C-6)."""

    async def resume(self) -> None:
        """Do nothing: the runner delivers the answers."""

    async def close(self) -> ProcessExit | None:
        """End what runs, with everything that it started (A-4)."""
        if self._conversation is not None:
            await self._conversation.close()
        return None

    async def gone(self) -> ProcessExit:
        """Wait for ever: there is no process that could end by itself."""
        return await asyncio.get_running_loop().create_future()

    def stderr_tail(self) -> str:
        """Return "": there is no process."""
        return ""

    def _opened(self) -> late.BuiltinConversation:
        assert self._conversation is not None, "open comes first"
        return self._conversation


def _load() -> tuple[Any, Any]:
    """Return the modules that import pydantic-ai. Raises AgentStartFailed if it is not installed."""
    try:
        return (importlib.import_module("interlock.agents.builtin.conversation"),
                importlib.import_module("interlock.agents.builtin.model_request"))
    except ImportError as error:
        if (error.name or "").startswith("interlock"):
            raise
        raise AgentStartFailed(MISSING) from error
