"""Forward an ACP agent's updates during a prompt to the turn writer, in their order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Literal

import msgspec

from interlock.agents.acp import wire
from interlock.agents.acp.calls import ENDED, AcpToolCall, AcpToolCalls, is_empty
from interlock.agents.acp.choices import Choices
from interlock.agents.acp.content import file_of
from interlock.agents.acp.effects import Effect, Reader, RequestRead
from interlock.agents.acp.inquiries import Inquiry, LateInquiry, elicited, inquiry_of
from interlock.agents.acp.readers import read
from interlock.agents.acp.usage import Tokens
from interlock.agents.plan_steps import plan_step
from interlock.command.card.request import announces, lacks_effect
from interlock.ports.agent import AgentQuestion, Option, TurnUsage, TurnWriter
from interlock.protocol.codes import Code

INPUT_WAIT_S = 3.0
"""Limit for an agent that reports a call's whole input right after its request; then the request counts as described.
"""
_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")


class AcpUpdates:
    """The updates of one agent's session. Without a turn writer (no prompt runs) only figures are remembered."""

    def __init__(self, session_id: str, choices: Choices, tokens: Tokens, reader: Reader | None = None,
                 workspace: str = "") -> None:
        """`reader` finds the effect of a permission request in this agent's format."""
        self._session_id = session_id
        self._reader = reader
        self._workspace = workspace
        self._choices = choices
        self._tokens = tokens
        self._calls = AcpToolCalls()
        self._turn_writer: TurnWriter | None = None
        self._cost = 0.0
        self._cost_before = 0.0
        self.spoke = False
        """Whether the prompt has produced text, a file or a tool call."""
        self._cancelled = False
        """Whether a cancel was requested: no further question reaches a person."""
        self._asked_elsewhere = False
        """Whether it asked for a permission under another session's id; reported once."""
        self._reported = asyncio.Event()
        """Set, and replaced, when a tool call was reported or the prompt was answered."""

    def begin(self, turn_writer: TurnWriter) -> None:
        """Start a prompt."""
        self._turn_writer = turn_writer
        self.spoke = self._cancelled = self._asked_elsewhere = False
        self._cost_before = self._cost
        self._tokens.begin()

    def cancel(self) -> None:
        """Pass no further question of the prompt to a person."""
        self._cancelled = True

    def end(self) -> None:
        """End the prompt: later updates belong to no turn."""
        self._turn_writer = None
        self._calls.end_all()
        self._wake()

    async def take(self, params: bytes) -> None:
        """Handle one `session/update`. Raises msgspec.DecodeError for anything else."""
        update = wire.UPDATE.decode(params)
        if update.session_id != self._session_id:
            return
        match kind := wire.KIND.decode(update.update).session_update:
            case "agent_message_chunk":
                await self._chunk(update.update, "text")
            case "agent_thought_chunk":
                await self._chunk(update.update, "thinking")
            case "tool_call" | "tool_call_update":
                await self._tool(wire.tool_call(update.update), begins=kind == "tool_call")
                self._wake()
            case "plan":
                await self._plan(wire.PLAN.decode(update.update))
            case "usage_update":
                await self._usage(wire.USAGE_UPDATE.decode(update.update))
            case "current_mode_update":
                self._choices.reported("mode", wire.CURRENT_MODE.decode(update.update).current_mode_id)
            case "config_option_update":
                self._choices.reported_options(wire.CONFIG_OPTIONS.decode(update.update).config_options)
            case _:
                # The user's own message, plans, commands, and vendors' additions: not part of a turn.
                return

    async def _chunk(self, raw: msgspec.Raw, kind: Literal["text", "thinking"]) -> None:
        chunk = wire.CHUNK.decode(raw)
        content, text = chunk.content, chunk.content.get("text")
        if self._turn_writer is not None and (taken := self._tokens.chunk(chunk.meta)) is not None:
            await self._turn_writer.usage(taken)
        if self._turn_writer is not None and kind == "text" and (file := file_of(content)) is not None:
            self.spoke = True
            await self._turn_writer.file(file)
        if self._turn_writer is None or not isinstance(text, str) or not text:
            return
        if kind == "text":
            self.spoke = self.spoke or bool(text.strip())
            await self._turn_writer.text(text)
        else:
            await self._turn_writer.thinking(text)

    async def _tool(self, update: wire.AcpToolCallWire, *, begins: bool) -> None:
        call = self._calls.find(update, begins=begins) if self._turn_writer is not None else None
        if call is None or self._turn_writer is None:
            return
        waits = self._reader is not None and self._reader.waits
        if call.begun if waits else call.ready(update.status):
            await self._announce(call)
        if not call.announced:
            return
        spans = call.live(update)
        if call.runs(update):
            await self._turn_writer.tool_runs(call.invocation_id, call.input_json, printed=call.printed(update))
        for channel, text in spans:
            await self._turn_writer.tool_output(call.invocation_id, channel, text)
        if update.status in ENDED:
            for file in call.files:
                await self._turn_writer.file(file, call.invocation_id)
            output_type, output = call.output()
            self._calls.end(update.tool_call_id)
            await self._turn_writer.tool_result(call.invocation_id, call.status(update.status), output_type, output)

    async def _announce(self, call: AcpToolCall) -> None:
        if not call.announced and self._turn_writer is not None:
            call.note_announced()
            self.spoke = True
            await self._turn_writer.tool_request(
                call.invocation_id, call.name, call.input_json, call.title, call.parent, call.kind
            )

    async def _plan(self, plan: wire.AgentPlan) -> None:
        """Forward a plan, which is sent whole each time (J-14); the share of done entries is the turn's progress (S-5).
        """
        if self._turn_writer is None:
            return
        await self._turn_writer.plan([plan_step(entry.content, entry.status, entry.priority) for entry in plan.entries])
        if plan.entries:
            done = sum(entry.status == "completed" for entry in plan.entries)
            await self._turn_writer.progress(100 * done / len(plan.entries))

    async def _usage(self, update: wire.UsageUpdate) -> None:
        if update.cost is not None and update.cost.currency == "USD":
            self._cost = update.cost.amount
        if self._turn_writer is not None:
            cost = self._cost - self._cost_before if update.cost is not None else None
            await self._turn_writer.usage(
                TurnUsage(context_used=update.used, context_capacity=update.size, cost_usd=cost)
            )

    async def warn(self, code: str, sentence: str) -> None:
        """Report a problem to the open turn, if any."""
        if self._turn_writer is not None:
            await self._turn_writer.warn(code, sentence)

    async def inquiry(self, method: str, params: bytes) -> Inquiry | None:
        """Announce a request's call and return its inquiry; None if no prompt runs that could ask, or if it cannot be
        asked. Raises msgspec.DecodeError for any other request."""
        if method == "elicitation/create":
            return await self._elicitation(wire.ELICITATION.decode(params))
        permission, own = wire.PERMISSION.decode(params), wire.ASKED_PERMISSION.decode(params).tool_call
        wire.ANYTHING.decode(params)
        if self._turn_writer is None or await self._elsewhere(permission, self._turn_writer):
            return None
        if self._reader is not None and self._reader.waits:
            over = self._over(self._turn_writer)
            return LateInquiry(lambda: self._with_input(permission, own, over))
        return await self._permission(permission, own)

    async def _permission(self, permission: wire.Permission, own: wire.AskedCall) -> Inquiry | None:
        found = await self.question(permission, own)
        return None if found is None else inquiry_of(permission, *found, self._over(found[1]))

    async def _with_input(self, permission: wire.Permission, own: wire.AskedCall, over: Callable[[], bool]
                          ) -> Inquiry | None:
        """Return the permission once the call's whole input is reported, or at the time limit."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(INPUT_WAIT_S):
                while not over() and not self._begun(permission.tool_call.tool_call_id):
                    await self._reported.wait()
        return None if over() else await self._permission(permission, own)

    def _begun(self, call_id: str) -> bool:
        call = self._calls.open(call_id)
        return call is not None and call.begun

    def _wake(self) -> None:
        self._reported.set()
        self._reported = asyncio.Event()

    async def _elsewhere(self, permission: wire.Permission, turn_writer: TurnWriter) -> bool:
        """Return whether a permission is requested under another session's id."""
        if permission.session_id == self._session_id:
            return False
        if not self._asked_elsewhere:
            self._asked_elsewhere = True
            await turn_writer.warn(Code.INVALID_FRAME, "The agent asked for a permission under the id of another "
                                   "session, so it was denied.")
        return True

    def _over(self, turn_writer: TurnWriter) -> Callable[[], bool]:
        return lambda: self._cancelled or self._turn_writer is not turn_writer

    async def _elicitation(self, elicitation: wire.Elicitation) -> Inquiry | None:
        if elicitation.session_id != self._session_id or self._turn_writer is None:
            return None
        turn_writer, call = self._turn_writer, self._calls.open(elicitation.tool_call_id)
        if call is not None:
            await self._announce(call)
        about = AgentQuestion(None if call is None else call.invocation_id, "question" if call is None else call.name,
                              elicitation.message, b"{}", [])
        form = elicited(elicitation, about, turn_writer, self._over(turn_writer))
        if form is None:
            await turn_writer.warn(Code.UNSUPPORTED_CAPABILITY, "The agent asked for something that cannot be answered "
                                   "in words, so it got no answer.")
        return form

    async def question(
        self, permission: wire.Permission, own: wire.AskedCall
    ) -> tuple[AgentQuestion, TurnWriter] | None:
        """Announce the call of a `session/request_permission` and return its question; None if no prompt runs."""
        if self._turn_writer is None:
            return None
        turn_writer = self._turn_writer
        before = self._calls.open(permission.tool_call.tool_call_id) or AcpToolCall(permission.tool_call.tool_call_id)
        announced = before.input_json
        effect = read(self._reader, RequestRead(own, before, self._workspace,
                                                self._calls.others(permission.tool_call.tool_call_id)))
        call = self._calls.find(msgspec.structs.replace(permission.tool_call, raw_input=effect.call.raw_input),
                                asks=True)
        if call is None:
            return None
        await self._announce(call)
        options = [
            Option(option.option_id, option.name or option.option_id, option.kind)
            for option in permission.options
            if option.kind in _KINDS
        ]
        return _subject(effect, call, (announced, before.announced_json), options), turn_writer


def _subject(effect: Effect, call: AcpToolCall, before: tuple[bytes, bytes], options: list[Option]) -> AgentQuestion:
    """Make the question from the request itself, not from what was announced or request under its id `before`: the last
    input, and the last that was announced (H-1)."""
    request = effect.call
    own = bytes(request.raw_input) if not is_empty(request.raw_input) else b""
    kind = request.kind or call.kind
    return AgentQuestion(
        call.invocation_id, call.name, request.title or call.title or call.name, own or b"{}", options, kind,
        locations=tuple(location.path for location in request.locations or []),
        content_json=None if is_empty(request.content) else bytes(request.content),
        described=effect.partial or (lacks_effect(kind, own) and not effect.whole),
        changed=own not in before and before[0] != b"{}" and not announces(before[0], own or b"{}",
                                                                           bytes(request.content)),
    )
