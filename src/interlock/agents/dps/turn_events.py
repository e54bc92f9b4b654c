"""Forward an agent's frames of one turn to the turn writer, and map its ids, offsets and figures."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

import msgspec

from interlock.agents.dps.spans import BlockSpan
from interlock.ports.agent import (
    AgentPrompt,
    AgentQuestion,
    Option,
    RequestTokens,
    TurnOutcome,
    TurnUsage,
    TurnWriter,
)
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import InvalidFrame
from interlock.protocol.integers import whole

MAX_OPEN_BLOCKS = 64
MAX_OPEN_CALLS = 1_024
"""Blocks and tool calls that an agent may have open at the same time; one more is refused."""
MAX_SENTENCE_CHARS = 8_000
"""Characters of an error's message that are shown."""
UNSAID = (Code.UPSTREAM_ERROR, "The agent ended its turn with an error and gave no reason.")
EMPTY_INPUT = b"{}"


class _Call:
    """An open tool call: our id for it, and its announcement."""

    def __init__(self, announced: p.ToolRequest, kind: str | None) -> None:
        self.invocation_id = str(uuid.uuid4())
        self.tool_name = announced.tool_name
        self.title = announced.title
        self.input_json = bytes(announced.input)
        self.kind = kind
        self.channels: dict[p.Channel, BlockSpan] = {}


class DpsTurn:
    """One turn. The legality of a frame was checked before; its content is checked here, with InvalidFrame for content
    that makes no sense."""

    def __init__(self, prompt: AgentPrompt, turn_writer: TurnWriter, cost_before: float) -> None:
        self.prompt = prompt
        self.turn_writer = turn_writer
        self._message_id = ""
        self._agents_turn_id: str | None = None
        self.over = asyncio.Event()
        """It has ended, or failed."""
        self.ended = asyncio.Event()
        """The agent has reported how its turn ended."""
        self.settled = asyncio.Event()
        """Its usage has been reported, or another frame came instead."""
        self.stop_reason: p.StopReason = "end_turn"
        self.failure: tuple[str, str] | None = None
        self.error_reported = False
        """An `agent.error` of this turn has been relayed: the turn's end needs no other."""
        self._exit_code: int | None = None
        self._cost_before = cost_before
        self._usage = TurnUsage()
        self._blocks: dict[str, BlockSpan] = {}
        self._current: str | None = None
        """The block that text was appended to last, by the agent's id."""
        self._calls: dict[str, _Call] = {}
        self._invocations: dict[str, str] = {}

    def sent_as(self, message_id: str) -> None:
        """Note the message_id of the prompt as sent: a `session.error` that names it refuses the prompt."""
        self._message_id = message_id

    @property
    def agents_turn_id(self) -> str | None:
        """Return the agent's own id of the turn; None until it has started."""
        return self._agents_turn_id

    def start(self, agents_turn_id: str) -> None:
        """Note that the agent has started the turn, with this id."""
        self._agents_turn_id = agents_turn_id

    def outcome(self) -> TurnOutcome:
        """Return how it ended, once `ended` is set."""
        if self.failure is not None:
            return TurnOutcome("error", self._usage, error=self.failure)
        unsaid = self.stop_reason == "error" and not self.error_reported
        return TurnOutcome(self.stop_reason, self._usage, error=UNSAID if unsaid else None, exit_code=self._exit_code)

    def fail(self, code: str, sentence: str) -> None:
        """End the turn without a `session.turn.end`."""
        self.failure = self.failure or (code, sentence)
        self.over.set()

    async def take(self, frame: Frame) -> None:
        """Forward one frame of the turn. Questions go through `question` instead. Raises InvalidFrame."""
        payload = frame.payload
        match payload:
            case p.TextDelta():
                await self._write(frame.type, payload.block_id,
                                self._block(payload.block_id).grow(payload.offset, payload.text))
            case p.TextDone():
                rest = self._block(payload.block_id).finish(payload.text)
                del self._blocks[payload.block_id]
                await self._write(frame.type, payload.block_id, rest)
                if self._current == payload.block_id:
                    self._current = None
                    await self.turn_writer.end_block()
            case p.ToolRequest():
                await self._announce(payload, frame)
            case p.ToolStream():
                await self._stream(payload)
            case p.ToolResult():
                call = self._open_call(payload.invocation_id)
                del self._calls[payload.invocation_id]
                output = None if payload.output_type == "empty" or payload.output is None else payload.output
                await self.turn_writer.tool_result(call.invocation_id, payload.status, payload.output_type, output)
            case p.TurnEnd():
                self.stop_reason = payload.stop_reason
                code = whole(frame.metadata.get("exit_code"))
                self._exit_code = code if code is not None and 0 <= code <= 255 else None
                self.ended.set()
                self.over.set()
            case p.Progress():
                await self.turn_writer.progress(payload.percent)
            case p.PlanChanged():
                await self.turn_writer.plan(payload.steps)
            case p.Usage():
                await self._use(payload)
            case _:
                raise InvalidFrame("$.type", f"{frame.type} must not be sent by an agent")

    async def _write(self, kind: str, block_id: str, text: str) -> None:
        if not text:
            return
        if self._current not in (None, block_id):
            await self.turn_writer.end_block()  # The agent has several open blocks; each stays a separate block here.
        self._current = block_id
        if kind.startswith("agent.thinking."):
            await self.turn_writer.thinking(text)
        else:
            await self.turn_writer.text(text)

    def _block(self, block_id: str) -> BlockSpan:
        found = self._blocks.get(block_id)
        if found is None:
            if len(self._blocks) >= MAX_OPEN_BLOCKS:
                raise InvalidFrame("$.payload.block_id", f"{MAX_OPEN_BLOCKS} blocks are open already; close one")
            found = self._blocks[block_id] = BlockSpan()
        return found

    async def _announce(self, request: p.ToolRequest, frame: Frame) -> None:
        if request.invocation_id in self._invocations:
            raise InvalidFrame("$.payload.invocation_id", "names a tool call of this turn that was announced before")
        if len(self._calls) >= MAX_OPEN_CALLS:
            raise InvalidFrame("$.payload.invocation_id", f"{MAX_OPEN_CALLS} tool calls are open already")
        kind = frame.metadata.get("kind")
        call = self._calls[request.invocation_id] = _Call(request, kind if isinstance(kind, str) else None)
        self._invocations[request.invocation_id] = call.invocation_id
        parent = self._invocations.get(request.parent_invocation_id or "")
        await self.turn_writer.tool_request(
            call.invocation_id, call.tool_name, call.input_json, call.title, parent, call.kind
        )

    def _open_call(self, invocation_id: str) -> _Call:
        call = self._calls.get(invocation_id)
        if call is None:
            raise InvalidFrame("$.payload.invocation_id", "names no open tool call")
        return call

    async def _stream(self, piece: p.ToolStream) -> None:
        call = self._open_call(piece.invocation_id)
        text = call.channels.setdefault(piece.channel, BlockSpan()).grow(piece.offset, piece.text)
        if text:
            await self.turn_writer.tool_output(call.invocation_id, piece.channel, text)

    async def _use(self, usage: p.Usage) -> None:
        tokens, window, cost = usage.token_usage, usage.context_window, usage.cost_usage
        spent = max(cost.used - self._cost_before, 0.0) if cost.unit == "USD" else None
        self._usage = TurnUsage(
            input_tokens=tokens.input_tokens, output_tokens=tokens.output_tokens,
            cache_read_tokens=tokens.cache_read_tokens, cache_write_tokens=tokens.cache_write_tokens,
            thinking_tokens=tokens.thinking_tokens, cost_usd=spent, context_capacity=window.capacity,
            context_used=window.used, request=_request(usage.request_usage),
        )
        if not self.ended.is_set():
            # A figure in mid-turn: it counts if the agent dies before the last one (T-2).
            await self.turn_writer.usage(self._usage)

    def question(self, interaction: p.InteractionRequest) -> AgentQuestion:
        """Return the agent's question, as it was announced: a person must not be shown another input than the call's
        (P-2). Raises InvalidFrame."""
        context = interaction.context
        options = [Option(option.option_id, option.label, option.kind) for option in interaction.options]
        input_json = bytes(context.input) if isinstance(context.input, msgspec.Raw) else None
        if context.invocation_id is None:
            return AgentQuestion(None, context.tool_name, interaction.title, input_json or EMPTY_INPUT, options)
        call = self._calls.get(context.invocation_id)
        if call is None:
            raise InvalidFrame("$.payload.context.invocation_id", "names no open tool call; announce it first with "
                               "tool.invoke.request")
        if context.tool_name != call.tool_name:
            raise InvalidFrame("$.payload.context.tool_name", f"is not the {call.tool_name} that was announced")
        if input_json is not None and not _same(input_json, call.input_json):
            raise InvalidFrame("$.payload.context.input", "is not the input that was announced")
        return AgentQuestion(call.invocation_id, call.tool_name, interaction.title, call.input_json, options, call.kind)

    def refuses(self, frame: Frame) -> bool:
        """Return whether this `session.error` refuses the prompt itself."""
        return self._agents_turn_id is None and frame.metadata.get("in_reply_to") == self._message_id != ""

    def relayed_error(self, error: p.AgentError) -> p.AgentError:
        """Return an `agent.error` for the gateway: with our turn's id instead of the agent's."""
        if error.severity != "warning":
            self.error_reported = True
        return msgspec.structs.replace(error, turn_id=self.prompt.turn_id, message=error.message[:MAX_SENTENCE_CHARS])


def request_of(prompt: AgentPrompt) -> p.PromptRequest:
    """Return the prompt for the agent: text alone as text, anything else as blocks."""
    texts = [block.get("text") for block in prompt.content if block.get("type") == "text"]
    plain = len(texts) == len(prompt.content) == 1
    settings = prompt.settings
    return p.PromptRequest(
        prompt_id=prompt.prompt_id, input_type="text" if plain else "blocks", origin="user",
        text=str(texts[0]) if plain else None, content=None if plain else prompt.content, timeout_ms=prompt.timeout_ms,
        mode=settings.mode, model=settings.model, options=settings.options or None,
        system_append=settings.system_append, silent=settings.silent, context=settings.context,
    )


async def report_refused(turn_writer: TurnWriter, count: int) -> None:
    """Warn the user about refused parts of the turn."""
    if count > 0:
        lines = "line" if count == 1 else "lines"
        await turn_writer.warn(Code.INVALID_FRAME, f"The agent wrote {count} {lines} that Interlock refused.")


def _same(one: bytes, other: bytes) -> bool:
    try:
        return one == other or _read(one) == _read(other)
    except (ValueError, RecursionError):
        return False


def _read(raw: bytes) -> Any:
    """Decode JSON with fractions kept as text: two inputs are the same only if their figures are written alike."""
    return json.loads(raw, parse_float=str)


def _request(tokens: p.TokenUsage | None) -> RequestTokens | None:
    if tokens is None:
        return None
    return RequestTokens(tokens.input_tokens, tokens.output_tokens, tokens.cache_read_tokens or 0,
                         tokens.cache_write_tokens or 0)
