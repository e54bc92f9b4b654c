"""Routing of a command: its session, its agent, its runner (racp section 1, Routing)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from posixpath import normpath
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from interlock.engine.bridge.context.context_state import ContextState
from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.lanes.lane_shell import LaneShell
from interlock.engine.membership import Elsewhere
from interlock.engine.presence import Present, RunnerPresence
from interlock.ports.clock import Clock, Entropy
from interlock.ports.ledger import Ledger, StoredBallot
from interlock.protocol.identifiers import uuid4
from interlock.protocol.problems import Place, Problem, not_offered
from interlock.protocol.records import Principal, SessionRecord
from interlock.protocol.resources import CommandBody, Target
from interlock.session.keys import BadKey, agent_of, canonical_agent, canonical_key, run_key

DEFAULT_AGENT = "shell"
RETURN_MS = 60_000
"""A runner that was attached within this time is expected to reconnect by itself."""
START_MS = 30_000
"""Paired runners are expected to connect within this time after the gateway's start."""
RETURN_RETRY_S = 2
"""The value of `Retry-After` meanwhile."""
RUNNERS_NAMED = 20
"""Maximum number of runners that a refusal lists if one must be chosen."""


async def _see_nothing_else() -> None:
    """Do nothing: all existing runners are attached here."""


class Route(NamedTuple):
    """A session that exists, or the state that a new one begins with."""

    session_id: str
    fresh: LaneState | None
    runner_id: str


class Router:
    """The router: it finds or names the session of a command. Raises Problem. `live` are the lanes in memory by
    session, which need no read from the ledger."""

    def __init__(self, ledger: Ledger, presence: RunnerPresence, clock: Clock, entropy: Entropy,
                 live: Mapping[str, LaneShell] = MappingProxyType({}), *, wall: Clock | None = None) -> None:
        """Create the router. `clock` is the deadline clock, which a session's times are of, `wall` the clock by
        which a runner was last seen."""
        self._ledger = ledger
        self._presence = presence
        self._look: Callable[[], Awaitable[None]] = _see_nothing_else
        self._clock = clock
        self._wall = wall or clock
        self._began_ms = clock.monotonic_ms()
        self._entropy = entropy
        self._live = live

    def look_by(self, look: Callable[[], Awaitable[None]]) -> None:
        """Set `look`, which finds the runners that are attached to other gateways, before one is chosen."""
        self._look = look

    async def look(self) -> None:
        """Find which runners are attached anywhere."""
        await self._look()

    async def find(self, principal: Principal, body: CommandBody) -> Route:
        """Return where a command goes. Raises Problem."""
        return await (self.execute if body.type == "execute" else self.existing)(principal, body.target)

    async def seek(self, principal: Principal, body: CommandBody, *, guess: bool) -> Route:
        """Do what `find` does; with `guess` raise Elsewhere if the session's runner is known to be attached to another
        gateway: its lane is that one's by the rule of `Leases.take`, or soon will be. A new session is also opened
        there: a gateway that held its key first would have to release it again, while others wait for the key."""
        route = await self.find(principal, body)
        if guess:
            self._follow(route.session_id, route.runner_id)
        return route

    async def follow_key(self, principal: Principal, agent_id: str, key: str, workspace: str | None) -> None:
        """Raise Elsewhere if the runner of a key's session, or of the one that would be opened, is known to be attached
        to another gateway."""
        record = await self._ledger.session_by_key(principal.tenant_id, key)
        if record is not None:
            self._follow(record.session_id, record.runner_id)
            return
        with suppress(Problem):  # Its faults are found when it is opened.
            route = await self.fresh(principal, agent_id, key, workspace)
            self._follow(route.session_id, route.runner_id)

    async def ballot(self, principal: Principal, approval_id: str, *, guess: bool) -> StoredBallot:
        """Return an approval with what a vote on it needs. Raises Problem NotFound, with `guess` also Elsewhere."""
        found = await self._ledger.ballot(approval_id, principal.tenant_id)
        if found is None:
            raise Problem("NotFound", f"There is no approval {approval_id}.",
                          hint="List them with `GET /v1/approvals`.")
        if guess:
            self._follow(found.approval.approval.session_id, found.runner_id)
        return found

    def _follow(self, session_id: str, runner_id: str) -> None:
        present = self._presence.get(runner_id)
        if present is not None and present.instance_id and session_id not in self._live:
            raise Elsewhere(present.instance_id)

    async def existing(self, principal: Principal, target: Target) -> Route:
        """Return the session that a cancel targets, by command, session id or key."""
        if target.command_id is not None:
            record = await self._ledger.command(target.command_id, principal.tenant_id)
            if record is None:
                raise Problem("NotFound", f"There is no command {target.command_id}")
            self._check(target, record.command.target)
            return Route(record.session_id, None, record.command.target.runner_id or "")
        session = await self._named(principal, target)
        if session is not None:
            self._check(target, session)
        if session is None and target.session_key is not None:
            raise Problem("NotFound", f"There is no session under key {target.session_key}")
        if session is None:
            raise Problem("InvalidPayload", "/target: name the command, the session or its key",
                          errors=(Place("/target", "command_id, session_id or session_key is missing"),))
        return Route(session.session_id, None, session.runner_id)

    def at_hand(self, principal: Principal, target: Target) -> Route | None:
        """Return where an execute goes that names a session whose lane is in memory; None if it must be looked up."""
        state = self._in_memory(principal, target.session_id) if target.session_id is not None else None
        if state is None:
            return None
        self._check(target, state)
        return Route(state.session_id, None, state.runner_id)

    async def execute(self, principal: Principal, target: Target) -> Route:
        """Return the session that an execute runs in; a new one if none is named."""
        session = await self._named(principal, target)
        if session is not None:
            self._check(target, session)
            return Route(session.session_id, None, session.runner_id)
        agent_id = self._agent(target)
        named_key = self._key(target, agent_id)
        if named_key is not None and agent_of(named_key) != agent_id:
            raise Problem("Conflict", f"Session key {named_key} belongs to agent {agent_of(named_key)}, not {agent_id}",
                          hint="Leave target.agent_id out, or choose another key.")
        target = await self.choose(principal, target, agent_id)
        fresh = self.begin(principal, target, agent_id, named_key)
        return Route(fresh.session_id, fresh, fresh.runner_id)

    async def fresh(self, principal: Principal, agent_id: str, key: str, workspace: str | None) -> Route:
        """Return a new session under a key, whatever was there before."""
        target = Target(agent_id=agent_id, session_key=key, workspace=workspace)
        target = await self.choose(principal, target, agent_id)
        begun = self.begin(principal, target, agent_id, key)
        return Route(begun.session_id, begun, begun.runner_id)

    async def choose(self, principal: Principal, target: Target, agent_id: str | None = None) -> Target:
        """Return the target with the runner that a new session opens on (decision 35): of those that are online and can
        start the agent, the one whose roots hold the workspace; of several the one that was paired first, so that a new
        offer of an agent takes no command from an existing one. Raises Problem for an agent that cannot be read; a
        target for which there is no runner, or no first one, is returned unchanged."""
        agent_id = agent_id or self._agent(target)
        if not self._presence.offering(agent_id, principal.tenant_id, target.runner_id):
            await self.look()
        await self._presence.settled(agent_id, principal.tenant_id, target.runner_id)
        if not self._presence.offering(agent_id, principal.tenant_id, target.runner_id):
            await self._refuse_for_now(principal.tenant_id, agent_id, target.runner_id)
        offering = self._presence.offering(agent_id, principal.tenant_id)
        able = {present.record.runner_id: present for present in offering
                if (offer := present.offer(agent_id)) is not None and offer.unavailable is None}
        if target.runner_id is not None or len(able) < 2:
            return target
        holding = [runner_id for runner_id, present in able.items()
                   if target.workspace is not None and holds(present.hello.roots, target.workspace)]
        paired = [(record.created_ms, record.runner_id)
                  for record in await self._ledger.runners_named(holding or list(able), [principal.tenant_id])]
        first = min(paired, default=None)
        if first is None or sum(at_ms == first[0] for at_ms, _ in paired) > 1:
            return target
        return msgspec.structs.replace(target, runner_id=first[1])

    def begin(self, principal: Principal, target: Target, agent_id: str | None = None, named_key: str | None = None
              ) -> LaneState:
        """Return the initial state of a new session, on a runner that is online and offers the agent."""
        agent_id = agent_id or self._agent(target)
        present = self._runner(principal, agent_id, target)
        session_id = uuid4(self._entropy(16))
        key = named_key or run_key(agent_id, session_id)
        workspace = target.workspace or (present.hello.roots[0] if present.hello.roots else "")
        if not workspace.startswith("/"):
            raise Problem("InvalidPayload", "/target/workspace: must be an absolute path on the runner",
                          errors=(Place("/target/workspace", "is not absolute"),))
        offer = present.offer(agent_id)
        return LaneState(
            session_id=session_id, tenant_id=principal.tenant_id, session_key=key, agent_id=agent_id,
            runner_id=present.record.runner_id, workspace=workspace, created_ms=self._clock.now_ms(),
            workspace_access=target.workspace_access or "rw",
            permission=offer.permission if offer is not None else "never",
            holding=offer.holding if offer is not None else None,
            trusted_kinds=offer.trusted_kinds if offer is not None else False,
            offered_box=offer.box if offer is not None else None,
            context=ContextState(owner=offer.context_owner if offer is not None else "agent"),
        )

    async def _refuse_for_now(self, tenant_id: str, agent_id: str, runner_id: str | None) -> None:
        """Raise Problem with the code `Unavailable` if a runner that may offer the agent is about to come back."""
        now_ms = self._wall.now_ms()
        away = sorted(present.record.runner_id for present in self._presence.away(agent_id, tenant_id, runner_id)
                      if abs(now_ms - present.last_seen_ms) <= RETURN_MS)
        if away:
            raise _unavailable(f"Runner {away[0]}, which offers agent {agent_id}, is not connected at the moment")
        if self._clock.monotonic_ms() - self._began_ms > START_MS:
            return
        awaited = sorted(record.runner_id for record in await self._ledger.runners(tenant_id)
                         if not record.revoked and runner_id in (None, record.runner_id)
                         and self._presence.get(record.runner_id) is None)
        if awaited:
            raise _unavailable(f"Runner {awaited[0]} has not connected yet since this gateway started")

    async def _named(self, principal: Principal, target: Target) -> SessionRecord | LaneState | None:
        if target.session_id is not None:
            state = self._in_memory(principal, target.session_id)
            if state is not None:
                return state
            record = await self._ledger.session(target.session_id, principal.tenant_id)
            if record is None:
                raise Problem("NotFound", f"There is no session {target.session_id}")
            return record
        key = self._key(target, target.agent_id or DEFAULT_AGENT)
        return await self._ledger.session_by_key(principal.tenant_id, key) if key is not None else None

    def _in_memory(self, principal: Principal, session_id: str) -> LaneState | None:
        shell = self._live.get(session_id)
        return shell.lane.state if shell is not None and shell.lane.state.tenant_id == principal.tenant_id else None

    def _key(self, target: Target, agent_id: str) -> str | None:
        if target.session_key is None:
            return None
        try:
            return canonical_key(target.session_key, agent_id)
        except BadKey as error:
            raise Problem("InvalidPayload", f"/target/session_key: {error}",
                          errors=(Place("/target/session_key", str(error)),)) from None

    def _agent(self, target: Target) -> str:
        if target.agent_id is None and target.session_key is not None:
            return agent_of(self._key(target, DEFAULT_AGENT) or "")
        if target.agent_id is None:
            raise Problem("InvalidPayload", "/target/agent_id: name the agent, or a session",
                          errors=(Place("/target/agent_id", "is missing"),))
        try:
            return canonical_agent(target.agent_id)
        except BadKey as error:
            raise Problem("InvalidPayload", f"/target/agent_id: {error}",
                          errors=(Place("/target/agent_id", str(error)),)) from None

    def _check(self, target: Target, session: SessionRecord | LaneState | Target) -> None:
        """Check that everything a target names belongs to the one session. Raises Problem if it contradicts itself."""
        agent_id = self._agent(target) if target.agent_id is not None else None
        for name, wanted, found in (("agent_id", agent_id, session.agent_id),
                                    ("session_key", self._key(target, session.agent_id or DEFAULT_AGENT),
                                     session.session_key),
                                    ("session_id", target.session_id, session.session_id),
                                    ("runner_id", target.runner_id, session.runner_id),
                                    ("workspace", target.workspace, session.workspace)):
            if wanted is not None and wanted != found:
                raise Problem("Conflict", f"Session {session.session_id} has {name} {found}, not {wanted}",
                              hint="Leave it out, or open another session.")

    def _able(self, agent_id: str, offering: list[Present]) -> list[Present]:
        """Return the runners that can start the agent. Raises Problem with the runner's reason if none can."""
        why = {present.record.runner_id: offer.unavailable for present in offering
               if (offer := present.offer(agent_id)) is not None and offer.unavailable is not None}
        able = [present for present in offering if present.record.runner_id not in why]
        named = next(iter(why.values()), None) if not able else None
        if named is not None:
            raise Problem("Conflict", f"Agent {agent_id} cannot be started: {named}",
                          hint="See `interlock agents`; then start the runner again: it looks at its start.")
        return able

    def _runner(self, principal: Principal, agent_id: str, target: Target) -> Present:
        offering = self._able(agent_id, self._presence.offering(agent_id, principal.tenant_id, target.runner_id))
        if target.runner_id is not None:
            if offering:
                return offering[0]
            raise Problem("Conflict", f"Runner {target.runner_id} is not online, or does not offer agent {agent_id}",
                          hint="See `interlock status` for runners and what they offer.")
        if len(offering) == 1:
            return offering[0]
        if not offering:
            raise not_offered(agent_id)
        names = ", ".join(sorted(map(_shown, offering))[:RUNNERS_NAMED])
        more = " and more" if len(offering) > RUNNERS_NAMED else ""
        raise Problem("Conflict", f"{len(offering)} runners offer agent {agent_id}: {names}{more}",
                      hint="Choose one with target.runner_id (`--runner`).")


def _shown(present: Present) -> str:
    """Return a runner as a refusal names it: by id and the name that people know."""
    name = present.record.device_name or present.hello.device_name
    return f"{present.record.runner_id} ({name})" if name else present.record.runner_id


def _unavailable(detail: str) -> Problem:
    return Problem("Unavailable", detail, hint="It connects again by itself; send the same command again.",
                   headers={"Retry-After": str(RETURN_RETRY_S)})


def holds(roots: Sequence[str], workspace: str) -> bool:
    """Return whether a workspace is below one of these directories, as far as the paths alone show."""
    place = PurePosixPath(normpath(workspace))
    return any(place.is_relative_to(normpath(root)) for root in roots)
