"""A runner at the other end of a lane, played by a test: it sends frames and records received ones."""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

import msgspec

from engine.within import Within
from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.ledger import MemoryLedger
from interlock.backends.memory.objects import MemoryObjects
from interlock.command.policy.policy import RuleSet
from interlock.engine.bridge.inputs.runner import ControlsConfirmed, FrameRun, FramesReceived
from interlock.engine.bridge.kernel import Decide, decide
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.lane_state import Limits
from interlock.engine.bridge.link.links import attach
from interlock.engine.engine import Engine
from interlock.engine.lanes.lane_shell import LaneShell
from interlock.engine.presence import Present
from interlock.engine.viewers.viewers import Viewers
from interlock.ports.clock import Entropy
from interlock.ports.ledger import Ledger
from interlock.ports.transcripts import TranscriptStore
from interlock.protocol import payloads as p
from interlock.protocol.box import Box
from interlock.protocol.envelope import DPS_VERSION, Frame
from interlock.protocol.frames import Direction, decode, encode
from interlock.protocol.hold import Holding
from interlock.protocol.identifiers import uuid4
from interlock.protocol.records import IdempotencyRecord, Principal, RunnerRecord
from interlock.protocol.resources import Actor, CommandBody, GrantBody, Target

OWNER = Principal(tenant_id="default", actor=Actor(type="user", id="owner"), role="owner", key_id="key_1")
USAGE = p.Usage(
    token_usage=p.TokenUsage(input_tokens=3, output_tokens=5),
    cost_usage=p.Quota(limit=-1, used=0, unit="USD"),
    message_usage=p.MessageQuota(limit=-1, used=1, unit="COUNT"),
    context_window=p.ContextWindow(),
    time_to_reset="2026-12-01T00:00:00.000Z",
)


def turn_uuid(name: str) -> str:
    """The UUID v4 of a turn that a test calls `name`."""
    return name if len(name) == 36 else uuid4(hashlib.sha256(name.encode()).digest())


def with_turn_uuid(payload: p.Payload) -> p.Payload:
    named = getattr(payload, "turn_id", None)
    return msgspec.structs.replace(payload, turn_id=turn_uuid(named)) if isinstance(named, str) else payload


def counting_entropy() -> Entropy:
    """Bytes that differ at each call and are the same in each run."""
    numbers = itertools.count(1)
    return lambda count: next(numbers).to_bytes(count, "big")


class Wire:
    """The link as a lane sees it: sent frames and acknowledgements."""

    def __init__(self) -> None:
        self.sent: list[Frame] = []
        self.acks: dict[str, int] = {}
        self.failed: str | None = None

    def send(self, raw: bytes) -> None:
        self.sent.append(decode(raw, Direction.M))

    def ack(self, session_id: str, seq: int) -> None:
        self.acks[session_id] = seq

    def forget(self, session_id: str) -> None:
        pass

    def fail(self, sentence: str) -> None:
        self.failed = sentence

    def types(self) -> list[str]:
        return [frame.type for frame in self.sent]

    def last(self, frame_type: str) -> Frame:
        return next(frame for frame in reversed(self.sent) if frame.type == frame_type)


class Table:
    """A gateway's engine over a memory ledger, a runner that the test plays, and a person."""

    gateway_id = ""

    def __init__(
        self, policy: RuleSet | None = None, permission: str = "asks", timeout_ms: int = 60_000,
        transcripts: TranscriptStore | None = None, context_owner: str = "agent",
        holding: Holding | None = None, box: Box | None = None, decide: Decide = decide,
        wall: ManualClock | None = None,
    ) -> None:
        self.decide = decide
        self.wall = wall
        """The machine's own clock, if it is off the line of deadlines."""
        self.clock = ManualClock()
        self.ledger: Ledger = MemoryLedger()
        self.objects = MemoryObjects()
        self.entropy = counting_entropy()
        self.policy = policy or RuleSet()
        self.permission = permission
        self.holding = holding
        self.box = box
        self.context_owner = context_owner
        self.limits = Limits(timeout_ms=timeout_ms)
        self.transcripts = transcripts
        self.seqs: dict[str, int] = {}
        self.turn_indexes: dict[str, int] = {}
        self.begin()

    def begin(self) -> None:
        """Start a gateway on the ledger; call again for a restart after kill -9."""
        self.engine = Engine(self.ledger, Viewers(self.ledger), self.clock, self.entropy, self.policy, self.limits,
                             self.transcripts, self.objects, self.wall, decide=self.decide, gateway_id=self.gateway_id)
        self.wire = Wire()
        offer = p.AgentOffer(agent_id="shell", adapter="acp", adapter_type="process",
                             permission=self.permission, context_owner=self.context_owner,  # type: ignore[arg-type]
                             holding=self.holding, box=self.box)
        hello = p.Hello(versions=[DPS_VERSION], runner_id="local", boot_id="b", agents=[offer], sessions=[],
                        roots=["/w"])
        record = RunnerRecord(runner_id="local", tenant_id="default", token_sha256="", device_name="host",
                              created_ms=0, last_seen_ms=0)
        self.record, self.hello = record, hello
        self.engine.presence.arrive(Present(record, hello, 0)).connect(self.wire)

    async def execute(self, text: str = "hello", **fields: Any) -> Any:
        payload = msgspec.json.encode({"messages": [{"role": "user",
                                                     "content": [{"contentType": "text", "value": text}]}]})
        target = fields.pop("target", Target(agent_id="shell"))
        body = CommandBody(type="execute", target=target, payload=msgspec.Raw(payload), **fields)
        return await self.engine.submit(OWNER, body, remember)

    async def cancel(self, command_id: str) -> Any:
        return await self.engine.submit(OWNER, CommandBody(type="cancel", target=Target(command_id=command_id)),
                                        remember)

    async def order(self, kind: Any, command_id: str | None = None, session_id: str | None = None) -> Any:
        """Pause or resume."""
        target = Target(command_id=command_id, session_id=session_id)
        return await self.engine.submit(OWNER, CommandBody(type=kind, target=target), remember)

    async def report_state(self, session_id: str, state: Any, previous: Any = "running") -> None:
        await self.send(session_id, "agent.state.changed", p.StateChanged(state=state, previous=previous))

    async def vote(self, approval_id: str, decision: Any, who: Principal = OWNER) -> Any:
        return await self.engine.vote(who, approval_id, GrantBody(decision=decision), remember)

    async def lane(self, session_id: str) -> LaneShell:
        shell = await self.engine.lanes.lane(session_id)
        assert shell is not None
        return shell

    async def reattach(self, session_id: str, control_seq: int) -> None:
        shell = await self.lane(session_id)
        await shell.attach(self.wire, Within(lambda lane: attach(lane, control_seq, self.hello.agents[0], known=True)))

    async def confirm(self, session_id: str, seq: int) -> None:
        await (await self.lane(session_id)).call(ControlsConfirmed(seq))

    async def send(self, session_id: str, frame_type: str, payload: p.Payload, **metadata: Any) -> Frame:
        """The runner sends one durable frame. Turns have short names in tests, and UUIDs on the wire."""
        payload = with_turn_uuid(payload)
        if isinstance(payload, p.TurnStart):
            self.turn_indexes[session_id] = payload.turn_index
        self.seqs[session_id] = self.seqs.get(session_id, 0) + 1
        frame = Frame(type=frame_type, payload=payload, message_id=f"m{self.seqs[session_id]}",
                      session_id=session_id, seq=self.seqs[session_id], timestamp="", metadata=metadata)
        raw = encode(frame)
        received = decode(raw, Direction.C)
        shell = await self.lane(session_id)
        await shell.call(FramesReceived(shell.lane.state.last_seq, FrameRun([(received, raw)])))
        return frame

    async def opened(self, session_id: str) -> None:
        await self.boxed(session_id, self.box)

    async def boxed(self, session_id: str, box: Box | None, **metadata: Any) -> None:
        """The runner answers the last open, and states the opening's box."""
        answered = {"in_reply_to": self.wire.last("control.session.open").message_id} if box is not None else {}
        await self.send(session_id, "session.capabilities", p.Capabilities(
            dps_version=DPS_VERSION, features={"adapter_type": "process", "permission": self.permission}, box=box),
            **{**answered, **metadata})

    async def started(self, session_id: str, turn_id: str = "t1") -> None:
        prompt = self.wire.last("control.prompt.request").payload
        await self.send(session_id, "session.turn.start", p.TurnStart(
            turn_id=turn_id, turn_index=self.next_turn(session_id)),
                        prompt_id=prompt.prompt_id)

    def next_turn(self, session_id: str) -> int:
        """The turn_index that the session's next turn has."""
        return self.turn_indexes.get(session_id, -1) + 1

    async def asked(self, session_id: str, command: str = "ls", turn_id: str = "t1", invocation: str = "i1",
                    tool: str = "shell") -> None:
        tool_input = msgspec.Raw(msgspec.json.encode({"command": command}))
        await self.send(session_id, "tool.invoke.request", p.ToolRequest(
            invocation_id=invocation, turn_id=turn_id, tool_name=tool, input=tool_input, title=command))
        await self.send(session_id, "agent.interaction.request", p.InteractionRequest(
            interaction_id="x-" + invocation, interaction_type="PERMISSION", title=command,
            context=p.InteractionContext(tool_name=tool, invocation_id=invocation)))

    async def resolved(self, session_id: str, outcome: Any, invocation: str = "i1") -> None:
        await self.send(session_id, "x-interlock.interaction.resolved", p.InteractionResolved(
            interaction_id="x-" + invocation, outcome=outcome, decided_at=""))

    async def result(self, session_id: str, output: str = "done", status: Any = "ok", invocation: str = "i1") -> None:
        await self.send(session_id, "tool.invoke.result", p.ToolResult(
            invocation_id=invocation, status=status, output_type="text", output=output, duration_ms=1))

    async def ended(self, session_id: str, stop_reason: Any = "end_turn", turn_id: str = "t1", **meta: Any) -> None:
        await self.send(session_id, "session.turn.end", p.TurnEnd(turn_id=turn_id, stop_reason=stop_reason), **meta)
        await self.send(session_id, "session.usage", USAGE)

    async def state(self, command_id: str) -> str:
        record = await self.ledger.command(command_id, "default")
        assert record is not None
        return record.command.state

    async def restart(self) -> None:
        """Kill the gateway, and start it again on the same ledger."""
        await self.engine.stop()
        self.begin()

    async def has_notice(self, session_id: str, code: str, about: str = "") -> bool:
        """Whether a notice of this code, about something, is in a session's stream."""
        events = await self.ledger.events("default", f"s/{session_id}", 0, 1_000)
        return any(code.encode() in event.body and about.encode() in event.body for event in events)

    async def actions(self) -> list[str]:
        records = await self.ledger.audit("default", 0, 1_000)
        return [msgspec.json.decode(record.body)["action"] for record in records]


def remember(resource: Any) -> IdempotencyRecord:
    """An idempotency row that no other test request shares."""
    remember.count = getattr(remember, "count", 0) + 1  # type: ignore[attr-defined]
    scope = f"s{remember.count}"  # type: ignore[attr-defined]
    return IdempotencyRecord(tenant_id="default", scope=scope, fingerprint="", status=202, headers={}, body=b"",
                             created_ms=0)


def lane_of(shell: LaneShell) -> Lane:
    return shell.lane
