"""The gateway that `tamper-database` edits: an engine on a SQLite file, a runner's end of the link, and keys."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Awaitable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import msgspec

from interlock.backends.memory.clock import ManualClock
from interlock.command.audit.audit import leaf_hash
from interlock.command.audit.register import bound
from interlock.command.policy.policy import PolicySubject, Rule, RuleSet
from interlock.engine.bridge.inputs.runner import FrameRun, FramesReceived, RunnerAttached
from interlock.engine.bridge.lane_state import Limits
from interlock.engine.engine import Engine
from interlock.engine.presence import Present
from interlock.engine.viewers.viewers import Viewers
from interlock.gateway.access.credentials import CACHE_MS, Credentials, digest
from interlock.gateway.access.keys import KeyStore
from interlock.gateway.access.pairings import Pairings
from interlock.gateway.access.tenants import TenantStore
from interlock.gateway.audit.row_state import StoredRows, compare_rows
from interlock.ports.clock import Entropy
from interlock.ports.ledger import AuditAppend, Ledger, Put, WriteBatch
from interlock.protocol import payloads as p
from interlock.protocol.access import KeyBody, TenantBody
from interlock.protocol.envelope import DPS_VERSION, Frame
from interlock.protocol.frames import Direction, decode, encode
from interlock.protocol.identifiers import uuid4
from interlock.protocol.problems import Problem
from interlock.protocol.records import (
    AuditDraft,
    IdempotencyRecord,
    Principal,
    RuleRecord,
    TenantRecord,
)
from interlock.protocol.resources import Actor, Command, CommandBody, Decision, GrantBody, RememberedRule, Target
from proof.audit.database_copies import Store

NOW_MS = 1_800_000_000_000
OWNER = Principal(tenant_id="default", actor=Actor(type="user", id="owner"), role="owner", key_id="key_0")
FORGED = "ilk_forged"
AGENTS = ("held", "tool", "free")
POLICY = (
    Rule(name="two for a command", door="command", agent="held", effect="ask", required=2),
    Rule(name="commands", door="command", effect="allow"),
    Rule(name="two for a tool", door="tool", agent="tool", effect="ask", required=2),
)
PROBES = tuple((agent, tool) for agent in AGENTS for tool in ("Bash", "Edit", "Fetch"))
RUNS = ("control.session.open", "control.prompt.request", "control.turn.resume", "control.session.compact",
        "agent.file.transfer")
"""Control frames that make an agent do something; an answer does if it allows."""
PERSONAL = frozenset({"prompt_id", "by", "message", "timestamp"})


class Wire:
    """The runner's end of the link."""

    def __init__(self) -> None:
        self.sent: list[Frame] = []

    def send(self, raw: bytes) -> None:
        self.sent.append(decode(raw, Direction.M))

    def ack(self, session_id: str, seq: int) -> None:
        """Every number is as good as another."""

    def forget(self, session_id: str) -> None:
        """Lanes come and go."""

    def fail(self, sentence: str) -> None:
        """The link stays up for other lanes."""


def counting_entropy() -> Entropy:
    """Return bytes that differ at each call and are the same in each run."""
    numbers = itertools.count(1)
    return lambda count: next(numbers).to_bytes(count, "big")


class Outcome(NamedTuple):
    """Frames of a gateway that start a run, the owner of each secret, and the decisions of the policy."""

    ran: frozenset[str]
    keys: dict[str, str | None]
    policy: dict[str, str]


class Base(NamedTuple):
    """What is stored before each trial: the secrets, the sessions, the approvals to vote on, the log's hashes."""

    secrets: dict[str, str]
    sessions: list[str]
    approvals: list[str]
    hashes: list[str]


class Gateway:
    """One gateway, in this process, on a ledger."""

    def __init__(self, ledger: Ledger, entropy: Entropy) -> None:
        self.ledger, self.clock, self.entropy = ledger, ManualClock(NOW_MS), entropy
        self.engine = Engine(ledger, Viewers(ledger), self.clock, self.entropy, RuleSet(POLICY), Limits())
        self.credentials = Credentials(ledger, self.clock, None, self.engine.rows)
        self.keys = KeyStore(ledger, self.clock, self.entropy, self.credentials)
        self.wire = Wire()
        self.answers = 0
        self.seqs: dict[str, int] = {}

    async def meet(self) -> None:
        """Connect the runner's link."""
        record = await self.ledger.runner("local", OWNER.tenant_id)
        assert record is not None
        offers = [p.AgentOffer(agent_id=name, adapter="acp", adapter_type="process", permission="asks",
                               context_owner="agent") for name in AGENTS]
        self.hello = p.Hello(versions=[DPS_VERSION], runner_id="local", boot_id="b", agents=offers, sessions=[],
                             roots=["/w"])
        self.engine.presence.arrive(Present(record, self.hello, 0)).connect(self.wire)

    def remember(self, _shown: Any) -> IdempotencyRecord:
        self.answers += 1
        return IdempotencyRecord(tenant_id="default", scope=f"{self.entropy(8).hex()}-{self.answers}", fingerprint="",
                                 status=200, headers={}, body=b"", created_ms=0)

    async def execute(self, agent: str, text: str) -> Command:
        payload = msgspec.json.encode({"messages": [{"role": "user",
                                                     "content": [{"contentType": "text", "value": text}]}]})
        body = CommandBody(type="execute", target=Target(agent_id=agent), payload=msgspec.Raw(payload))
        return await self.engine.submit(OWNER, body, self.remember)

    async def session_of(self, agent: str, text: str) -> str:
        """Execute a command; returns its session."""
        session_id = (await self.execute(agent, text)).target.session_id
        assert session_id is not None
        return session_id

    async def send_frame(self, session_id: str, frame_type: str, payload: p.Payload, **metadata: Any) -> None:
        self.seqs[session_id] = self.seqs.get(session_id, 0) + 1
        raw = encode(Frame(type=frame_type, payload=payload, message_id=f"m{self.seqs[session_id]}",
                           session_id=session_id, seq=self.seqs[session_id], timestamp="", metadata=metadata))
        shell = await self.engine.lanes.lane(session_id)
        assert shell is not None
        received = decode(raw, Direction.C)
        await shell.call(FramesReceived(shell.lane.state.last_seq, FrameRun([(received, raw)])))

    async def asked(self, session_id: str, command: str) -> str:
        """Let the agent open, begin its turn and ask before a tool; returns the approval."""
        await self.send_frame(session_id, "session.capabilities", p.Capabilities(
            dps_version=DPS_VERSION, features={"adapter_type": "process", "permission": "asks"}))
        prompt = next(one.payload for one in reversed(self.wire.sent)
                      if one.type == "control.prompt.request" and one.session_id == session_id)
        turn = uuid4(hashlib.sha256(session_id.encode()).digest())
        await self.send_frame(session_id, "session.turn.start", p.TurnStart(turn_id=turn, turn_index=0),
                              prompt_id=prompt.prompt_id)
        await self.send_frame(session_id, "tool.invoke.request", p.ToolRequest(
            invocation_id="i1", turn_id=turn, tool_name="Shell", title=command,
            input=msgspec.Raw(msgspec.json.encode({"command": command}))))
        await self.send_frame(session_id, "agent.interaction.request", p.InteractionRequest(
            interaction_id="x-i1", interaction_type="PERMISSION", title=command,
            context=p.InteractionContext(tool_name="Shell", invocation_id="i1")))
        [held] = await self.ledger.live_approvals(session_id, "default")
        return held.approval.id

    async def attach(self, session_id: str) -> None:
        """Let the runner ask for what it does not have yet: all of it."""
        shell = await self.engine.lanes.lane(session_id)
        if shell is not None:
            state = shell.lane.state
            known = p.HelloSession(session_id=session_id, last_seq_sent=0, control_seq=state.control_acked,
                                   state="idle")
            agent = AGENTS.index(state.agent_id) if state.agent_id in AGENTS else 0
            await shell.attach(self.wire, RunnerAttached(state.control_acked, self.hello.agents[agent], known))

    async def vote(self, approval_id: str, secret: str, decision: Decision = "grant") -> None:
        who = await self.credentials.principal(secret)
        if who.roles.isdisjoint(("approver", "admin", "owner")):
            raise Problem("Forbidden", "the role may not vote")
        await self.engine.vote(who, approval_id, GrantBody(decision=decision), self.remember)

    async def stop(self) -> None:
        await self.engine.stop()
        await self.ledger.close()


async def make_base(store: Store) -> Base:
    """Make a ledger in which everything that an edit could change waits for its release."""
    gateway = Gateway(await store.open_base(ManualClock(NOW_MS)), counting_entropy())
    ledger = gateway.ledger
    await gateway.engine.adopt()
    tenant = TenantRecord(tenant_id="default", name="", created_ms=NOW_MS)
    await ledger.commit(WriteBatch([Put(tenant), AuditAppend(_draft("policy_change", bound(tenant)))]))
    tenants = TenantStore(ledger, gateway.clock, gateway.credentials)
    await tenants.make(OWNER, TenantBody(tenant_id="t2"), gateway.remember)
    secrets = await _make_keys(gateway)
    await tenants.suspend(OWNER, "t2", gateway.remember, suspended=True)
    pairings = Pairings(ledger, gateway.clock, gateway.entropy, lambda _runner, _sentence: None)
    await pairings.take_own("local", "default", "ilr_local", "host")
    for name, effect, tool in (("rul_1", "allow", "Edit"), ("rul_2", "deny", "Fetch")):
        record = RuleRecord(rule=RememberedRule(
            id=name, tenant_id="default", created_at="", created_by="user:bob", approval_id="apr_1",
            rule={"name": name, "effect": effect, "agent": "free", "tool": tool, "until": "2099-01-01T00:00:00Z"}))
        await ledger.commit(WriteBatch([Put(record), AuditAppend(_draft("policy_change", {
            "change": "remembered", "effect": effect, **bound(record)}))]))
    await gateway.engine.start()
    await gateway.meet()
    held = await gateway.execute("held", "make report")
    assert held.approval_id is not None
    assert held.target.session_id is not None
    await gateway.vote(held.approval_id, secrets["bob"])
    running = await gateway.session_of("tool", "build")
    approval_id = await gateway.asked(running, "ls -l")
    await gateway.vote(approval_id, secrets["bob"])
    denied = await gateway.session_of("free", "clean")
    await gateway.vote(await gateway.asked(denied, "rm -rf build"), secrets["bob"], "deny")
    waiting = await gateway.session_of("free", "test")
    sessions = [held.target.session_id, running, denied, waiting]
    records = await ledger.audit("default", 0, 1_000)
    await gateway.stop()
    return Base(secrets, sessions, [held.approval_id, approval_id], [record.hash for record in records])


async def _make_keys(gateway: Gateway) -> dict[str, str]:
    secrets: dict[str, str] = {}
    people = {"ann": "viewer", "bob": "admin", "cara": "approver", "gone": "admin", "late": "owner"}
    for name, role in people.items():
        made = await gateway.keys.make(OWNER, KeyBody(
            principal=Actor(type="user", id=name), roles=[role], ttl_ms=1_000 if name == "late" else None),
            gateway.remember)
        secrets[name] = made.key
        if name == "gone":
            await gateway.keys.revoke(OWNER, made.key_id, gateway.remember)
    made = await gateway.keys.make(OWNER, KeyBody(principal=Actor(type="user", id="eve"), roles=["admin"],
                                                  tenant_id="t2"), gateway.remember)
    return {**secrets, "eve": made.key, "forged": FORGED}


def _draft(action: str, meta: dict[str, Any]) -> AuditDraft:
    return AuditDraft(tenant_id="default", at="", who={"id": "user:owner", "role": "owner"}, action=action, meta=meta)


async def release(gateway: Gateway, base: Base) -> tuple[Outcome, bool]:
    """Let everything go that waits: links, votes, keys, policy. Returns what came of it, and whether the gateway
    reported an edit."""
    gateway.clock.advance(2 * CACHE_MS)
    fault = False
    for session_id in base.sessions:
        fault |= await _failed(gateway.attach(session_id))
    keys: dict[str, str | None] = {}
    for name, secret in base.secrets.items():
        try:
            who = await gateway.credentials.principal(secret)
            keys[name] = f"{who.tenant_id} {who.who['id']} {who.role}"
        except Problem:
            keys[name] = None
        except Exception:  # noqa: BLE001 - a row that cannot be read is reported, too
            keys[name], fault = None, True
    for approval_id in base.approvals:
        await _failed(gateway.vote(approval_id, base.secrets["cara"]))
    fault |= await _failed(gateway.engine.read_rules())
    for session_id in base.sessions:
        fault |= await _failed(gateway.attach(session_id))
    fault |= await _failed(gateway.engine.rows.check())
    records = await gateway.ledger.audit("default", 0, 1_000)
    reported = any(msgspec.json.decode(one.body)["action"] == "tampered" for one in records
                   if one.body.startswith(b"{") and b'"tampered"' in one.body)
    return Outcome(frozenset(filter(None, map(_effect, gateway.wire.sent))), keys, _decisions(gateway)), (
        fault or reported)


async def _failed(doing: Awaitable[object]) -> bool:
    """Whether something was refused because of what is stored, and not by an ordinary answer."""
    try:
        await doing
    except Problem as problem:
        return problem.code not in ("Conflict", "NotFound", "Forbidden", "Unauthorized")
    except Exception:  # noqa: BLE001 - likewise
        return True
    return False


def _effect(frame: Frame) -> str | None:
    allows = frame.type == "control.interaction.response" and frame.payload.decision == "allow"
    if not allows and frame.type not in RUNS:
        return None
    fields = {name: value for name, value in msgspec.to_builtins(frame.payload).items() if name not in PERSONAL}
    return f"{frame.session_id} {frame.type} {msgspec.json.encode(fields, order='deterministic').decode()}"


def _decisions(gateway: Gateway) -> dict[str, str]:
    return {f"{agent} {tool}": gateway.engine.policy.decide(PolicySubject(
        door="tool", tenant_id="default", agent_id=agent, origin="user", permission="asks", at_ms=NOW_MS,
        tool_name=tool)).effect for agent, tool in PROBES}


def verified(base: Base, opened: AbstractContextManager[StoredRows]) -> bool:
    """Whether `audit verify --database` finds nothing: rows, and the log up to what was signed."""
    try:
        with opened as stored:
            records = list(stored.records("default"))
            whole = all(leaf_hash(one.body) == one.hash for one in records)
            return whole and [one.hash for one in records][: len(base.hashes)] == base.hashes and not compare_rows(
                stored)
    except Exception:  # noqa: BLE001 - what cannot be read does not verify
        return False


__all__ = ["FORGED", "PROBES", "Base", "Gateway", "Outcome", "digest", "make_base", "release", "verified"]
