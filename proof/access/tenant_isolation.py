"""S1: each role of one tenant tries every operation of the route table on another tenant's objects: nothing leaks.

Another tenant's id and one that does not exist must get the same answer, by the same calls to the ledger.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from interlock.backends.memory.ledger import MemoryLedger
from interlock.engine.bridge.lane_state import LaneState
from interlock.gateway.access.credentials import digest
from interlock.ports.ledger import Append, AuditAppend, Put, PutApproval, PutCommand, PutSession, WriteBatch
from interlock.protocol.api.operation import Operation
from interlock.protocol.api.table import OPERATIONS
from interlock.protocol.clock import iso
from interlock.protocol.identifiers import command_stream, session_stream, tenant_stream
from interlock.protocol.records import (
    ApprovalRecord,
    AuditDraft,
    CommandRecord,
    RuleRecord,
    RunnerRecord,
    SessionRecord,
    SigningKeyRecord,
)
from interlock.protocol.resources import Actor, Approval, Command, RememberedRule, SigningKey, Target
from proof.processes.in_memory_gateway import NOW_MS, InMemoryGateway

ROLES = ("viewer", "operator", "approver", "auditor", "admin", "owner")
CANARY = "rivals-own-words"
THEIRS = {
    "command_id": "cmd_01RIVAL", "approval_id": "apr_01RIVAL", "session_id": "ses-01RIVAL", "runner_id": "rnr_01RIVAL",
    "rule_id": "rul_01RIVAL", "key_id": "key_rival_viewer", "tenant_id": "rival", "transfer_id": "trf_01RIVAL",
}
"""What the rival has, by the name of the path's part."""
SIGNING_KEY = "sgk_01RIVAL"
BODIES: dict[str, Any] = {
    "submitCommand": {"type": "execute", "target": {"agent_id": "shell"}}, "vote": {"decision": "grant"},
    "answer": {"answer": "x"}, "registerSigningKey": {"public_key": "A" * 43 + "="},
    "makeKey": {"principal": {"type": "user", "id": "x"}, "roles": ["viewer"]}, "makeTenant": {"tenant_id": "x"},
    "giveTicket": {"path": "/v1/events"},
}


class Watched(MemoryLedger):
    """Counts which calls are made, so that two answers can be shown to come the same way."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name != "calls":
            object.__getattribute__(self, "calls").append(name)
        return object.__getattribute__(self, name)


async def furnish(inside: InMemoryGateway) -> None:
    """Give the rival one of everything, with its words in each."""
    at, who = iso(NOW_MS), Actor(type="user", id=CANARY)
    state = LaneState(session_id=THEIRS["session_id"], tenant_id="rival", session_key=f"agent:shell:run:{CANARY}",
                      agent_id="shell", runner_id=THEIRS["runner_id"], workspace=f"/{CANARY}", created_ms=NOW_MS)
    session = SessionRecord(
        session_id=state.session_id, tenant_id="rival", session_key=state.session_key, agent_id="shell",
        runner_id=state.runner_id, workspace=state.workspace, state="idle", created_ms=NOW_MS, updated_ms=NOW_MS,
        deadline_ms=None, machine=msgspec.json.encode(state), usage={})
    command = Command(
        id=THEIRS["command_id"], created_at=at, updated_at=at, tenant_id="rival", actor=who, type="execute",
        target=Target(agent_id="shell"), state="succeeded", timeout_ms=1, payload_sha256="ab",
        payload=msgspec.Raw(b'"%s"' % CANARY.encode()), idempotency_key=None)
    approval = Approval(
        id=THEIRS["approval_id"], tenant_id="rival", door="command", state="pending", created_at=at, expires_at=at,
        title=CANARY, agent_id="shell", session_id=state.session_id, digest="00", rule="ask",
        input=msgspec.Raw(b'"%s"' % CANARY.encode()))
    word = msgspec.json.encode({"event": "state", "word": CANARY})
    await inside.ledger.commit(WriteBatch([
        PutSession(session), PutCommand(CommandRecord(command=command, session_id=state.session_id, created_ms=NOW_MS)),
        PutApproval(ApprovalRecord(approval=approval, expires_ms=NOW_MS * 2)),
        Put(RunnerRecord(runner_id=state.runner_id, tenant_id="rival", token_sha256=digest("ilr_rival"),
                         device_name=CANARY, created_ms=NOW_MS, last_seen_ms=NOW_MS)),
        Put(RuleRecord(rule=RememberedRule(id=THEIRS["rule_id"], tenant_id="rival", created_at=at,
                                           created_by=CANARY, approval_id="a", rule={"name": CANARY}))),
        Put(SigningKeyRecord(key=SigningKey(key_id=SIGNING_KEY, tenant_id="rival", owner=who,
                                            public_key="A" * 44, label=CANARY, created_at=at))),
        *(Append("rival", stream, "status", NOW_MS, word) for stream in (
            command_stream(command.id), session_stream(state.session_id), tenant_stream("rival"))),
        AuditAppend(AuditDraft(tenant_id="rival", at=at, who={"id": CANARY, "role": "owner"}, action="enqueue")),
    ]))


def paths(operation: Operation[Any]) -> Iterator[tuple[str, str]]:
    """Give the path with the rival's ids, and with ids of the same length that no one has."""
    if "{" not in operation.path:
        yield operation.path, operation.path
        return
    theirs = {**THEIRS, "key_id": SIGNING_KEY if "signing" in operation.path else THEIRS["key_id"]}
    filled = re.sub(r"\{(\w+)\}", lambda part: theirs.get(part[1], "x-01RIVAL"), operation.path)
    yield filled, _nobodys(filled)


def bodies(operation: Operation[Any]) -> Iterator[Any]:
    """Give bodies that fit, and for commands those that name what the rival has."""
    if operation.body is None:
        yield None
        return
    yield BODIES.get(operation.name, {})
    if operation.name == "submitCommand":
        for kind in ("execute", "cancel", "pause", "resume"):
            for name in ("session_id", "command_id", "runner_id"):
                yield {"type": kind, "target": {"agent_id": "shell", name: THEIRS[name]}}
        yield {"type": "execute", "target": {"session_key": f"agent:shell:run:{CANARY}"}}
    if operation.name == "makeKey":
        yield {**BODIES["makeKey"], "tenant_id": "rival"}


def queries(operation: Operation[Any]) -> Iterator[dict[str, str]]:
    """Give no query, and each parameter that could name what the rival has."""
    yield {}
    named = {"session": THEIRS["session_id"], "session_id": THEIRS["session_id"], "actor": CANARY, "tenant": "rival"}
    yield from ({name: named[name]} for name in operation.query if name in named)


class Trial:
    """Asks, compares and counts."""

    def __init__(self) -> None:
        self.asked = 0
        self.leaks: list[str] = []
        self.seen_by_rival = 0

    async def run(self) -> None:
        """Try every role on every operation; the rival itself sees its words, else the trial would show nothing."""
        ledger = Watched()
        inside = InMemoryGateway(ledger=ledger)
        keys = await inside.tenant("acme", ROLES)
        rival = await inside.tenant("rival", ROLES)
        await furnish(inside)
        for role in ROLES:
            for operation in OPERATIONS:
                await self._try(inside, ledger, role, keys[role], operation)
        for operation in OPERATIONS:
            for path, _ in paths(operation):
                if operation.method == "GET":
                    answer = await inside.ask(rival["owner"], "GET", "/v1" + path)
                    self.seen_by_rival += CANARY in answer.text
        await inside.close()

    async def _try(self, inside: InMemoryGateway, ledger: Watched, role: str, key: str,
                   operation: Operation[Any]) -> None:
        for theirs, nobodys in paths(operation):
            for body in bodies(operation):
                for query in queries(operation):
                    more: dict[str, Any] = {"params": query, **({"json": body} if body is not None else {})}
                    first = await self._ask(inside, ledger, key, operation, theirs, more)
                    what = f"{role} {operation.method} {theirs} {query} {body}"
                    if CANARY in first[1]:
                        self.leaks.append(f"{what}: {first[1]}")
                    if operation.roles.isdisjoint({role}) and not operation.public and first[0] not in (403, 404):
                        self.leaks.append(f"{what}: {first[0]} for a role that may not")
                    if theirs == nobodys:
                        continue
                    if first[0] < 400:
                        self.leaks.append(f"{what}: {first[0]}")
                    second = await self._ask(inside, ledger, key, operation, nobodys, more)
                    if (first[0], _nobodys(first[1]), first[2]) != second:
                        self.leaks.append(f"{what}: {first} differs from {second}")

    async def _ask(self, inside: InMemoryGateway, ledger: Watched, key: str, operation: Operation[Any], path: str,
                   more: dict[str, Any]) -> tuple[int, str, list[str]]:
        self.asked += 1
        inside.clock.at_ms += 1_000  # So that each refusal leaves its record, and none differs from another by that.
        await inside.ask(key, "GET", "/v1/whoami")  # Its last use, written once a minute, is not compared.
        ledger.calls.clear()
        answer = await inside.ask(key, operation.method, "/v1" + path, **more)
        return answer.status_code, answer.text, [call for call in ledger.calls if call not in ("key", "tenant")]


def _nobodys(text: str) -> str:
    """Put ids that no one has in place of the rival's."""
    return text.replace("RIVAL", "NOBDY").replace("rival", "nobdy")


def run(_seed: int, _rounds: int | None) -> bool:
    """Run the trial and print what it counted."""
    trial = Trial()
    asyncio.run(trial.run())
    print(f"{len(OPERATIONS)} operations, {len(ROLES)} roles, {trial.asked} requests: {len(trial.leaks)} leaks; "
          f"the rival sees its own words in {trial.seen_by_rival} answers")
    print("\n".join(trial.leaks[:20]))
    return not trial.leaks and trial.seen_by_rival > 0
