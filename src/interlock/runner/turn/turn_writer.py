"""Write an adapter's turn: calls become frames, ordered and bounded (`ports.agent.TurnWriter`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from interlock.ports.agent import AgentFile, AgentQuestion, CompactionFailed, InteractionAnswer, TurnUsage
from interlock.ports.outbox import CloseBlock
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import (
    MAX_DELTA_BYTES,
    MAX_FILE_BYTES,
    MAX_OPEN_TOOL_BYTES,
    MAX_OPEN_TOOLS,
    MAX_TOOL_INPUT_BYTES,
    PLAN_STEP_CHARS,
    PLAN_STEPS_MAX,
)
from interlock.protocol.sizes import split_text
from interlock.runner.journal import MAX_NAME_CHARS, MAX_TITLE_CHARS, Journal
from interlock.runner.process.programs import KIND as PROGRAM
from interlock.runner.session_state import TurnState
from interlock.runner.turn.allowed_input import allowed_input, without_yes
from interlock.runner.turn.blocks import BlockDelta, Blocks, Done, Kind, sound
from interlock.runner.turn.context_overflow import Overflow
from interlock.runner.turn.endings import running_usage
from interlock.runner.turn.interactions import Interactions, once
from interlock.runner.turn.tool_calls import Allowed, AnnouncedCall, bounded_input, clean
from interlock.session.transfers import File, chunks

READING = frozenset({"fetch", "read", "search", "think"})
"""Kinds of tools that may be approved in a session that may only read; every other one is denied at once."""
WRITING = frozenset({"delete", "edit", "execute", "move"})
MAX_GIVEN_UP = 64
"""Questions of one turn that the agent no longer waits for; from then on it is denied without asking: each one notifies
people and stays on record."""
TOO_MANY_GIVEN_UP = f"The agent gave up {MAX_GIVEN_UP} questions of this turn, so no further one is asked."


class TooManyOpenCalls(Exception):
    """Raised if an agent has more tool calls open than can be watched; the text is for a person."""


def file_frames(journal: Journal, file: File, metadata: dict[str, Any]) -> list[Frame]:
    """Return the frames of a file, to be written together. Raises TransferRefused above MAX_FILE_BYTES."""
    return [journal.frame("agent.file.transfer", chunk, metadata) for chunk in chunks(journal.new_uuid(), file)]


class _Delegation(msgspec.Struct):
    subagent_type: str | None = None


class StoredTurnWriter:
    """One turn's writer. After `finish` no call reaches a frame: some agents write after their end."""

    def __init__(self, journal: Journal, turn: TurnState, interactions: Interactions,
                 overflow: Overflow | None = None, *, asks: bool = False) -> None:
        self._asks = asks
        self._overflow = overflow or Overflow(journal, turn.turn_id)
        self._journal = journal
        self._turn = turn
        self._interactions = interactions
        self._blocks = Blocks(lambda prefix: prefix + journal.new_uuid(), journal.block_bytes)
        self._calls: dict[str, AnnouncedCall] = {}
        self._closed_calls: set[str] = set()
        self._order = asyncio.Lock()
        self._finished = False
        self._cancelled = False
        self.reported = TurnUsage()
        """Usage that the agent reported in mid-turn; the last figure of each field."""
        self._written = TurnUsage()
        """The part of it that is in a frame already."""
        self._given_up = 0
        self._percent: int | None = None
        self._plan: p.PlanChanged | None = None

    async def text(self, text: str) -> None:
        """Write text to the user (E-4)."""
        await self._write_text("text", text)

    async def thinking(self, text: str) -> None:
        """Write thinking, in separate blocks."""
        await self._write_text("thinking", text)

    async def end_block(self) -> None:
        """Close the open block (E-4)."""
        async with self._order:
            if not self._finished:
                await self._send(self._blocks.close())

    async def _write_text(self, kind: Kind, text: str) -> None:
        async with self._order:
            if not self._finished:
                await self._send(self._blocks.write(kind, sound(text)))

    async def _send(self, steps: list[BlockDelta | Done]) -> None:
        for step in steps:
            if isinstance(step, Done):
                await self._journal.write(*self._done(step), *self._running())
            else:
                payload = p.TextDelta(
                    turn_id=self._turn.turn_id, block_id=step.block_id, offset=step.offset, text=step.text
                )
                frame = self._journal.frame(f"agent.{step.kind}.delta", payload, self._marks(step))
                await self._journal.delta(frame, step.block_id, step.offset, step.text)

    def _marks(self, step: BlockDelta | Done) -> dict[str, Any]:
        return {**({"continues": step.continues} if step.continues else {}),
                **({"silent": True} if self._turn.silent else {})}

    def _done(self, done: Done) -> tuple[Frame, CloseBlock]:
        payload = p.TextDone(turn_id=self._turn.turn_id, block_id=done.block_id, text=done.text)
        frame = self._journal.frame(f"agent.{done.kind}.done", payload, self._marks(done))
        return frame, CloseBlock(self._journal.session_id, done.block_id)

    async def tool_request(self, invocation_id: str, tool_name: str, input_json: bytes, title: str | None = None,
                           parent_invocation_id: str | None = None, kind: str | None = None) -> None:
        """Announce a call once."""
        await self._announce(invocation_id, tool_name, input_json, title, parent_invocation_id, kind)

    async def _announce(self, invocation_id: str, tool_name: str, input_json: bytes, title: str | None,
                        parent: str | None, kind: str | None) -> None:
        async with self._order:
            if self._finished or invocation_id in self._calls or invocation_id in self._closed_calls:
                return
            await self._check_room(input_json)
            # Later text is about the call: it belongs in a new block.
            await self._send(self._blocks.close())
            shown, _ = bounded_input(input_json)
            payload = p.ToolRequest(
                invocation_id=invocation_id, turn_id=self._turn.turn_id,
                tool_name=sound(tool_name)[:MAX_NAME_CHARS], input=msgspec.Raw(shown),
                title=None if title is None else sound(title)[:MAX_TITLE_CHARS], parent_invocation_id=parent,
            )
            call = self._calls[invocation_id] = AnnouncedCall(
                invocation_id, self._journal.monotonic_ms, self._chain(parent), tool_name=payload.tool_name,
                input_json=input_json, delegates_to=_subagent(tool_name, input_json), kind=kind,
                silent=self._turn.silent)
            self._turn.tools[invocation_id] = self._journal.now_ms
            self._turn.tool_count += 1
            metadata = {**call.metadata, **({"kind": kind[:MAX_NAME_CHARS]} if kind else {})}
            # Usage precedes the call's result, which closes the message that the usage belongs to.
            await self._journal.write(self._journal.frame("tool.invoke.request", payload, metadata), *self._running())

    async def _check_room(self, input_json: bytes) -> None:
        """Check that one more open call fits. Raises TooManyOpenCalls: a call that cannot be shown cannot be watched
        either, so its agent is ended."""
        # A larger input is stored as its digest and head.
        inputs = (input_json, *(call.input_json for call in self._calls.values()))
        taken = sum(min(len(one), MAX_TOOL_INPUT_BYTES) for one in inputs)
        if len(self._calls) < MAX_OPEN_TOOLS and taken <= MAX_OPEN_TOOL_BYTES:
            return
        sentence = (f"The agent has more than {MAX_OPEN_TOOLS} tool calls or {MAX_OPEN_TOOL_BYTES >> 20} MiB of their "
                    "inputs open at once, so it is ended.")
        await self._journal.write(self._journal.agent_error("error", Code.FRAME_TOO_LARGE, sentence,
                                                            self._turn.turn_id))
        raise TooManyOpenCalls(sentence)

    def _chain(self, parent: str | None) -> list[dict[str, str]]:
        """Return the subagents that a call came through, each with the invocation that started it, outermost first."""
        call = self._calls.get(parent) if parent is not None else None
        if call is None:
            return []
        return [*call.chain, {"agent_id": call.delegates_to, "invocation_id": call.invocation_id}]

    async def tool_runs(self, invocation_id: str, input_json: bytes, *, printed: bool = False) -> None:
        """Report a call that runs without a yes, or with another input than the allowed one (H-3, H-12)."""
        async with self._order:
            call = self._calls.get(invocation_id)
            if call is not None and not self._finished:
                call.run_with(input_json)
                await self._check(call, input_json, printed=printed)

    async def _check(self, call: AnnouncedCall, input_json: bytes, *, printed: bool = False) -> None:
        found = without_yes(call, input_json, printed=printed) if self._asks and not call.reported else None
        if found is not None:
            call.report()
            await self._journal.write(self._journal.agent_error("error", *found, self._turn.turn_id))

    async def tool_output(self, invocation_id: str, channel: p.Channel, text: str) -> None:
        """Stream output of an open call."""
        async with self._order:
            call = self._calls.get(invocation_id)
            if call is None or self._finished:
                return
            for part in split_text(sound(text), MAX_DELTA_BYTES):
                span = call.stream(channel, part)
                payload = p.ToolStream(
                    invocation_id=invocation_id, channel=channel, offset=span.offset, text=span.text
                )
                frame = self._journal.frame("tool.invoke.stream", payload, call.metadata)
                await self._journal.delta(frame, f"{invocation_id}/{channel}", span.offset, span.text)

    async def tool_result(self, invocation_id: str, status: p.ToolStatus, output_type: p.OutputType, output: Any
                          ) -> None:
        """Close a call; a second result, or one of a call never announced, is ignored."""
        async with self._order:
            call = self._calls.pop(invocation_id, None)
            if call is None or self._finished:
                return
            self._closed_calls.add(invocation_id)
            if status == "ok":
                await self._check(call, call.input_json)
            if status == "ok" and self._journal.state.access != "rw" and call.kind in WRITING and not call.asked:
                # Only tools that the agent asks about can be limited to reading: report those that it did not ask for.
                await self.warn(Code.WORKSPACE_REFUSED, "The agent used a tool that may write without asking, in a "
                                f"session that may only read its workspace ({call.kind}).")
            await self._send(self._blocks.close())
            await self._journal.write(*self._running(), *self._result(call, status, output_type, clean(output)))

    def _result(self, call: AnnouncedCall, status: p.ToolStatus, output_type: p.OutputType, output: Any
                ) -> list[Frame | CloseBlock]:
        if status == "error":
            status = call.refusal or ("cancelled" if self._cancelled else "error")
        result = call.result(status, output_type, output, self._journal.monotonic_ms)
        closings = [CloseBlock(self._journal.session_id, block) for block in call.channels]
        whole: list[Frame] = []
        if call.whole is not None:
            # The result has its two ends; all of it goes to the object store (E-5).
            file = File(f"{call.tool_name}.txt", "text/plain; charset=utf-8", call.whole, "tool_output")
            whole = file_frames(self._journal, file, {**call.metadata, "invocation_id": call.invocation_id})
        named = {"transfer_id": whole[0].payload.transfer_id} if whole else {}
        return [*whole, self._journal.frame("tool.invoke.result", result, {**call.metadata, **named}), *closings]

    async def file(self, file: AgentFile, invocation_id: str | None = None) -> None:
        """Send a file to the user, in chunks that are written together (E-5)."""
        async with self._order:
            if self._finished:
                return
            if len(file.data) > MAX_FILE_BYTES:
                await self.warn(Code.FRAME_TOO_LARGE, f"The agent's file {sound(file.name)[:MAX_TITLE_CHARS]} of "
                                f"{len(file.data)} bytes exceeds the limit of {MAX_FILE_BYTES}, so it is left out.")
                return
            await self._send(self._blocks.close())
            call = self._calls.get(invocation_id or "")
            sent = File(sound(file.name), sound(file.media_type), file.data, "output" if call is None else "tool")
            metadata = {"silent": True} if self._turn.silent else {}
            if call is not None:
                metadata = {**call.metadata, "invocation_id": call.invocation_id}
            await self._journal.write(*file_frames(self._journal, sent, metadata))

    async def ask(self, question: AgentQuestion) -> InteractionAnswer:
        """Ask for permission (A-5). Never raises for a no; any error on the way is a no."""
        # An agent's own tool must not look like the start of a program that the kernel holds.
        return await self.ask_program(question._replace(kind=None) if question.kind == PROGRAM else question)

    async def ask_program(self, question: AgentQuestion) -> InteractionAnswer:
        """Ask whether a held program may start (H-16), or an agent's own question."""
        try:
            return await self._ask(question)
        except Exception as error:  # noqa: BLE001 - A-5: the default is deny, for any error.
            return InteractionAnswer(False, None, f"Interlock could not ask: {error}")

    async def _ask(self, question: AgentQuestion) -> InteractionAnswer:
        if question.invocation_id is not None:
            await self._announce(question.invocation_id, question.tool_name, question.input_json, question.title,
                                 None, question.kind)
        if self._finished:
            return InteractionAnswer(False, None, "The turn has ended.")
        call = self._calls.get(question.invocation_id or "")
        if call is not None and question.interaction_type == "PERMISSION":
            call.ask()
        try:
            answer = await self._refused(question) or await self._interactions.ask(question)
        except asyncio.CancelledError:
            self._given_up += 1
            if self._given_up == MAX_GIVEN_UP:
                await self.warn(Code.UNSUPPORTED_CAPABILITY, TOO_MANY_GIVEN_UP)
            raise
        if answer.allow and question.interaction_type == "PERMISSION" and call is not None:
            covered = Allowed(allowed_input(question, answer), question.content_json, question.described)
            call.allow(covered, changed=answer.updated_input is not None)
        if not answer.allow and question.interaction_type == "PERMISSION" and call is not None:
            call.deny(cancelled=self._cancelled)
        return answer

    async def _refused(self, question: AgentQuestion) -> InteractionAnswer | None:
        """Return a no without asking a person: for an input that cannot be shown whole, without a way to say yes once,
        or after too many questions that the agent gave up (E-5, A-9)."""
        if self._given_up >= MAX_GIVEN_UP:
            return InteractionAnswer(False, once(question.options, "reject_once"), TOO_MANY_GIVEN_UP)
        if len(question.input_json) + len(question.content_json or b"") + sum(map(len, question.locations)) \
                > MAX_TOOL_INPUT_BYTES:
            code = Code.FRAME_TOO_LARGE
            reason = f"The input of {question.tool_name} is too large to be shown and approved; it was denied."
        elif question.interaction_type == "QUESTION":
            return None
        elif self._journal.state.access != "rw" and question.kind not in READING | {PROGRAM}:  # A wall holds programs.
            code = Code.WORKSPACE_REFUSED
            reason = f"The session may only read its workspace; {question.tool_name} was denied."
        elif once(question.options, "allow_once") is None:
            code = Code.UNSUPPORTED_CAPABILITY
            reason = f"The agent offers no way to allow {question.tool_name} once; it was denied."
        else:
            return None
        await self.warn(code, reason)
        return InteractionAnswer(False, once(question.options, "reject_once"), reason)

    async def usage(self, usage: TurnUsage) -> None:
        """Store a figure for the usage that the turn owes (T-2)."""
        self.reported = merge_usage(self.reported, usage)

    def _running(self) -> list[Frame]:
        """Return a usage frame with the turn's running totals, if tokens or cost changed since the last (T-2)."""
        known = (self.reported.input_tokens, self.reported.output_tokens, self.reported.cost_usd)
        written = (self._written.input_tokens, self._written.output_tokens, self._written.cost_usd)
        if known == written:
            return []
        self._written = self.reported
        return [running_usage(self._journal, self._turn.turn_id, self.reported)]

    async def progress(self, percent: float) -> None:
        """Write `x-interlock.progress` if the figure has changed by a whole percent."""
        async with self._order:
            whole = round(min(max(percent, 0.0), 100.0))
            if self._finished or whole == self._percent:
                return
            self._percent = whole
            payload = p.Progress(turn_id=self._turn.turn_id, percent=whole)
            await self._journal.write(self._journal.frame("x-interlock.progress", payload))

    async def plan(self, steps: Sequence[p.PlanStep]) -> None:
        """Write `x-interlock.plan.changed` if the plan differs, with at most PLAN_STEPS_MAX of its steps."""
        async with self._order:
            shown = [msgspec.structs.replace(step, content=sound(step.content)[:PLAN_STEP_CHARS])
                     for step in steps[:PLAN_STEPS_MAX]]
            payload = p.PlanChanged(turn_id=self._turn.turn_id, steps=shown, left_out=len(steps) - len(shown))
            if self._finished or payload == self._plan:
                return
            self._plan = payload
            silent = {"silent": True} if self._turn.silent else {}
            await self._journal.write(self._journal.frame("x-interlock.plan.changed", payload, silent))

    async def warn(self, code: str, message: str) -> None:
        """Write `agent.error` with severity warning."""
        if not self._finished:
            await self._journal.write(self._journal.agent_error("warning", code, message, self._turn.turn_id))

    async def overflow(self, message: str) -> p.SessionCompact:
        """Report that the context is too long, and wait for the gateway's plan (Z-2)."""
        return await self._overflow.report_overflow(message)

    async def compacted(self, made: p.Compacted | CompactionFailed) -> None:
        """Answer the plan. Raises CompactionFailed for a summary that does not fit in a frame."""
        await self._overflow.report(made)

    async def cancel(self, reason: str) -> None:
        """Deny every waiting question, since the turn is cancelled; it continues to its end. A call that fails from now
        on is reported as `cancelled`: protocols such as ACP have no status for that, so agents report a failure."""
        self._cancelled = True
        frames = self._interactions.void(reason)
        if frames:
            await self._journal.write(*frames)

    async def finish(self, reason: str) -> list[Frame | CloseBlock]:
        """Close open blocks, questions and calls before the turn's end (T-3). Return the frames to be written."""
        async with self._order:
            self._finished = True
            writes: list[Frame | CloseBlock] = []
            for step in self._blocks.close():
                assert isinstance(step, Done), "closing makes nothing else"
                writes += self._done(step)
            writes += self._interactions.void(reason)
            for call in self._calls.values():
                writes += self._result(call, call.refusal or "cancelled", "text", None)
            self._calls.clear()
            return writes


def _subagent(tool_name: str, input_json: bytes) -> str:
    """Return the recipient of a Task or Agent call: the subagent in its input, else the tool itself."""
    try:
        named = msgspec.json.decode(input_json, type=_Delegation).subagent_type
    except msgspec.MsgspecError:
        named = None
    return sound(named or tool_name)[:MAX_NAME_CHARS]


def merge_usage(older: TurnUsage, newer: TurnUsage) -> TurnUsage:
    """Merge field by field; the newer figure wins."""
    known = {name: figure for name, figure in newer._asdict().items() if figure is not None}
    return older._replace(**known)
