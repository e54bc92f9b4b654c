"""Recorded sessions, read over REST, and the rules in force, for `interlock policy replay` (P-1)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import msgspec

from interlock.cli.link.gateway_link import GatewayLink, decoded
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.sessions import recorded_calls
from interlock.engine.sessions.recorded_calls import COMMANDS_READ, RecordedFrame, trusted_kinds
from interlock.protocol.api.commands import LIST_COMMANDS
from interlock.protocol.api.gateway import LIST_NODES
from interlock.protocol.api.policy import GET_POLICY
from interlock.protocol.api.sessions import GET_FRAMES
from interlock.protocol.policy_replay import ReplayedCall
from interlock.protocol.resources import Command, Session
from interlock.sdk.requests.base import read

FRAMES_A_PAGE = "500"


class _Event(msgspec.Struct):
    kind: str = ""
    frame: RecordedFrame | None = None


class _Page(msgspec.Struct):
    events: list[_Event]
    next_cursor: str | None
    has_more: bool


async def rules_in_force(link: GatewayLink) -> RuleSet:
    """Read the gateway's rules, the remembered ones among them. Raises Trouble."""
    listed = (await link.ask(read(GET_POLICY))).rules
    rules = {source: [msgspec.convert({name: value for name, value in one.items() if name != "source"}, Rule)
                     for one in listed if one["source"] == source] for source in ("config", "remembered")}
    return RuleSet(rules["config"], rules["remembered"], remember_described=True)  # The list has the rules in force.


async def replay_sessions(link: GatewayLink, sessions: Iterable[Session], policy: RuleSet
                          ) -> AsyncIterator[ReplayedCall]:
    """Judge the calls of recorded sessions by these rules. Raises Trouble."""
    nodes = (await link.ask(read(LIST_NODES))).nodes
    async for call in recorded_calls.replay_sessions(_OverRest(link), sessions, policy, trusted_kinds(nodes)):
        yield call


class _OverRest:
    def __init__(self, link: GatewayLink) -> None:
        self._link = link

    async def commands(self, session_id: str) -> list[Command]:
        return await self._link.list(LIST_COMMANDS.at(), Command, {"session": session_id}, COMMANDS_READ)

    async def frames(self, session_id: str) -> AsyncIterator[tuple[str, RecordedFrame]]:
        since: str | None = None
        while True:
            params = {"limit": FRAMES_A_PAGE, **({"since": since} if since else {})}
            path = GET_FRAMES.at(session_id)
            page = decoded(await self._link.get(path, params), _Page, path)
            for event in page.events:
                if event.kind != "refused" and event.frame is not None:
                    yield event.kind, event.frame
            since = page.next_cursor
            if not page.has_more:
                return
