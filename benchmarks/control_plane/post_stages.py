"""Time of one POST /v1/commands by stage: each stage of its path by itself, in one process without a socket."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from statistics import median

import msgspec

from benchmarks.control_plane import command_posts
from benchmarks.control_plane.command_posts import existing
from benchmarks.control_plane.post_process import RULES
from benchmarks.control_plane.report import Line, Scale
from interlock.backends import rows
from interlock.command.audit.audit import FIRST_PREV, seal
from interlock.command.audit.audit_tree import Frontier
from interlock.command.policy.policy import PolicySubject, RuleSet
from interlock.engine.bridge.commands.prompts import prompt_of, read_payload
from interlock.engine.bridge.lane_state import LaneState
from interlock.gateway.rest.request.idempotency import claim_of
from interlock.gateway.rest.request.json_body import read, typed
from interlock.protocol.identifiers import ulid
from interlock.protocol.records import AuditDraft, CommandRecord, IdempotencyRecord, Principal
from interlock.protocol.resources import Actor, Command, CommandBody, Target

ROUNDS = 7
TIMES = 300
SESSION = "1ed609aa-5ef8-47eb-9de1-bab76d202fe4"
AT = "2026-11-21T10:28:41.318Z"


def posts(scale: Scale) -> list[Line]:
    """Row 4, and below it what each stage takes in microseconds and as a share of a whole bare POST."""
    lines = command_posts.posts(scale)
    limit = lines[0].value
    return [*lines, *(Line("4", f"a stage alone: {name}", seconds * 1e6, "µs", seconds * limit)
                      for name, seconds in stages())]


def stages() -> list[tuple[str, float]]:
    """Each stage's name and its seconds of a processor for one command, the median of ROUNDS."""
    found = [(name, median(_timed(stage) for _ in range(ROUNDS))) for name, stage in _stages().items()]
    return [*found, ("two tasks and a reply between them", median(asyncio.run(_turns()) for _ in range(ROUNDS)))]


def _timed(stage: Callable[[], object]) -> float:
    begin = time.process_time()
    for _ in range(TIMES):
        stage()
    return (time.process_time() - begin) / TIMES


def _stages() -> dict[str, Callable[[], object]]:
    raw, actor = existing(SESSION), Actor(type="user", id="owner")
    principal = Principal(tenant_id="default", actor=actor, role="operator", key_id="key_1")
    decoder = msgspec.json.Decoder(CommandBody, strict=True)
    body: CommandBody = decoder.decode(raw)
    assert isinstance(body.payload, msgspec.Raw)
    payload = bytes(body.payload)
    digest, id_ = hashlib.sha256(payload).hexdigest(), "cmd_" + ulid(1, b"0123456789")
    policy = RuleSet(RULES)
    subject = PolicySubject(door="command", tenant_id="default", agent_id="shell", origin="user", permission="asks",
                            at_ms=0, command_type="execute", session_id=SESSION, digest=digest)
    draft = AuditDraft(tenant_id="default", at=AT, who={"id": "user:owner", "role": "operator"}, action="enqueue",
                       command_id=id_, session_id=SESSION, meta={"rule": "r", "digest": digest, "to": "queued"})
    frontier, encoder = Frontier(), msgspec.json.Encoder()
    state = LaneState(session_id=SESSION, tenant_id="default", session_key="agent:shell:run:1", agent_id="shell",
                      runner_id="r1", workspace="/w", created_ms=0)

    def make() -> CommandRecord:
        command = Command(id=id_, created_at=AT, updated_at=AT, tenant_id="default", actor=actor, type="execute",
                          target=Target(agent_id="shell", session_id=SESSION), state="queued", timeout_ms=3_600_000,
                          payload=msgspec.Raw(payload), payload_sha256=digest)
        return CommandRecord(command=command, session_id=SESSION, created_ms=0)

    record = make()
    answer = IdempotencyRecord(tenant_id="default", scope="s" * 64, fingerprint="f" * 64, status=202,
                               headers={"Location": id_}, body=encoder.encode(record.command), created_ms=0,
                               command_id=id_)

    def sealed() -> None:
        frontier.grow(bytes.fromhex(seal(draft, frontier.size + 1, FIRST_PREV).hash))

    return {
        "read the body strictly, twice decoded": lambda: (read(raw), typed(decoder, raw)),
        "name and fingerprint the request": lambda: claim_of(principal, "POST", "/commands", "k" * 22, raw),
        "the payload as a prompt": lambda: prompt_of(read_payload(payload)),
        "policy, of twenty rules": lambda: policy.decide(subject),
        "an id, and the command's record": lambda: (ulid(1, b"0123456789"), make()),
        "the session's snapshot": lambda: encoder.encode(state),
        "the answer, the rows of command and answer": lambda: (
            encoder.encode(record.command), rows.command_row(record), rows.idempotency_row(answer)),
        "seal the audit record, grow the tree": sealed,
    }


async def _turns() -> float:
    """One request's task, one lane's task, and the reply that one waits for: what asyncio alone takes."""
    loop = asyncio.get_running_loop()
    inbox = asyncio.Queue[asyncio.Future[None]]()

    async def lane() -> None:
        while True:
            (await inbox.get()).set_result(None)

    async def request() -> None:
        reply: asyncio.Future[None] = loop.create_future()
        inbox.put_nowait(reply)
        await reply

    serving = asyncio.create_task(lane())
    begin = time.process_time()
    for _ in range(TIMES):
        await asyncio.create_task(request())
    taken = time.process_time() - begin
    serving.cancel()
    return taken / TIMES
