"""Recorded tool calls compared with rules: the decision at the time, and the decision by the current rules (P-1, J-13).

Each call is judged on the permission request that the gateway judged, read from its frame byte for byte, on the session
as it was then (its cost, whether its agent asked, its box), and on the command whose turn it belongs to: its principal,
its origin, and the tools that it names. What is not on record is named beside the call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, get_args

import msgspec

from interlock.command.card.permission_request import PermissionRequest
from interlock.command.policy.budget import MICROS, grown
from interlock.command.policy.policy import Origin, PolicySubject, RuleSet
from interlock.engine.bridge.approvals import unapproved_tools
from interlock.engine.bridge.approvals.policy_subjects import facts_of, person_of, request_of, request_subject
from interlock.engine.bridge.approvals.unapproved_tools import when_fallen
from interlock.engine.bridge.lane import SYSTEM
from interlock.protocol import payloads as p
from interlock.protocol.box import Box, parts
from interlock.protocol.clock import parse_iso
from interlock.protocol.policy_replay import ReplayedCall
from interlock.protocol.resources import Command, Node, Session
from interlock.session.turn import OpenTool


class RecordedState:
    """The policy inputs besides a call itself, folded from a session's frames in their order, as the gateway does."""

    def __init__(self) -> None:
        self.asks = True
        self.fell = False
        """The agent had used a tool without a yes, so that no rule allowed for a person any more."""
        self._micros = 0
        self._reported: float | None = None
        self._box: Box | None = None
        self._opening = ""

    def known(self) -> dict[str, Any]:
        """Return fields of `Subject` as they were."""
        return {"permission": "asks" if self.asks else "never", "cost_usd": self._micros / MICROS,
                "box": parts(self._box)}

    def take(self, frame_type: str, message_id: str, metadata: Mapping[str, Any], payload: msgspec.Raw) -> None:
        """Process the next frame, of either direction except for `session.usage` and `session.capabilities`, which are
        those of the runner. Raises MsgspecError."""
        match frame_type:
            case "control.session.open":
                self._opening = message_id
            case "session.capabilities":
                capabilities = msgspec.json.decode(payload, type=p.Capabilities)
                self.asks = capabilities.features.get("permission") == "asks" and not self.fell
                self._box = capabilities.box if metadata.get("in_reply_to") == self._opening else None
            case "session.closed":
                self._box = None
            case "x-interlock.asking.changed":
                self.asks = msgspec.json.decode(payload, type=p.AskingChanged).asks and not self.fell
            case "agent.error":
                if unapproved_tools.reports(msgspec.json.decode(payload, type=p.AgentError)):
                    self.asks, self.fell = False, True
            case "session.usage":
                self._spend(msgspec.json.decode(payload, type=p.Usage), estimated=metadata.get("estimated") is True)
            case _:
                pass

    def _spend(self, usage: p.Usage, *, estimated: bool) -> None:
        if usage.cost_usage.unit != "USD":
            return
        before = self._micros / MICROS if self._reported is None else self._reported
        spent = grown(before, usage.cost_usage.used, estimated=estimated)
        if spent is not None:
            self._reported = usage.cost_usage.used
            self._micros += max(0, spent)


COMMANDS_READ = 1_000
"""Number of a session's commands that are read to find whose turns they were; calls of older ones are judged
without."""


class RecordedCall(NamedTuple):
    """A call as recorded in the frames."""

    at: str
    turn_id: str
    request: PermissionRequest
    known: dict[str, Any]
    """Fields of `Subject` that are the session's, as they were."""
    fell: bool
    was: str
    was_rule: str


class _Asked(NamedTuple):
    at: str
    turn_id: str
    request: PermissionRequest
    known: dict[str, Any]
    fell: bool


class RecordedFrame(msgspec.Struct):
    """The parts of a frame that a replay reads."""

    type: str = ""
    message_id: str = ""
    timestamp: str = ""
    metadata: dict[str, Any] = {}
    payload: msgspec.Raw = msgspec.Raw(b"{}")


class _Answer(msgspec.Struct):
    interaction_id: str = ""
    decision: str = ""
    by: str = ""


class SessionRecordSource(Protocol):
    """A source of recorded sessions."""

    def frames(self, session_id: str) -> AsyncIterator[tuple[str, RecordedFrame]]:
        """Yield a session's frames in order, each with its kind (C or M), without the refused ones."""
        ...

    async def commands(self, session_id: str) -> Sequence[Command]:
        """Return the newest COMMANDS_READ commands of a session."""
        ...


async def replay_sessions(record: SessionRecordSource, sessions: Iterable[Session], policy: RuleSet,
                          trusted: frozenset[str]) -> AsyncIterator[ReplayedCall]:
    """Judge the calls of recorded sessions by these rules. `trusted` are the agents whose statement of a tool's kind is
    trusted."""
    for session in sessions:
        of_turn = {command.turn_id: command for command in await record.commands(session.session_id)
                   if command.turn_id is not None}
        async for call in _calls(record, session.session_id):
            command = of_turn.get(call.turn_id)
            subject = msgspec.structs.replace(_subject(session, call, command),
                                              trusted_kinds=session.agent_id in trusted)
            now = when_fallen(policy.decide(subject), fell=call.fell)
            asked = call.request.asked
            yield ReplayedCall(session.session_id, call.at, session.agent_id, asked.tool_name, call.request.title,
                               call.was, call.was_rule, now.effect, now.rule, _unknown(subject, command))


def trusted_kinds(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the agents whose statement of a tool's kind is trusted, as runners offer them."""
    return frozenset(str(offer.get("agent_id")) for node in nodes for offer in node.agents
                     if offer.get("trusted_kinds") is True)


async def _calls(record: SessionRecordSource, session_id: str) -> AsyncIterator[RecordedCall]:
    announced: dict[str, OpenTool] = {}
    asked: dict[str, _Asked] = {}
    turn_id, then = "", RecordedState()
    async for kind, frame in record.frames(session_id):
        if kind == "C" or frame.type.startswith("control."):
            then.take(frame.type, frame.message_id, frame.metadata, frame.payload)
        match frame.type:
            case "session.turn.start":
                turn_id = msgspec.json.decode(frame.payload, type=p.TurnStart).turn_id
                announced.clear()
            case "tool.invoke.request":
                call = msgspec.json.decode(frame.payload, type=p.ToolRequest)
                named = frame.metadata.get("kind")
                announced[call.invocation_id] = OpenTool(call.tool_name, bytes(call.input),
                                                         kind=named if isinstance(named, str) else None)
            case "agent.interaction.request":
                question = msgspec.json.decode(frame.payload, type=p.InteractionRequest)
                if question.interaction_type == "PERMISSION":
                    request = request_of(question, announced.get(question.context.invocation_id or ""))
                    asked[question.interaction_id] = _Asked(
                        frame.timestamp, turn_id, request, then.known(), then.fell)
            case "x-interlock.interaction.held" | "control.interaction.response":
                answer = msgspec.json.decode(frame.payload, type=_Answer)
                if answer.interaction_id in asked:
                    yield _recorded(asked.pop(answer.interaction_id), answer)
            case _:
                pass


def _recorded(pending: _Asked, answer: _Answer) -> RecordedCall:
    if not answer.decision:  # It was held.
        return RecordedCall(*pending, "ask", "a person was asked")
    was = "allow" if answer.decision == "allow" else "deny"
    return RecordedCall(*pending, was, answer.by.removeprefix("policy:"))


def _subject(session: Session, call: RecordedCall, command: Command | None) -> PolicySubject:
    asked = call.request.asked
    return request_subject(
        facts_of(call.request, session.workspace or ""), call.request.digest, tenant_id=session.tenant_id,
        agent_id=session.agent_id, origin=_origin(command), at_ms=parse_iso(call.at), **call.known,
        tool_name=asked.tool_name, tool_kind=asked.kind, session_id=session.session_id,
        allowed_tools=_tools(command), runner_id=session.runner_id or None,
        person=person_of(command.actor, command.driver) if command is not None else None,
    )


def _origin(command: Command | None) -> Origin:
    """Return a command's origin: cron jobs and hooks submit under a name of their own."""
    if command is None:
        return "system"
    named = command.actor.id.partition(":")[0] if command.actor.type == "agent" else ""
    if named == SYSTEM["id"]:
        return "flush"  # The gateway itself submits nothing else.
    return named if named in ("cron", "hook") and named in get_args(Origin) else command.actor.type


def _unknown(subject: PolicySubject, command: Command | None) -> list[str]:
    """Return the possible reasons of the decision that are not on record."""
    unknown: list[str] = []
    if command is None:
        unknown.append("command")
    elif subject.origin == "agent" and command.driver is None:
        unknown.append("driver")  # An earlier version did not show it.
    if subject.tool_kind is not None:
        unknown.append("trusted_kinds")  # As it is configured today.
    return unknown


def _tools(command: Command | None) -> tuple[str, ...]:
    if command is None or not isinstance(command.payload, msgspec.Raw):
        return ()
    return tuple(msgspec.json.decode(command.payload, type=dict[str, Any]).get("tools", ()))
