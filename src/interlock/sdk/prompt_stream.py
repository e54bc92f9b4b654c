"""One prompt as typed parts, from its submission to its end: `gateway.stream(…)` (Y-14). A flow."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypedDict

import msgspec

from interlock.protocol import payloads as p
from interlock.protocol.answers import FrameEvent
from interlock.protocol.api.commands import GET_COMMAND
from interlock.protocol.api.sessions import GET_FRAMES, LIST_SESSIONS
from interlock.protocol.frames import FRAMES
from interlock.protocol.resources import Approval, Command, CommandBody, Notice, OnBusy, StatusEvent
from interlock.sdk.exchange import Call, Effect, Flow, Give, Now, ReceiveMessage, RequestSpec, RetryPolicy, exchange
from interlock.sdk.follower import Lost, Reattached, StreamEvent
from interlock.sdk.multiplexer import StreamEnd, Watched, watching
from interlock.sdk.place import fresh_key
from interlock.sdk.problems import Refused
from interlock.sdk.requests import approvals
from interlock.sdk.requests.base import read

DRAIN_S = 10.0
"""How long to wait for the last frames of an ended command."""
DECIDED = frozenset({"Conflict", "NotFound"})
"""Codes of a vote that came too late: another approver has decided."""
_frame = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True)
class AgentTextPart:
    """A piece of the agent's text, in order and each once. `thinking` if it is the agent's reasoning."""

    text: str
    thinking: bool = False


@dataclass(frozen=True)
class ToolStartPart:
    """The agent calls a tool."""

    invocation_id: str
    name: str
    title: str
    input: msgspec.Raw


@dataclass(frozen=True)
class ToolOutputPart:
    """A piece of a running tool's output."""

    invocation_id: str
    text: str


@dataclass(frozen=True)
class ToolEndPart:
    """A tool call has ended: `status` is "ok", or why not."""

    invocation_id: str
    status: str
    output: Any


@dataclass(frozen=True)
class ApprovalPart:
    """An approval or a question of this prompt waits for a person, or was decided (its `state`)."""

    approval: Approval


@dataclass(frozen=True)
class UsagePart:
    """The tokens of the turn so far."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class NoticePart:
    """Something that a person must know about the prompt or its session."""

    notice: Notice


@dataclass(frozen=True)
class EndPart:
    """The last part: the task as it ended."""

    command: Command


PARTS = (AgentTextPart, ToolStartPart, ToolOutputPart, ToolEndPart, ApprovalPart, UsagePart, NoticePart, EndPart)
"""The types of parts that the reference describes."""
PromptPart: TypeAlias = (AgentTextPart | ToolStartPart | ToolOutputPart | ToolEndPart | ApprovalPart | UsagePart
                         | NoticePart | EndPart | Lost | Reattached)


class PromptTarget(TypedDict, total=False):
    """The target and options of a prompt: the arguments of `commands.submit`."""

    agent: str | None
    session_id: str | None
    session_key: str | None
    runner_id: str | None
    workspace: str | None
    tools: Sequence[str]
    priority: int
    timeout_ms: int | None
    approvals: int | None
    on_busy: OnBusy
    close_session: bool
    reason: str | None
    idempotency_key: str | None


Decision: TypeAlias = bool | str | None
"""True allows, False denies, a text answers a question, None leaves it to another approver."""
OnApproval: TypeAlias = Callable[[Approval], Decision | Awaitable[Decision]]


def prompt_stream(ask: RequestSpec[Command], on_approval: OnApproval | None, retries: RetryPolicy) -> Flow[None]:
    """Submit a prompt and yield its parts, the last of which is `EndPart`. Raises InterlockError.

    A lost connection is resumed, with `Lost` and `Reattached` in between: text is yielded completely and once; a piece
    of a running tool's output may be missing, which its `ToolEndPart` has. If the reader stops reading, the prompt
    continues.
    """
    since = yield from _present(ask, retries)
    command = yield from exchange(ask.with_key(fresh_key()), retries)
    watched, parts = Watched(), _Parts(command)
    watched.command(command.id)
    if command.target.session_id is not None:
        watched.session(command.target.session_id, since=since)
    inner = watching(watched, retries)
    came: Any = None
    while True:
        try:
            effect: Effect = inner.send(came)
        except StopIteration:
            break
        came = None
        if isinstance(effect, Give):
            for part in parts.of(effect.item):
                yield Give((yield from _asked(part, on_approval, retries)) if isinstance(part, _Changed) else part)
        else:
            came = yield effect
        if parts.ended_s is None and parts.has_ended:
            parts.ended_s = yield Now()
            parts.turn_id = (yield from exchange(read(GET_COMMAND, command.id), retries)).turn_id
        if parts.ended_s is not None and (yield from _drained(parts, effect)):
            inner.close()
            break
    yield Give(EndPart((yield from exchange(read(GET_COMMAND, command.id), retries))))


def _present(ask: RequestSpec[Command], retries: RetryPolicy) -> Flow[str | None]:
    """Return the cursor at the current end of the prompt's session; None if the prompt has no session yet."""
    target = msgspec.json.decode(ask.body or b"{}", type=CommandBody).target
    session_id = target.session_id
    if session_id is None and target.session_key is not None:
        found = yield from exchange(read(LIST_SESSIONS, key=target.session_key, limit="1"), retries)
        session_id = found.items[0].session_id if found.items else None
    if session_id is None:
        return None
    frames = read(GET_FRAMES, session_id, last="0", limit="1")
    return (yield from exchange(frames, retries)).next_cursor


def _asked(changed: _Changed, on_approval: OnApproval | None, retries: RetryPolicy) -> Flow[ApprovalPart]:
    """Read an approval, have `on_approval` decide it if it is pending, and return its new state."""
    approval = yield from exchange(approvals.show(changed.approval_id), retries)
    if approval.state != "pending" or on_approval is None:
        return ApprovalPart(approval)
    decision: Decision = yield Call(on_approval, approval)
    if decision is None:
        return ApprovalPart(approval)
    try:
        approval = yield from exchange(_vote(approval, decision).with_key(fresh_key()), retries)
    except Refused as refused:
        if refused.problem not in DECIDED:
            raise
        approval = yield from exchange(approvals.show(approval.id), retries)
    return ApprovalPart(approval)


def _vote(approval: Approval, decision: bool | str) -> RequestSpec[Approval]:
    if approval.kind == "question":
        return approvals.answer(approval.id, decision if isinstance(decision, str) else None)
    if decision is not True:
        return approvals.deny(approval.id, comment=decision if isinstance(decision, str) else None)
    # The digest of the received bytes, not the one that the gateway states.
    shown = approval.subject if isinstance(approval.subject, msgspec.Raw) else approval.input
    return approvals.grant(approval.id, digest=hashlib.sha256(bytes(shown)).hexdigest())


def _drained(parts: _Parts, effect: Effect) -> Flow[bool]:
    """Return whether the frames of the ended command have all arrived, or will not arrive."""
    if parts.turn_id is None or parts.turn_id in parts.ended_turns:
        return True
    if not isinstance(effect, ReceiveMessage):
        return False
    now: float = yield Now()
    return now - (parts.ended_s or now) > DRAIN_S


class _Changed(NamedTuple):
    """An approval of which only the id is known: it is pending, or was decided."""

    approval_id: str


class _Parts:
    """The parts of one command among the events of its own stream and of its session's."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self.has_ended = False
        self.ended_s: float | None = None
        self.turn_id: str | None = None
        self.ended_turns = set[str]()
        self._is_own = False
        """Whether the current frames belong to this prompt: its session may have worked on others before."""
        self._passed: dict[str, int] = {}

    def of(self, item: Any) -> Iterator[PromptPart | _Changed]:
        """Return the parts of what was received."""
        match item:
            case Lost() | Reattached():
                yield item
            case StreamEnd(ref, error) if ref == self._command.id:
                if error is not None:
                    raise error
                self.has_ended = True
            case StreamEvent(data=StatusEvent() as event):
                yield from self._status(event)
            case StreamEvent(data=FrameEvent() as event):
                yield from self._frame(event)
            case _:
                return

    def _status(self, event: StatusEvent) -> Iterator[PromptPart | _Changed]:
        if event.event == "approval" and event.approval_id is not None:
            yield _Changed(event.approval_id)
        elif event.event == "notice" and event.notice is not None:
            yield NoticePart(event.notice)

    def _frame(self, event: FrameEvent) -> Iterator[PromptPart]:
        if not isinstance(event.frame, msgspec.Raw) or event.kind == "refused":
            return
        frame = _frame.decode(event.frame)
        row = FRAMES.get(str(frame.get("type")))
        if row is None:
            return
        try:
            payload = msgspec.json.decode(msgspec.json.encode(frame.get("payload")), type=row.payload)
        except msgspec.ValidationError:
            return  # Of a newer gateway.
        if isinstance(payload, p.PromptRequest):
            self._is_own = payload.command_id == self._command.id
        elif self._is_own:
            yield from self._of(row.name, payload)

    def _of(self, name: str, payload: p.Payload) -> Iterator[PromptPart]:
        match payload:
            case p.TextDelta():
                yield from self._text(name, payload, payload.offset)
            case p.TextDone():
                yield from self._text(name, payload, 0)
            case p.ToolRequest():
                yield ToolStartPart(payload.invocation_id, payload.tool_name, payload.title or payload.tool_name,
                                    payload.input)
            case p.ToolStream():
                yield ToolOutputPart(payload.invocation_id, payload.text)
            case p.ToolResult():
                yield ToolEndPart(payload.invocation_id, payload.status, payload.output)
            case p.Usage():
                tokens = payload.token_usage
                yield UsagePart(int(tokens.input_tokens), int(tokens.output_tokens))
            case p.TurnEnd():
                self.ended_turns.add(payload.turn_id)
            case _:
                return

    def _text(self, name: str, piece: p.TextDelta | p.TextDone, offset: int) -> Iterator[PromptPart]:
        block = f"{piece.turn_id}/{piece.block_id}"
        passed = self._passed.get(block, 0)
        if offset <= passed and (fresh := piece.text[passed - offset:]):
            self._passed[block] = offset + len(piece.text)
            yield AgentTextPart(fresh, thinking=name.startswith("agent.thinking."))

