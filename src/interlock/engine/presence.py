"""Which runners are here, what they offer and vouch for. Only memory: a runner says it again at each attach."""

from __future__ import annotations

import msgspec

from interlock.engine.jobs import RunnerLink
from interlock.protocol.clock import iso
from interlock.protocol.payloads import AgentOffer, Heartbeat, Hello, LiveAgent
from interlock.protocol.records import RunnerRecord
from interlock.protocol.resources import Node


class Present:
    """One runner that is attached, or was since the gateway's start."""

    def __init__(self, record: RunnerRecord, hello: Hello, at_ms: int) -> None:
        self.record = record
        self.hello = hello
        self.link: RunnerLink | None = None
        """Set once every lane of the runner is attached: until then nothing but the opening goes over the link."""
        self.last_seen_ms = at_ms
        self.live: dict[str, LiveAgent] = {}

    def offer(self, agent_id: str) -> AgentOffer | None:
        """What the runner says of an agent."""
        return next((offer for offer in self.hello.agents if offer.agent_id == agent_id), None)


class Presence:
    """All runners by id."""

    def __init__(self) -> None:
        self._present: dict[str, Present] = {}

    def arrive(self, record: RunnerRecord, hello: Hello, at_ms: int) -> Present:
        """A runner said hello; an older link of the same runner is told to close."""
        before = self._present.get(record.runner_id)
        if before is not None and before.link is not None:
            before.link.fail("the same runner opened a newer link")
        present = Present(record, hello, at_ms)
        self._present[record.runner_id] = present
        return present

    def detach(self, runner_id: str, link: RunnerLink, at_ms: int) -> bool:
        """A link is gone; False where a newer one has already taken its place."""
        present = self._present.get(runner_id)
        if present is None or present.link is not link:
            return False
        present.link = None
        present.last_seen_ms = at_ms
        present.live = {}
        return True

    def get(self, runner_id: str) -> Present | None:
        """A runner, attached or not."""
        return self._present.get(runner_id)

    def link_of(self, runner_id: str) -> RunnerLink | None:
        """The link of a runner that is attached."""
        present = self._present.get(runner_id)
        return present.link if present is not None else None

    def online(self) -> int:
        """How many runners are attached."""
        return sum(present.link is not None for present in self._present.values())

    def offering(self, agent_id: str, tenant_id: str) -> list[Present]:
        """Attached runners of a tenant that offer an agent."""
        return [p for p in self._present.values()
                if p.link is not None and p.record.tenant_id == tenant_id and p.offer(agent_id) is not None]

    def vouch(self, runner_id: str, heartbeat: Heartbeat, at_ms: int) -> None:
        """Take a heartbeat."""
        present = self._present.get(runner_id)
        if present is not None:
            present.last_seen_ms = at_ms
            present.live = {agent.session_id: agent for agent in heartbeat.agents}

    def node(self, record: RunnerRecord) -> Node:
        """A runner as it is listed (L-6)."""
        present = self._present.get(record.runner_id)
        if present is None:
            return Node(node_id=record.runner_id, device_name=record.device_name, status="offline",
                        last_seen=iso(record.last_seen_ms), capabilities=[], active_sessions_count=0,
                        config_versions={"limits": "1", "capabilities": "1"})
        busy = any(agent.state not in ("idle", "terminated") for agent in present.live.values())
        online = present.link is not None
        return Node(
            node_id=record.runner_id, device_name=present.hello.device_name or record.device_name,
            status=("busy" if busy else "online") if online else "offline", last_seen=iso(present.last_seen_ms),
            capabilities=sorted({offer.adapter for offer in present.hello.agents}),
            active_sessions_count=len(present.live), config_versions={"limits": "1", "capabilities": "1"},
            agents=[msgspec.to_builtins(offer) for offer in present.hello.agents], roots=present.hello.roots,
        )
