"""Forward Claude Code's messages to the turn writer, in their order."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
from claude_agent_sdk import (
    AssistantMessage,
    Message,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from interlock.agents.call_ids import invocation_id
from interlock.agents.claude.content import without_files
from interlock.agents.claude.results import KINDS, Called, output_of, title_of
from interlock.agents.plan_steps import plan_step
from interlock.ports.agent import Relay, RequestTokens, TurnUsage, TurnWriter
from interlock.protocol.payloads import Compacted

_FIGURES = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
"""A request's figures by the provider's names, in the order of RequestTokens."""
_STDOUT = "<local-command-stdout>"
ANNOUNCED_WITHIN_S = 5.0
"""How long a question waits for the announcement of its tool call."""


class ClaudeUpdates:
    """The messages of one conversation. Without a turn writer (no prompt runs) only compactions are reported."""

    def __init__(self, relay: Relay | None) -> None:
        self._relay = relay
        self.turn_writer: TurnWriter | None = None
        self.context_used: int | None = None
        """Context tokens of the model's last call."""
        self.model: str | None = None
        self._requested = False
        self._compacted: Compacted | None = None
        self._boundary: dict[str, Any] | None = None
        self._calls: dict[str, Called] = {}
        self._announced: dict[str, asyncio.Event] = {}
        self._current: dict[str | None, str] = {}
        self._streamed: set[str] = set()
        self._tokens: dict[str, RequestTokens] = {}
        """message → tokens of its request, in this turn."""
        self.request: RequestTokens | None = None
        """Tokens of the turn's last request of the main agent."""

    def request_compaction(self) -> None:
        """Return the next compaction from `compaction` instead of relaying it: the runner requested it."""
        self._requested, self._compacted = True, None

    def compaction(self) -> Compacted | None:
        """Return the compaction that was requested, None if there was none, and relay those that follow."""
        self._requested = False
        return self._compacted

    def begin(self, turn_writer: TurnWriter) -> None:
        """Start a prompt."""
        self.turn_writer = turn_writer
        self._forget()

    def end(self) -> None:
        """End the prompt: later messages belong to no turn."""
        self.turn_writer = None
        self._forget()

    def _forget(self) -> None:
        for announced in self._announced.values():
            announced.set()
        for kept in (self._announced, self._calls, self._current, self._streamed, self._tokens):
            kept.clear()
        self.request = None

    async def announced(self, tool_use_id: str) -> None:
        """Wait until the call is announced, so that its question follows it, for at most ANNOUNCED_WITHIN_S."""
        announced = self._announced.setdefault(tool_use_id, asyncio.Event())
        try:
            async with asyncio.timeout(ANNOUNCED_WITHIN_S):
                await announced.wait()
        except TimeoutError:
            pass  # The question announces the call itself.

    async def take(self, message: Message) -> None:
        """Handle one message of the SDK other than a turn's result."""
        match message:
            case SystemMessage(subtype="compact_boundary", data=data):
                self._boundary = data
            case SystemMessage():
                return
            case StreamEvent():
                await self._piece(message)
            case AssistantMessage():
                await self._assistant(message)
            case UserMessage():
                await self._user(message)
            case _:
                return

    # --- text ---
    async def _piece(self, piece: StreamEvent) -> None:
        event, parent = piece.event, piece.parent_tool_use_id
        match event.get("type"):
            case "message_start":
                self._begin_message(event.get("message") or {}, parent)
            case "message_delta":
                await self._count(parent, event.get("usage"))
            case "content_block_delta":
                delta: dict[str, Any] = event.get("delta") or {}
                text, thought = delta.get("text"), delta.get("thinking")
                if text or thought:
                    self._streamed.add(self._current.get(parent, ""))
                await self._write(parent, text, thought)
            case _:
                return

    def _begin_message(self, message: dict[str, Any], parent: str | None) -> None:
        self._current[parent] = str(message.get("id", ""))
        usage: dict[str, Any] = message.get("usage") or {}
        began = RequestTokens(*(usage.get(name) or 0 for name in _FIGURES))
        self._tokens[self._current[parent]] = began
        if parent is None:
            self.request = began
            self.context_used = sum(began) - began.output_tokens
            self.model = message.get("model") or self.model

    async def _count(self, parent: str | None, usage: object) -> None:
        """Add a message's own figures to the turn's running totals; the turn's result has the last ones."""
        message_id = self._current.get(parent, "")
        figures: dict[str, Any] = cast("dict[str, Any]", usage) if isinstance(usage, dict) else {}
        before = self._tokens.get(message_id, RequestTokens())
        reported = [figures.get(name) for name in _FIGURES]
        now = RequestTokens(*(new if type(new) is int and new >= 0 else old
                              for new, old in zip(reported, before, strict=True)))
        self._tokens[message_id] = now
        if parent is None:
            self.request = now
        if self.turn_writer is not None:
            await self.turn_writer.usage(TurnUsage(
                input_tokens=sum(one.input_tokens for one in self._tokens.values()),
                output_tokens=sum(one.output_tokens for one in self._tokens.values()), request=self.request))

    async def _write(self, parent: str | None, text: str | None, thought: str | None) -> None:
        if self.turn_writer is None:
            return
        if parent is not None:
            if text:
                await self.turn_writer.tool_output(invocation_id(parent), "agent", text)
            return
        if text:
            await self.turn_writer.text(text)
        if thought:
            await self.turn_writer.thinking(thought)

    # --- whole messages ---
    async def _assistant(self, message: AssistantMessage) -> None:
        if message.error is not None:
            return  # The turn's result, which is an error, contains its text.
        streamed = message.message_id in self._streamed
        for block in message.content:
            match block:
                case TextBlock(text=text) if not streamed:
                    await self._write(message.parent_tool_use_id, text, None)
                case ThinkingBlock(thinking=thought) if not streamed:
                    await self._write(message.parent_tool_use_id, None, thought)
                case ToolUseBlock():
                    await self._call(block, message.parent_tool_use_id)
                case _:
                    continue

    async def _call(self, block: ToolUseBlock, parent: str | None) -> None:
        if self.turn_writer is None:
            return
        self._calls[block.id] = Called(block.name, block.input)
        if block.name == "TodoWrite" and parent is None:
            await self._todos(block.input.get("todos"))
        await self.turn_writer.tool_request(
            invocation_id(block.id), block.name, msgspec.json.encode(block.input), title_of(block.name, block.input),
            invocation_id(parent) if parent is not None else None, KINDS.get(block.name),
        )
        self._announced.setdefault(block.id, asyncio.Event()).set()

    async def _todos(self, todos: Any) -> None:
        """Forward its to-do list, which is sent whole each time (J-14); the done share is the turn's progress (S-5)."""
        listed = cast("list[Any]", todos) if isinstance(todos, list) else []
        steps = [plan_step(entry.get("content"), entry.get("status")) for one in listed
                 if isinstance(one, dict) and (entry := cast("dict[str, Any]", one))]
        if steps and self.turn_writer is not None:
            await self.turn_writer.plan(steps)
            await self.turn_writer.progress(100 * sum(step.status == "completed" for step in steps) / len(steps))

    async def _user(self, message: UserMessage) -> None:
        if isinstance(message.content, str):
            if self._boundary is not None and _STDOUT not in message.content:
                await self.report_compaction(message.content)
            return
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                await self._result(block, message.tool_use_result)

    async def _result(self, block: ToolResultBlock, structured: Any) -> None:
        call = self._calls.pop(block.tool_use_id, None)
        if call is None or self.turn_writer is None:
            return
        content, files = without_files(block.content)
        ended = invocation_id(block.tool_use_id)
        for file in files:
            await self.turn_writer.file(file, ended)
        output_type, output = output_of(call, content, None if block.is_error else structured)
        if block.is_error and isinstance(output, str):
            # A denial by the hook that holds calls is not a hook's error.
            output = output.removeprefix(f"PreToolUse:{call.name} hook error: ")
        await self.turn_writer.tool_result(ended, "error" if block.is_error else "ok", output_type, output)

    # --- compactions (T-6) ---
    async def report_compaction(self, summary: str) -> None:
        """Report the compaction whose boundary was seen, if any; its summary follows the boundary."""
        if self._boundary is None:
            return
        details: dict[str, Any] = self._boundary.get("compact_metadata") or {}
        self._boundary = None
        trigger = "requested" if self._requested else "auto" if details.get("trigger") == "auto" else "manual"
        self._compacted = Compacted(
            summary=summary, previous_token_count=max(int(details.get("pre_tokens") or 0), 0),
            current_token_count=max(int(details.get("post_tokens") or 0), 0), preserved_elements={}, trigger=trigger,
        )
        if not self._requested and self._relay is not None:
            await self._relay("session.compacted", self._compacted, {})
