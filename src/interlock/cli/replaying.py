"""Recorded tool calls held against rules: what was decided then, and what the rules would say now (P-1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, NamedTuple, cast

import msgspec

from interlock.cli.gateway_link import GatewayLink
from interlock.command.policy import Policy, Subject
from interlock.engine.bridge.judging import tool_subject
from interlock.protocol.clock import parse_iso
from interlock.protocol.resources import Session

FRAMES_A_PAGE = "500"


class Replayed(NamedTuple):
    """One recorded call. `was` and `now` are allow, ask or deny."""

    session_id: str
    at: str
    agent: str
    tool: str
    what: str
    was: str
    was_rule: str
    now: str
    now_rule: str

    @property
    def changed(self) -> bool:
        """Whether it would be decided otherwise."""
        return self.was != self.now


class _Explained(msgspec.Struct):
    effect: str
    rule: str


class Recorded(NamedTuple):
    """A call as the frames tell it."""

    at: str
    tool: str
    kind: str | None
    input_bytes: bytes
    was: str
    was_rule: str


async def replay_sessions(
    link: GatewayLink, sessions: Iterable[Session], policy: Policy | None
) -> AsyncIterator[Replayed]:
    """Go through the calls of recorded sessions. Without a policy the gateway says what its own rules say."""
    for session in sessions:
        async for call in _calls(link, session.session_id):
            now = await _decided(link, session, call, policy)
            yield Replayed(session.session_id, call.at, session.agent_id, call.tool, _what(call.input_bytes),
                           call.was, call.was_rule, now.effect, now.rule)


async def _calls(link: GatewayLink, session_id: str) -> AsyncIterator[Recorded]:
    inputs: dict[str, tuple[bytes, str | None]] = {}
    asked: dict[str, tuple[str, dict[str, Any]]] = {}
    async for frame in _frames(link, session_id):
        payload = cast("dict[str, Any]", frame.get("payload") or {})
        name = str(payload.get("interaction_id"))
        match frame.get("type"):
            case "tool.invoke.request":
                kind = cast("dict[str, Any]", frame.get("metadata") or {}).get("kind")
                inputs[str(payload.get("invocation_id"))] = msgspec.json.encode(payload.get("input")), kind
            case "agent.interaction.request" if payload.get("interaction_type") == "PERMISSION":
                asked[name] = str(frame.get("timestamp")), cast("dict[str, Any]", payload.get("context") or {})
            case "x-interlock.interaction.held" if name in asked:
                yield _recorded(asked.pop(name), inputs, "ask", "a person was asked")
            case "control.interaction.response" if name in asked:
                was = "allow" if payload.get("decision") == "allow" else "deny"
                yield _recorded(asked.pop(name), inputs, was, str(payload.get("by")).removeprefix("policy:"))
            case _:
                pass


def _recorded(
    asked: tuple[str, dict[str, Any]], inputs: dict[str, tuple[bytes, str | None]], was: str, rule: str
) -> Recorded:
    at, context = asked
    known = inputs.get(str(context.get("invocation_id")))
    raw, kind = known if known is not None else (msgspec.json.encode(context.get("input") or {}), None)
    return Recorded(at, str(context.get("tool_name")), kind, raw, was, rule)


async def _frames(link: GatewayLink, session_id: str) -> AsyncIterator[dict[str, Any]]:
    since: str | None = None
    while True:
        params = {"limit": FRAMES_A_PAGE, **({"since": since} if since else {})}
        page = msgspec.json.decode(await link.get(f"/v1/sessions/{session_id}/frames", params))
        for event in page["events"]:
            if event.get("kind") != "refused" and isinstance(event.get("frame"), dict):
                yield event["frame"]
        since = page["next_cursor"]
        if not page["has_more"]:
            return


async def _decided(link: GatewayLink, session: Session, call: Recorded, policy: Policy | None) -> _Explained:
    if policy is None:
        params = {"agent": session.agent_id, "tool": call.tool, "input": call.input_bytes.decode(),
                  "workspace": session.workspace or "", "session_id": session.session_id}
        return await link.read("/v1/policy/decision", _Explained, params)
    verdict = policy.decide(_subject(session, call))
    return _Explained(verdict.effect, verdict.rule)


def _subject(session: Session, call: Recorded) -> Subject:
    return tool_subject(
        call.input_bytes, session.workspace or "", tenant_id=session.tenant_id, agent_id=session.agent_id,
        origin="user", permission="asks", at_ms=parse_iso(call.at), tool_name=call.tool, tool_kind=call.kind,
        session_id=session.session_id,
    )


def _what(raw: bytes) -> str:
    value = msgspec.json.decode(raw)
    command: Any = cast("dict[str, Any]", value).get("command") if isinstance(value, dict) else None
    return command if isinstance(command, str) else raw.decode()
