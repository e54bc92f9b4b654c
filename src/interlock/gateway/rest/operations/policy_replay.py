"""The operation that compares rules with recorded tool calls: the earlier verdicts, and the new ones (J-13)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
from starlette.types import ASGIApp

from interlock.command.policy.policy import RuleSet
from interlock.command.policy.rule import Rule
from interlock.engine.sessions.recorded_calls import COMMANDS_READ, RecordedFrame, replay_sessions, trusted_kinds
from interlock.gateway.rest.answers import encode, raw_answer
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.ports.ledger import CommandQuery, Ledger, PutIdempotency, WriteBatch
from interlock.protocol.api import policy as api
from interlock.protocol.bodies import ReplayBody
from interlock.protocol.identifiers import session_stream
from interlock.protocol.limits import PAGE_MAX
from interlock.protocol.policy_replay import PolicyReplay, ReplayedCall
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import SessionRecord
from interlock.protocol.resources import Command

FRAMES_MAX = 20_000
"""Frames of a session that are read, from its first one on: a longer session is judged by these."""
FRAMES_ALL_MAX = 100_000
"""Frames that one request reads of all sessions together."""
FRAMES_A_PAGE = 500
SLICE_MS = 10
"""After judging for this long, the gateway's other work runs first."""


async def replay(call: ApiRequest) -> ASGIApp:
    """POST /policy/replay."""
    memory, desk, body = call.memory, call.front.desk, call.body
    assert memory is not None
    policy = desk.policy if body.rules is None else _rule_set(body.rules)
    records = await _sessions(call, body)
    found: list[ReplayedCall] = []
    judged, has_more = 0, False
    clock = call.front.clock
    began_ms = clock.monotonic_ms()
    source = _FromLedger(desk.ledger, call.principal.tenant_id)
    nodes = await desk.nodes(call.principal.tenant_id)
    sessions = [desk.sessions.shown(record) for record in records]
    async for one in replay_sessions(source, sessions, policy, trusted_kinds(nodes)):
        if judged >= body.calls:
            has_more = True
            break
        judged += 1
        if one.changed or not body.changed:
            found.append(one)
        if clock.monotonic_ms() - began_ms >= SLICE_MS:
            await asyncio.sleep(0)
            began_ms = clock.monotonic_ms()
    answer = PolicyReplay(found, len(records), sum(one.changed for one in found), has_more or source.was_cut)
    kept = memory.keep(200, encode(answer), {})
    await desk.ledger.commit(WriteBatch([PutIdempotency(kept)]))
    return raw_answer(kept.body, kept.status, kept.headers)


def _rule_set(tables: Sequence[dict[str, Any]]) -> RuleSet:
    """Parse rules as a config has them. Raises Problem InvalidPayload with the rule's place."""
    rules: list[Rule] = []
    for number, one in enumerate(tables):
        try:
            rules.append(msgspec.convert({name: value for name, value in one.items() if name != "source"}, Rule))
        except msgspec.ValidationError as error:
            raise Problem("InvalidPayload", f"Rule {number + 1} is not a rule: {error}.",
                          errors=(Place(f"/rules/{number}", "as [[policy.rules]]"),)) from None
    return RuleSet(rules)


async def _sessions(call: ApiRequest, body: ReplayBody) -> list[SessionRecord]:
    ledger, tenant = call.front.desk.ledger, call.principal.tenant_id
    if body.session_id is None:
        return await ledger.sessions(tenant, body.sessions)
    record = await ledger.session(body.session_id, tenant)
    if record is None:
        raise Problem("NotFound", f"There is no session {body.session_id}.", hint="List them with `GET /v1/sessions`.")
    return [record]


_decoder = msgspec.json.Decoder(RecordedFrame)


class _FromLedger:
    """Sessions of one tenant, as stored in the ledger."""

    def __init__(self, ledger: Ledger, tenant_id: str) -> None:
        self._ledger = ledger
        self._tenant_id = tenant_id
        self.was_cut = False
        """Whether there were more frames than FRAMES_MAX of a session, or FRAMES_ALL_MAX in all."""
        self._left = FRAMES_ALL_MAX

    async def commands(self, session_id: str) -> list[Command]:
        found: list[Command] = []
        before: str | None = None
        while len(found) < COMMANDS_READ:
            page = await self._ledger.commands(CommandQuery(self._tenant_id, session_id=session_id, before=before,
                                                            limit=PAGE_MAX))
            found += [record.command for record in page]
            if len(page) < PAGE_MAX:
                break
            before = page[-1].command.id
        return found

    async def frames(self, session_id: str) -> AsyncIterator[tuple[str, RecordedFrame]]:
        after = 0
        while after < FRAMES_MAX and self._left > 0:
            events = await self._ledger.events(self._tenant_id, session_stream(session_id), after, FRAMES_A_PAGE)
            self._left -= len(events)
            for event in events:
                if event.kind in ("C", "M"):
                    yield event.kind, _decoder.decode(event.body)
            if len(events) < FRAMES_A_PAGE:
                return
            after = events[-1].n
        self.was_cut = True


HANDLERS: tuple[Handler, ...] = (
    Handler(api.REPLAY_POLICY, replay),
)
