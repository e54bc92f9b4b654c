"""The runners that are attached here, or at another gateway of the cluster, with their offers and heartbeats.

In memory only: a runner reports it again at each attach, and other gateways' knowledge of theirs is in the rows of
their links.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from interlock.engine.cluster.heartbeats import ReportedAgents
from interlock.engine.lanes.inbox import LaneRunnerLink
from interlock.ports.leases import RunnerLocation as LinkRow
from interlock.protocol.clock import iso, parse_iso
from interlock.protocol.limits import LINK_JUMP
from interlock.protocol.payloads import AgentOffer, Hello, LiveAgent, RunnerHeartbeat
from interlock.protocol.records import RunnerRecord
from interlock.protocol.resources import Node

FACT_CHARS = 200
"""Maximum length of a runner's facts about its software and its system."""
ARRIVAL_S = 5.0
"""How long a command waits for a runner whose lanes are being attached."""


class Present:
    """A runner that is attached, or was since the gateway's start, here or elsewhere."""

    def __init__(self, record: RunnerRecord, hello: Hello, at_ms: int, link_id: str = "") -> None:
        self.record = record
        self.hello = hello
        self.link: LaneRunnerLink | None = None
        self.last_seen_ms = at_ms
        self.live: dict[str, LiveAgent] = {}
        self.outbox_bytes: int | None = None
        """Size of its outbox at the last heartbeat."""
        self.clock_offset_ms: int | None = None
        """How far its clock was ahead of the gateway's in the last frame with a time, including the frame's transit;
        None for a runner that is attached to another gateway."""
        self.instance_id = ""
        """The gateway that it is attached to, if that is another one."""
        self.link_id = link_id
        self.has_reported = False
        """Whether a heartbeat was received from there since its link became known."""
        self.passed_over = 0
        """Its frames since the gateway's start that name no session of it."""
        self.contested_ms: int | None = None
        """The last time at which a process of it attached again after another one had."""
        self._earlier_boot = ""
        """The process that was attached before this one."""
        self._arriving: asyncio.Event | None = None

    def follow(self, before: Present) -> None:
        """Continue the figures of its previous link here. A process has one boot_id as long as it lives: if an earlier
        one returns, two live."""
        boot_id, last = self.hello.boot_id, before.hello.boot_id
        self.passed_over = before.passed_over
        is_back = boot_id != last and boot_id == before._earlier_boot
        self.contested_ms = self.last_seen_ms if is_back else before.contested_ms
        self._earlier_boot = before._earlier_boot if boot_id == last else last

    def connect(self, link: LaneRunnerLink) -> None:
        """Send work over this link from now on. Until every lane of the runner is attached, only the opening is sent
        over it."""
        self.link = link

    def number_link(self, number: int) -> None:
        """Set the number of its link, instead of the number in its hello."""
        self.hello = msgspec.structs.replace(self.hello, link_number=number)

    def arrives(self) -> None:
        """Record that the runner is welcomed and its lanes are being attached: requests for it wait for that, up to
        ARRIVAL_S."""
        self._arriving = asyncio.Event()

    def arrived(self) -> None:
        """Record the end of the arrival: the runner can receive work, or its link has closed."""
        if self._arriving is not None:
            self._arriving.set()
            self._arriving = None

    @property
    def arriving(self) -> asyncio.Event | None:
        """Return the event that is set at the end of the current arrival; None if there is none."""
        return self._arriving

    @property
    def attached(self) -> bool:
        """Return whether it can receive work, here or through another gateway."""
        return self.link is not None or bool(self.instance_id)

    def read_clock(self, written_at: str, at_ms: int) -> None:
        """Compare its clock with the gateway's; a frame without a time changes nothing."""
        try:
            self.clock_offset_ms = parse_iso(written_at) - at_ms
        except (ValueError, OverflowError):
            return

    def offer(self, agent_id: str) -> AgentOffer | None:
        """Return the runner's offer for an agent."""
        for offer in self.hello.agents:  # Every decision of a lane calls this.
            if offer.agent_id == agent_id:
                return offer
        return None


class RunnerFacts(msgspec.Struct):
    """A gateway's knowledge of a runner attached to it, as the others read it."""

    device_name: str
    hello: Hello
    last_seen_ms: int
    live: list[LiveAgent]


_facts = msgspec.json.Decoder(RunnerFacts)


def facts_of(present: Present) -> bytes:
    """Encode a runner's facts."""
    hello = msgspec.structs.replace(present.hello, sessions=[], forgotten=[])
    return msgspec.json.encode(RunnerFacts(present.record.device_name, hello, present.last_seen_ms,
                                           list(present.live.values())))


def _elsewhere(row: LinkRow) -> Present:
    known = _facts.decode(row.present)
    record = RunnerRecord(runner_id=row.runner_id, tenant_id=row.tenant_id, token_sha256="",
                          device_name=known.device_name, created_ms=0, last_seen_ms=known.last_seen_ms)
    present = Present(record, known.hello, known.last_seen_ms)
    present.live = {agent.session_id: agent for agent in known.live}
    present.instance_id, present.link_id = row.instance_id, row.link_id
    return present


def _newer(known: Present, found: Present) -> bool:
    """Return whether a known link was opened after a reported one, as far as the runner numbers them."""
    return 0 < found.hello.link_number < known.hello.link_number


class Links(NamedTuple):
    """The links as read: all of them, or the changed rows, and the live gateways."""

    rows: Sequence[LinkRow]
    alive: Container[str]
    own_instance: str
    whole: bool


class RunnerPresence:
    """All runners by id."""

    def __init__(self) -> None:
        self._present: dict[str, Present] = {}
        self._elsewhere: dict[str, Present] = {}
        self._left: dict[str, Present] = {}
        """Runners as they were when they left another gateway, until they attach here or leave another one again."""
        self._of_tenant: dict[str, dict[str, None]] = {}
        """Every runner that was ever known, by the tenants it was known under."""
        self._newest: dict[str, int] = {}
        """The largest number of each runner's hellos that was received here."""

    def learn(self, seen: Links) -> list[str]:
        """Update where runners are attached. Returns those whose newest link is another gateway's though they are still
        attached here."""
        if seen.whole:
            there = {row.runner_id for row in seen.rows}
            for runner_id in [one for one in self._elsewhere if one not in there]:
                self._leave(runner_id)
        for row in seen.rows:
            self._learn_row(row, seen.own_instance)
        for runner_id in [one for one, present in self._elsewhere.items() if present.instance_id not in seen.alive]:
            self._leave(runner_id)
        return [runner_id for runner_id, present in self._present.items()
                if present.link is not None and runner_id in self._elsewhere]

    def _learn_row(self, row: LinkRow, own_instance: str) -> None:
        before = self._elsewhere.get(row.runner_id)
        is_known = before is not None and before.link_id == row.link_id
        if row.instance_id == own_instance or (not row.instance_id and is_known):
            self._leave(row.runner_id)
        elif row.instance_id:
            found = _elsewhere(row)
            if self._has_newer(found):
                return
            if before is not None and is_known and before.last_seen_ms > found.last_seen_ms:
                found.last_seen_ms, found.live = before.last_seen_ms, before.live
                found.has_reported = before.has_reported
            self._keep_elsewhere(found)

    def learn_one(self, row: LinkRow) -> bool:
        """Record that a runner has attached to another gateway, unless it is known to have moved on from there: a
        suspended gateway may report it late. Returns whether it was recorded."""
        found, known = _elsewhere(row), self._elsewhere.get(row.runner_id)
        if self._has_newer(found) or (known is not None and _newer(known, found)):
            return False
        self._keep_elsewhere(found)
        return True

    def _has_newer(self, found: Present) -> bool:
        here = self._present.get(found.record.runner_id)
        return here is not None and here.link is not None and _newer(here, found)

    def _keep_elsewhere(self, present: Present) -> None:
        self._elsewhere[present.record.runner_id] = present
        self._know(present.record)

    def _know(self, record: RunnerRecord) -> None:
        self._of_tenant.setdefault(record.tenant_id, {})[record.runner_id] = None

    def left_elsewhere(self, runner_id: str, link_id: str, at_ms: int) -> None:
        """Record that its link there has closed."""
        present = self._elsewhere.get(runner_id)
        if present is not None and present.link_id == link_id:
            present.last_seen_ms = at_ms
            self._leave(runner_id)

    def _leave(self, runner_id: str) -> None:
        """Keep the facts of a runner that is no longer attached to another gateway: unless it is here, it is expected
        to reconnect, here or elsewhere."""
        present, here = self._elsewhere.pop(runner_id, None), self._present.get(runner_id)
        if present is None:
            return
        if here is not None and (here.link is not None or here.arriving is not None):
            here.last_seen_ms = max(here.last_seen_ms, present.last_seen_ms)
            return
        present.instance_id, present.live = "", {}
        self._left[runner_id] = present

    def changed_elsewhere(self, reported: ReportedAgents, at_ms: int) -> bool:
        """Record a heartbeat at another gateway. False if its link is unknown, and not replaced by one here."""
        present = self._elsewhere.get(reported.runner_id)
        if present is None or present.link_id != reported.link_id:
            return self.link_of(reported.runner_id) is not None
        present.last_seen_ms, present.has_reported = at_ms, True
        present.live = {agent.session_id: agent for agent in reported.agents}
        return True

    def unchanged_elsewhere(self, runner_id: str, instance_id: str, at_ms: int) -> bool:
        """Record an unchanged heartbeat at another gateway. False if the earlier one is unknown."""
        present = self._elsewhere.get(runner_id)
        if present is None or present.instance_id != instance_id:
            return self.link_of(runner_id) is not None
        present.last_seen_ms = at_ms
        return present.has_reported

    def bounded(self, runner_id: str, number: int) -> int:
        """Return the effective number of a hello: at most LINK_JUMP above the largest that is known. A client with the
        runner's credential can claim any number; the runner, which receives the largest, must be able to continue."""
        return min(number, self._newest.get(runner_id, 0) + LINK_JUMP)

    def known_newest(self, runner_id: str, number: int) -> None:
        """Record that a hello of this number was accepted by another gateway of the cluster."""
        self._newest[runner_id] = max(number, self._newest.get(runner_id, 0))

    def greet(self, runner_id: str, number: int) -> int | None:
        """Record the number of a hello. Returns the newer number if a newer one was received before."""
        newest = self._newest.get(runner_id, 0)
        if 0 < number <= newest:
            return newest
        self._newest[runner_id] = max(number, newest)
        return None

    def overtook(self, runner_id: str, number: int) -> int | None:
        """Return the number of a newer hello that was received since this one was welcomed."""
        newest = self._newest.get(runner_id, 0)
        return newest if 0 < number < newest else None

    def arrive(self, present: Present) -> Present:
        """Attach a runner; an older link of the same runner is closed."""
        runner_id = present.record.runner_id
        before = self._present.get(runner_id)
        if before is not None:
            present.follow(before)
            if before.link is not None:
                before.link.fail("the same runner opened a newer link")
        self._present[runner_id] = present
        self._know(present.record)
        self._elsewhere.pop(runner_id, None)
        self._left.pop(runner_id, None)
        return present

    def detach(self, runner_id: str, link: LaneRunnerLink, at_ms: int) -> bool:
        """Detach a link; False if a newer one has already replaced it."""
        present = self._present.get(runner_id)
        if present is None or present.link is not link:
            return False
        present.link = None
        present.last_seen_ms = at_ms
        present.live = {}
        return True

    def get(self, runner_id: str) -> Present | None:
        """Return a runner, attached or not; with its state where it was last attached."""
        here = self._present.get(runner_id)
        if here is not None and here.link is not None:
            return here
        return self._elsewhere.get(runner_id) or self._left.get(runner_id) or here

    def link_of(self, runner_id: str) -> LaneRunnerLink | None:
        """Return the link of an attached runner."""
        present = self._present.get(runner_id)
        return present.link if present is not None else None

    def is_here(self, runner_id: str) -> bool:
        """Return whether the runner is attached here, or its lanes are being attached."""
        present = self._present.get(runner_id)
        return present is not None and (present.link is not None or present.arriving is not None)

    async def settled(self, agent_id: str, tenant_id: str, runner_id: str | None) -> None:
        """Return once a runner that offers an agent is attached, or none is about to be: a runner learns from its
        welcome that it is attached, and a command right after that must find it."""
        if self.offering(agent_id, tenant_id, runner_id):
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(ARRIVAL_S):
                for present in self._here(tenant_id, runner_id):
                    if present.arriving is not None and present.offer(agent_id) is not None:
                        await present.arriving.wait()

    def online(self) -> int:
        """Return how many runners are attached here."""
        return sum(present.link is not None for present in self._present.values())

    def offering(self, agent_id: str, tenant_id: str, runner_id: str | None = None) -> list[Present]:
        """Return the attached runners of a tenant that offer an agent, or the named one."""
        return [p for one in self._runners(tenant_id, runner_id)
                if (p := self.get(one)) is not None and p.record.tenant_id == tenant_id and p.attached
                and p.offer(agent_id) is not None]

    def away(self, agent_id: str, tenant_id: str, runner_id: str | None = None) -> list[Present]:
        """Return the runners of a tenant that offered an agent when they were last attached, and are not attached
        now."""
        return [p for one in self._runners(tenant_id, runner_id)
                if (p := self.get(one)) is not None and p.record.tenant_id == tenant_id and not p.attached
                and p.offer(agent_id) is not None]

    def _runners(self, tenant_id: str, runner_id: str | None) -> list[str]:
        known = self._of_tenant.get(tenant_id, {})
        return list(known) if runner_id is None else [runner_id] if runner_id in known else []

    def _here(self, tenant_id: str, runner_id: str | None) -> list[Present]:
        found = [self._present[one] for one in self._runners(tenant_id, runner_id) if one in self._present]
        return [present for present in found if present.record.tenant_id == tenant_id]

    def take_heartbeat(self, runner_id: str, heartbeat: RunnerHeartbeat, at_ms: int, written_at: str = "") -> None:
        """Record a heartbeat, and the time at which the runner wrote it by its own clock."""
        present = self._present.get(runner_id)
        if present is not None:
            present.last_seen_ms = at_ms
            present.outbox_bytes = heartbeat.outbox_bytes
            present.read_clock(written_at, at_ms)
            present.live = {agent.session_id: agent for agent in heartbeat.agents}

    def node(self, record: RunnerRecord) -> Node:
        """Return a runner as it is listed (L-6), under the name that it was paired with: a host that is renamed later
        keeps the name that people know (Y-10)."""
        present = self.get(record.runner_id)
        if present is None:
            return Node(node_id=record.runner_id, device_name=record.device_name, status="offline",
                        last_seen=iso(record.last_seen_ms), capabilities=[], active_sessions_count=0,
                        config_versions={"limits": "1", "capabilities": "1"})
        busy = any(agent.state not in ("idle", "terminated") for agent in present.live.values())
        online = present.attached
        return Node(
            node_id=record.runner_id, device_name=record.device_name or present.hello.device_name,
            status=("busy" if busy else "online") if online else "offline", last_seen=iso(present.last_seen_ms),
            capabilities=sorted({offer.adapter for offer in present.hello.agents}),
            active_sessions_count=len(present.live), config_versions={"limits": "1", "capabilities": "1"},
            agents=[msgspec.to_builtins(offer) for offer in present.hello.agents], roots=present.hello.roots,
            software=present.hello.software[:FACT_CHARS] or None, system=present.hello.system[:FACT_CHARS] or None,
            outbox_bytes=present.outbox_bytes if online else None,
            clock_offset_ms=present.clock_offset_ms if online else None,
            frames_passed_over=None if present.instance_id else present.passed_over,
            contested_at=iso(present.contested_ms) if present.contested_ms is not None else None,
        )
