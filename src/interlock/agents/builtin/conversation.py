"""One session with a model. The only module that its adapter loads late, since it imports pydantic-ai (A-7)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any, cast

import httpx2
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.settings import ThinkingLevel

from interlock.agents.builtin.answer_stream import merge_text
from interlock.agents.builtin.cache import Cache, ContextUnknown, Message
from interlock.agents.builtin.choice import ModelChoice, ModelUnavailable, choose
from interlock.agents.builtin.figures import UsageSum
from interlock.agents.builtin.files import INSTRUCTIONS_FILE
from interlock.agents.builtin.messages import user_message
from interlock.agents.builtin.model_request import ModelTimeouts
from interlock.agents.builtin.models import make_model, read_timeout_s, thinking_of, window_of
from interlock.agents.builtin.shell import Shell
from interlock.agents.builtin.summing_up import SummaryModel, SummedUp, check_goes_on, sum_up
from interlock.agents.builtin.tools import ToolRunner, offered
from interlock.agents.builtin.turn import AgentTurn, Setting
from interlock.agents.builtin.words import INSTRUCTIONS, system
from interlock.ports.agent import (
    AgentPrompt,
    AgentStart,
    CompactionFailed,
    ContextMissing,
    PromptSettings,
    SettingRefused,
    Spent,
    TurnOutcome,
    TurnWriter,
)
from interlock.ports.process import Spawn
from interlock.protocol.payloads import Compacted, SessionCompact
from interlock.session.context.provider_context import cleaned
from interlock.session.context.tool_result_limits import pruned

CONNECT_S = 15.0
MODES = ("default", "act", "plan")


class BuiltinConversation:
    """A model, a workspace, and the conversation so far."""

    def __init__(self, opening: AgentStart, spawn: Spawn, choice: ModelChoice, timeouts: ModelTimeouts) -> None:
        """Create the conversation. Raises ModelUnavailable if a package that the provider needs is not installed."""
        self._opening = opening
        self._timeouts = timeouts
        self._models: dict[ModelChoice, Model] = {}
        self._http = self._new_http()
        self._choice = choice
        self._mode = "default"
        self._cache = Cache()
        self._unsent: list[Message] = []
        """Messages since the last context: with a gateway that sends none, the agent remembers by itself."""
        self._wanted: tuple[ModelChoice, str, ThinkingLevel | None] = (choice, "default", None)
        self._running: asyncio.Task[TurnOutcome] | None = None
        self._cancelled = False
        """Whether the running or next prompt must end: a cancel may arrive before the prompt begins."""
        own = {name for name in (*opening.keys, opening.spec.api_key_env) if name}
        environment = {name: value for name, value in opening.environment.items() if name not in own}
        self._tool_runner = ToolRunner(opening.workspace, Shell(spawn, environment, opening.workspace), opening.hidden)
        self._model(choice)

    def _new_http(self) -> httpx2.AsyncClient:
        read_s = read_timeout_s(self._timeouts.first_event_s, self._timeouts.idle_s)
        return httpx2.AsyncClient(timeout=httpx2.Timeout(read_s, connect=CONNECT_S),
                                  event_hooks={"response": [merge_text]})

    def _model(self, choice: ModelChoice) -> Model:
        if self._http.is_closed:
            # A prompt that missed its cancel was ended by a close, and the session continues.
            self._http, self._models = self._new_http(), {}
        if choice not in self._models:
            self._models[choice] = make_model(choice, self._http)
        return self._models[choice]

    # --- settings ---
    def switch_mode(self, mode: str) -> None:
        """Switch to `plan` or `default` (A-6). Raises SettingRefused."""
        self._mode = _mode(mode)

    def settle(self, settings: PromptSettings) -> None:
        """Apply the settings of the next prompt. Raises SettingRefused, and then nothing has changed."""
        mode = _mode(settings.mode) if settings.mode is not None else self._mode
        try:
            choice = choose(self._opening.spec, self._opening.keys, settings.model) if settings.model else self._choice
            self._model(choice)
            thinking = thinking_of(settings.options)
        except (ModelUnavailable, ValueError) as error:
            raise SettingRefused(str(error)) from None
        except Exception as error:  # noqa: BLE001 - a provider's library raises its own errors for unknown models.
            raise SettingRefused(f"The model {settings.model!r} cannot be asked: {error}") from None
        if settings.context is not None:
            self._take(settings.context)
        self._wanted = (choice, mode, thinking)
        self._cancelled = False

    def _take(self, context: dict[str, Any]) -> None:
        try:
            self._cache = self._cache.following(context)
        except ContextUnknown as unknown:
            raise ContextMissing(str(unknown)) from None
        self._unsent = []

    # --- turns ---
    async def prompt(self, prompt: AgentPrompt, turn_writer: TurnWriter) -> TurnOutcome:
        """Run one prompt to its end."""
        if self._cancelled:
            return TurnOutcome("cancelled")
        running = self._running = asyncio.create_task(self._work(prompt, turn_writer))
        try:
            await asyncio.wait([running])
            return running.result()
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait([running])
            return TurnOutcome("cancelled")
        finally:
            self._running = None

    async def _work(self, prompt: AgentPrompt, turn_writer: TurnWriter) -> TurnOutcome:
        choice, mode, thinking = self._wanted
        model = self._model(choice)
        access = self._opening.workspace_access
        found = "" if access == "none" else await self._tool_runner.instructions()
        guide = INSTRUCTIONS.format(name=INSTRUCTIONS_FILE, text=found) if found else ""
        setting = Setting(
            model, choice, system(self._opening.workspace, access, mode, prompt.settings.system_append, guide),
            offered(access, mode), thinking, self._timeouts,
        )
        figures = UsageSum(self._window(choice))
        self._tool_runner.begin_turn(silent=prompt.settings.silent)
        turn = AgentTurn(turn_writer, setting, self._tool_runner, figures, [*self._cache.messages, *self._unsent],
                         user_message(prompt.content, 0), lambda: str(uuid.uuid4()))
        try:
            return await turn.run(self._fitting, self._overflowing)
        except asyncio.CancelledError:
            return TurnOutcome("cancelled", figures.usage)
        finally:
            self._unsent += turn.live

    # --- the context that a model is sent (Z-7), and its replacement if it is too long (Z-2, Z-4) ---
    def _fitting(self, messages: list[Message]) -> list[Message]:
        choice = self._wanted[0]
        window = self._window(choice)
        short = pruned(messages, window, self._cache.pruning) if window is not None else messages
        return cleaned(short, choice.provider)

    def _window(self, choice: ModelChoice) -> int | None:
        return window_of(self._model(choice), self._opening.spec.context_window)

    async def compact(self, request: SessionCompact, spent: Spent) -> Compacted:
        """Summarise the entries of a plan (T-6), and report the usage. Raises CompactionFailed."""
        choice = self._wanted[0]
        figures = UsageSum(self._window(choice))
        return (await self._summed_up(request, choice, lambda response: spent(figures.spent(response)))).report

    async def _summed_up(self, request: SessionCompact, choice: ModelChoice, spent: Callable[[ModelResponse], object]
                         ) -> SummedUp:
        context = (request.plan or {}).get("context")
        if isinstance(context, dict):
            try:
                self._take(cast("dict[str, Any]", context))
            except ContextMissing as missing:
                raise CompactionFailed(str(missing)) from None
        asker = SummaryModel(self._model(choice), choice, self._timeouts, self._window(choice), spent)
        return await sum_up(asker, request, self._cache)

    async def _overflowing(self, turn: AgentTurn, why: str) -> bool:
        """Handle a context that the provider refused: get a plan from the gateway, summarise, and continue. Return
        False if that is not possible. The turn's own messages are in the plan's context by then: no tool is repeated.
        """
        try:
            request = await turn.turn_writer.overflow(why)
        except CompactionFailed:
            return False
        try:
            made = await self._summed_up(request, turn.setting.choice, turn.figures.spent)
            check_goes_on(made.entries, turn.live)
        except CompactionFailed as failed:
            await turn.turn_writer.compacted(failed)
            return False
        finally:
            await turn.turn_writer.usage(turn.figures.usage)
        try:
            await turn.turn_writer.compacted(made.report)
        except CompactionFailed:
            return False  # The gateway has received the reason, and the conversation is unchanged.
        turn.continue_after([entry.message for entry in made.entries])
        return True

    def cancel(self) -> None:
        """Cancel the prompt."""
        self._cancelled = True
        if self._running is not None:
            self._running.cancel()

    async def close(self) -> None:
        """End what runs, and everything that it started."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        await self._tool_runner.close()
        await self._http.aclose()


def _mode(named: str) -> str:
    if named not in MODES:
        raise SettingRefused(f"This agent has no mode {named!r}; known: {', '.join(MODES)}.")
    return "plan" if named == "plan" else "default"
