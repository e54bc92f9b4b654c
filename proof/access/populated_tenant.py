"""A tenant that has one of everything that the API names, with its own words in each, and requests that name it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.bridge.lane_state import LaneState, Limits
from interlock.engine.cron import CronJob
from interlock.gateway.access.credentials import digest
from interlock.gateway.webhooks import ConfiguredWebhook
from interlock.ports.channel import ApprovalNotice, Channel
from interlock.ports.ledger import (
    Append,
    AuditAppend,
    LedgerWrite,
    Put,
    PutApproval,
    PutCommand,
    PutFile,
    PutSession,
    WriteBatch,
)
from interlock.protocol.api.operation import Operation
from interlock.protocol.clock import iso
from interlock.protocol.drains import Drain
from interlock.protocol.identifiers import command_stream, session_stream, tenant_stream
from interlock.protocol.records import (
    ApprovalRecord,
    AuditDraft,
    BrowserLoginRecord,
    CommandRecord,
    DeliveryRecord,
    DrainRecord,
    FileRecord,
    KeyRecord,
    PushTarget,
    RuleRecord,
    RunnerRecord,
    SessionRecord,
    SigningKeyRecord,
)
from interlock.protocol.resources import Actor, Approval, Command, Delivery, RememberedRule, SigningKey, Target
from proof.processes.in_memory_gateway import NOW_MS, InMemoryGateway

WORDS = "rivals-own-words"
PUBLIC_KEY = base64.b64encode(b"rivals-public-key".ljust(32)).decode()
IDS = {
    "command_id": "cmd_01RIVAL", "approval_id": "apr_01RIVAL", "session_id": "ses-01RIVAL", "runner_id": "rnr_01RIVAL",
    "rule_id": "rul_01RIVAL", "transfer_id": "trf_01RIVAL", "browser_session_id": "brs_01RIVAL",
    "push_subscription_id": "psh_01RIVAL", "delivery_id": "dlv_01RIVAL", "job_id": "job-01RIVAL",
    "name": "webhook-01RIVAL", "signing_key_id": "sgk_01RIVAL", "question_id": "apr_02RIVAL",
    "revocable_key_id": "key_01RIVAL", "seq": "1",
}
"""What the tenant has, by the name of the path's part; `tenant_id` is its own."""
SESSION_KEY = f"agent:shell:run:{WORDS}"
BODIES: dict[str, dict[str, Any]] = {
    "submitCommand": {"type": "cancel", "target": {"session_id": IDS["session_id"]}},
    "drain": {"scope": "session", "id": IDS["session_id"]}, "undrain": {"scope": "session", "id": IDS["session_id"]},
    "vote": {"decision": "grant"}, "answerQuestion": {"text": "x"},
    "reportCards": {"service": "chat", "chats": ["x"]}, "releaseSession": {"to": "gw_2"},
    "resumeSigning": {"size": 0, "root": "0" * 64}, "eraseAudit": {"who": f"user:{WORDS}"},
    "pairRunner": {"code": "AAAAA-AAAAA"}, "createSigningKey": {"public_key": PUBLIC_KEY},
    "registerPasskey": {"credential_id": "x" * 22, "public_key": PUBLIC_KEY, "at": iso(NOW_MS),
                        "assertion": {"authenticator_data": "eA==", "client_data_json": "eA==", "signature": "eA=="}},
    "makeKey": {"principal": {"type": "user", "id": "x"}, "roles": ["viewer"]}, "makeTenant": {"tenant_id": "x"},
    "replayPolicy": {"session_id": IDS["session_id"]}, "giveTicket": {"path": "/v1/events"},
    "openBrowserSession": {"code": "AAAA-AAAA-AAAA-AAAA"},
    "subscribeToPush": {"endpoint": "https://push.example/x", "keys": {"p256dh": "x" * 87, "auth": "x" * 22}},
    "receiveMessage": {"channel": "chat", "chat_type": "direct", "sender": "x", "text": "/status",
                       "session_key": SESSION_KEY},
    "labelEntry": {"entry_id": "e1", "label": "x"}, "branchTranscript": {"entry_id": "e1"},
    "patchSession": {"label": "x"}, "importTranscript": {"content": "", "agent_id": "shell"},
    "prune": {"older_than_ms": 86_400_000, "dry_run": True},
}
"""A valid body for each operation whose body may not be empty."""
QUERIES = {"decide": {"agent": "shell"}, "proveInclusion": {"seq": "1"}, "proveConsistency": {"first": "1"}}
"""The parameters that operations require."""


class NamingRequest(NamedTuple):
    """A request for an operation that names, by path, body or query, what the tenant has."""

    operation: Operation[Any]
    path: str
    body: dict[str, Any] | None
    query: dict[str, str]


def requests_of(operation: Operation[Any], tenant_id: str) -> Iterator[NamingRequest]:
    """Yield valid requests for an operation. Raises msgspec.ValidationError for a body that has become invalid, and
    KeyError for a path with a part of which the tenant has nothing."""
    path = re.sub(r"\{(\w+)\}", lambda part: _id(operation, part[1], tenant_id), operation.path)
    required = QUERIES.get(operation.name, {})
    for body in _bodies(operation, tenant_id):
        if operation.body is not None:
            msgspec.json.decode(msgspec.json.encode(body), type=operation.body)
        yield NamingRequest(operation, path, body, required)
    named = {"session": IDS["session_id"], "session_id": IDS["session_id"], "actor": f"user:{WORDS}",
             "tenant": tenant_id, "runner": IDS["runner_id"], "key": SESSION_KEY, "command": IDS["command_id"],
             "approval": IDS["approval_id"], "person": f"user:{WORDS}", "by": f"user:{WORDS}", "q": WORDS}
    for name in operation.query:
        if name in named and operation.body is None and (operation.name, name) != ("getUsage", "by"):
            yield NamingRequest(operation, path, None, {**required, name: named[name]})


def _id(operation: Operation[Any], part: str, tenant_id: str) -> str:
    if part == "tenant_id":
        return tenant_id
    if part == "key_id":
        return IDS["signing_key_id" if "signing" in operation.path else "revocable_key_id"]
    return IDS["question_id" if operation.name == "answerQuestion" else part]


def _bodies(operation: Operation[Any], tenant_id: str) -> Iterator[dict[str, Any] | None]:
    if operation.body is None:
        yield None
        return
    yield BODIES.get(operation.name, {})
    if operation.name == "submitCommand":
        for kind in ("execute", "cancel", "pause", "resume"):
            for name in ("session_id", "command_id", "runner_id"):
                yield {"type": kind, "target": {"agent_id": "shell", name: IDS[name]}}
        yield {"type": "execute", "target": {"session_key": SESSION_KEY}}
    if operation.name in ("drain", "undrain"):
        yield {"scope": "runner", "id": IDS["runner_id"]}
    if operation.name == "makeKey":
        yield {**BODIES["makeKey"], "tenant_id": tenant_id}
    if operation.name == "importTranscript":
        yield {**BODIES["importTranscript"], "runner_id": IDS["runner_id"]}
    if operation.name == "vote":
        yield {"decision": "grant", "method": "signature", "key_id": IDS["signing_key_id"], "at": iso(NOW_MS),
               "signature": "eA=="}


class _SilentChannel(Channel):
    async def ask(self, delivery_id: str, at_ms: int, asking: ApprovalNotice) -> None:
        pass

    async def test(self, delivery_id: str, at_ms: int) -> None:
        pass


async def populate(inside: InMemoryGateway, tenant_id: str) -> None:
    """Give a tenant one of everything, in the ledger, in the config and in memory."""
    stored = await inside.objects.put([WORDS.encode()])
    await inside.ledger.commit(WriteBatch([*_work(tenant_id, stored.sha256), *_access(tenant_id)]))
    inside.front.crons.configure([CronJob(IDS["job_id"], tenant_id, "shell", SESSION_KEY, WORDS, "0 0 1 1 *",
                                          ZoneInfo("UTC"), "UTC")])
    inside.front.webhooks.configure({(tenant_id, IDS["name"]): ConfiguredWebhook(WORDS, _SilentChannel())})
    inside.engine.configure(RuleSet([Rule(name=f"config {WORDS}", effect="ask", tenant=tenant_id, tool="x")]), Limits())
    await inside.engine.read_rules()
    await inside.engine.drains.learn()


def _work(tenant_id: str, sha256: str) -> Iterator[LedgerWrite]:
    at, who = iso(NOW_MS), Actor(type="user", id=WORDS)
    state = LaneState(session_id=IDS["session_id"], tenant_id=tenant_id, session_key=SESSION_KEY, agent_id="shell",
                      runner_id=IDS["runner_id"], workspace=f"/{WORDS}", created_ms=NOW_MS)
    yield PutSession(SessionRecord(
        session_id=state.session_id, tenant_id=tenant_id, session_key=state.session_key, agent_id="shell",
        runner_id=state.runner_id, workspace=state.workspace, state="idle", created_ms=NOW_MS, updated_ms=NOW_MS,
        deadline_ms=None, machine=msgspec.json.encode(state), usage={}))
    command = Command(
        id=IDS["command_id"], created_at=at, updated_at=at, tenant_id=tenant_id, actor=who, type="execute",
        target=Target(agent_id="shell", session_id=state.session_id), state="succeeded", timeout_ms=1,
        payload_sha256="ab", payload=msgspec.Raw(msgspec.json.encode(
            {"messages": [{"role": "user", "content": [{"contentType": "text", "value": WORDS}]}]})),
        idempotency_key=None)
    yield PutCommand(CommandRecord(command=command, session_id=state.session_id, created_ms=NOW_MS))
    written = msgspec.Raw(b'{"command":"%s"}' % WORDS.encode())
    approval = Approval(
        id=IDS["approval_id"], tenant_id=tenant_id, door="tool", state="pending", created_at=at, expires_at=at,
        title=WORDS, agent_id="shell", session_id=state.session_id, tool_name="x", rule="ask", input=written,
        digest=digest(bytes(written).decode()))
    question = msgspec.structs.replace(approval, id=IDS["question_id"], kind="question")
    for one in (approval, question):
        yield PutApproval(ApprovalRecord(approval=one, expires_ms=NOW_MS * 2))
    yield PutFile(FileRecord(session_id=state.session_id, transfer_id=IDS["transfer_id"], name=WORDS,
                             media_type="text/plain", size=len(WORDS), sha256=sha256, purpose="x", created_ms=NOW_MS,
                             objects=[sha256]), tenant_id)
    yield Put(DrainRecord(tenant_id=tenant_id, drain=Drain(scope="session", id=state.session_id, at=at,
                                                           by=f"user:{WORDS}", reason=WORDS)))
    yield Put(DeliveryRecord(delivery=Delivery(
        id=IDS["delivery_id"], tenant_id=tenant_id, channel=IDS["name"], approval_id=approval.id, state="dead",
        created_at=at, why=WORDS), due_ms=None))
    word = msgspec.json.encode({"event": "state", "word": WORDS})
    for stream in (command_stream(command.id), session_stream(state.session_id), tenant_stream(tenant_id)):
        for _ in range(3):
            yield Append(tenant_id, stream, "status", NOW_MS, word)


def _access(tenant_id: str) -> Iterator[LedgerWrite]:
    at, who = iso(NOW_MS), Actor(type="user", id=WORDS)
    yield Put(RunnerRecord(runner_id=IDS["runner_id"], tenant_id=tenant_id, token_sha256=digest("ilr_rival"),
                           device_name=WORDS, created_ms=NOW_MS, last_seen_ms=NOW_MS))
    rule = Rule(name=WORDS, effect="deny", tenant=tenant_id, door="tool", tool=WORDS)
    yield Put(RuleRecord(rule=RememberedRule(
        id=IDS["rule_id"], tenant_id=tenant_id, created_at=at, created_by=f"user:{WORDS}", approval_id="a",
        rule={name: value for name, value in msgspec.to_builtins(rule).items() if value not in (None, [])})))
    yield Put(SigningKeyRecord(key=SigningKey(key_id=IDS["signing_key_id"], tenant_id=tenant_id, owner=who,
                                              public_key=PUBLIC_KEY, label=WORDS, created_at=at)))
    made = KeyRecord(key_sha256=digest(WORDS), key_id=IDS["revocable_key_id"], tenant_id=tenant_id, role="approver",
                     principal=who, created_ms=NOW_MS, origin="made", label=WORDS)
    yield Put(made)
    target = PushTarget(id=IDS["push_subscription_id"], endpoint=f"https://push.example/{WORDS}", p256dh="x", auth="x",
                        created_ms=NOW_MS)
    yield Put(BrowserLoginRecord(
        id=IDS["browser_session_id"], form="session", tenant_id=tenant_id, principal=who, role="approver",
        key_id=made.key_id, key_sha256=made.key_sha256, created_ms=NOW_MS, last_used_ms=NOW_MS, expires_ms=NOW_MS * 2,
        label=WORDS, push=target))
    for _ in range(3):
        yield AuditAppend(AuditDraft(tenant_id=tenant_id, at=at, who={"id": f"user:{WORDS}", "role": "owner"},
                                     action="enqueue", personal={"reason": WORDS}))
