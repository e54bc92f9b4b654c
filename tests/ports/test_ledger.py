"""One suite over every ledger: the guarantees of `interlock.ports.ledger`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.ledger import MemoryLedger
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.ledger import open_ledger as open_in_postgres
from interlock.backends.sqlite.ledger import open_ledger
from interlock.command.audit.audit import CHECKPOINT_FACT, FIRST_PREV, leaf_hash, noted_size, write_noted
from interlock.ports.entities import BROWSER_LOGINS, DRAINS, KEYS, PAIRINGS, RUNNERS, SPENDING, USAGE
from interlock.ports.ledger import (
    FIRST_EPOCH,
    Add,
    AdvanceFact,
    Append,
    AuditAppend,
    BeginLane,
    Change,
    CommandQuery,
    Drop,
    DropControls,
    DropTranscript,
    Due,
    Expire,
    Fenced,
    LaneName,
    Ledger,
    LedgerError,
    LedgerWrite,
    NameTaken,
    Note,
    Put,
    PutApproval,
    PutCommand,
    PutControl,
    PutFact,
    PutFile,
    PutIdempotency,
    PutSession,
    PutTranscript,
    Redeem,
    SessionFilter,
    Spent,
    WriteBatch,
)
from interlock.ports.stored_lanes import LaneQuestion, SessionClock
from interlock.ports.usage import UsageQuery
from interlock.protocol.clock import iso
from interlock.protocol.drains import Drain
from interlock.protocol.limits import UNSIGNED_RECORDS_MAX
from interlock.protocol.records import (
    ApprovalRecord,
    AuditDraft,
    BrowserLoginRecord,
    CommandRecord,
    ControlRecord,
    DeliveryRecord,
    DrainRecord,
    Event,
    FileRecord,
    IdempotencyRecord,
    KeyRecord,
    PairingRecord,
    PushTarget,
    RuleRecord,
    RunnerRecord,
    SessionRecord,
    SigningKeyRecord,
    SpendingRecord,
    TenantRecord,
    TranscriptLine,
    UsageRecord,
)
from interlock.protocol.resources import Actor, Approval, Command, Delivery, RememberedRule, SigningKey, Target, Vote

pytestmark = pytest.mark.anyio


Place = str | PostgresSettings


@pytest.fixture(params=["memory", "sqlite", "postgres", "postgres_by_tenant"])
def place(request: pytest.FixtureRequest) -> Place:
    return request.getfixturevalue(request.param) if request.param.startswith("postgres") else request.param


@pytest.fixture
async def ledger(place: Place, tmp_path: Path) -> AsyncIterator[Ledger]:
    opened: Ledger
    if isinstance(place, PostgresSettings):
        opened = await open_in_postgres(place, ManualClock())
    else:
        opened = MemoryLedger() if place == "memory" else await open_ledger(tmp_path / "ledger.db", ManualClock())
    yield opened
    await opened.close()


def append(stream: str = "s/1", kind: Any = "C", body: bytes = b"{}", message_id: str = "", tenant_id: str = "t1"
           ) -> Append:
    return Append(tenant_id, stream, kind, 5, body, message_id)


def draft(action: str = "enqueue", tenant_id: str = "t1", **fields: Any) -> AuditDraft:
    return AuditDraft(tenant_id=tenant_id, at=iso(0), who={"id": "u", "role": "owner"}, action=action, **fields)


def session(session_id: str = "S1", **changes: Any) -> SessionRecord:
    fields: dict[str, Any] = {
        "session_id": session_id, "tenant_id": "t1", "session_key": "k", "agent_id": "shell", "runner_id": "r1",
        "workspace": "/w", "state": "open", "created_ms": 1, "updated_ms": 1, "deadline_ms": None,
        "machine": b"\x00\xff not text", "usage": {"input_tokens": 3, "cost": [1.5, None]},
    }  # fmt: skip
    return SessionRecord(**{**fields, **changes})


def command(command_id: str = "c1", state: Any = "queued", **changes: Any) -> CommandRecord:
    tenant_id = changes.pop("tenant_id", "t1")
    shown = Command(
        id=command_id, created_at=iso(1), updated_at=iso(2), tenant_id=tenant_id,
        actor=Actor(type="user", id=changes.pop("actor_id", "u")), type="execute",
        target=Target(agent_id=changes.pop("agent_id", "shell")), state=state, timeout_ms=5,
        payload=msgspec.Raw(b'{"messages": [1e2],"b" :"\xc3\xa9"}'), ended_at=changes.pop("ended_at", None),
    )  # fmt: skip
    return CommandRecord(command=shown, session_id=changes.pop("session_id", "S1"), created_ms=1, **changes)


def approval(approval_id: str = "a1", state: Any = "pending", tenant_id: str = "t1", session_id: str = "S1"
             ) -> ApprovalRecord:
    shown = Approval(
        id=approval_id, tenant_id=tenant_id, door="tool", state=state, created_at=iso(1), expires_at=iso(9), title="x",
        agent_id="shell", session_id=session_id, digest="00", input=msgspec.Raw(b'{"a" : 1.0}'), rule="all",
        votes=[Vote(by="u", at=iso(3), decision="grant", method="acl")],
    )  # fmt: skip
    return ApprovalRecord(approval=shown, expires_ms=9)


def answer(scope: str = "k1", created_ms: int = 10, command_id: str | None = None) -> IdempotencyRecord:
    return IdempotencyRecord(tenant_id="t1", scope=scope, fingerprint="f", status=202, headers={"Location": "/x"},
                             body=b"\x00{}", created_ms=created_ms, command_id=command_id)


def runner(runner_id: str = "r1", token: str = "h1", **changes: Any) -> RunnerRecord:
    return RunnerRecord(runner_id=runner_id, tenant_id=changes.pop("tenant_id", "t1"), token_sha256=token,
                        device_name="desk", created_ms=1, **{"last_seen_ms": 2, **changes})


def key(key_id: str = "k1", secret: str = "h1", **changes: Any) -> KeyRecord:
    return KeyRecord(key_sha256=secret, key_id=key_id, tenant_id=changes.pop("tenant_id", "t1"), role="owner",
                     principal=Actor(type="user", id="u"), created_ms=1, **changes)


async def put(ledger: Ledger, *writes: LedgerWrite) -> None:
    await ledger.commit(WriteBatch(writes))


# --- streams (S-1) ---


@pytest.mark.req("S-1", "D-1")
async def test_numbers_are_gap_free_for_many_writers_of_one_stream(ledger: Ledger) -> None:
    async def write(name: int) -> list[int]:
        numbers: list[int] = []
        for i in range(20):
            receipt = await ledger.commit(WriteBatch([append(body=b"%d/%d" % (name, i)), append(f"s/own{name}")]))
            numbers.append(receipt.numbers[0])
            assert receipt.numbers[1] == i + 1
        return numbers

    given = await asyncio.gather(*(write(name) for name in range(30)))
    assert all(numbers == sorted(numbers) for numbers in given)
    assert sorted(n for numbers in given for n in numbers) == list(range(1, 601))
    assert await ledger.head("t1", "s/1") == 600
    events = await ledger.events("t1", "s/1", 0, 1000)
    assert [event.n for event in events] == list(range(1, 601))
    for name, numbers in enumerate(given):
        assert [events[n - 1].body for n in numbers] == [b"%d/%d" % (name, i) for i in range(20)]


@pytest.mark.req("S-1")
async def test_batches_take_effect_in_the_order_of_the_calls(ledger: Ledger) -> None:
    commits = [asyncio.ensure_future(ledger.commit(WriteBatch([append(body=b"%d" % i)]))) for i in range(200)]
    receipts = await asyncio.gather(*commits)
    assert [receipt.numbers for receipt in receipts] == [[i + 1] for i in range(200)]
    assert [event.body for event in await ledger.events("t1", "s/1", 0, 500)] == [b"%d" % i for i in range(200)]


@pytest.mark.req("S-1")
async def test_a_batch_larger_than_any_step_keeps_its_order(ledger: Ledger) -> None:
    receipt = await ledger.commit(WriteBatch([append(f"s/{i % 3}", body=b"%d" % i) for i in range(331)]))
    assert receipt.numbers == [i // 3 + 1 for i in range(331)]
    events = await ledger.events("t1", "s/2", 100, 500)
    assert [event.body for event in events] == [b"%d" % (3 * n + 2) for n in range(100, 110)]


@pytest.mark.req("S-1")
async def test_events_are_read_back_unchanged_and_in_pages(ledger: Ledger) -> None:
    kinds = ["C", "M", "notice", "refused", "status", "feed"]
    await put(ledger, *(Append("t1", "s/1", kind, 7, b"\x00" + kind.encode(), f"m{kind}") for kind in kinds))  # pyright: ignore
    assert await ledger.events("t1", "s/1", 2, 2) == [
        Event(stream="s/1", n=3, kind="notice", at_ms=7, body=b"\x00notice", message_id="mnotice"),
        Event(stream="s/1", n=4, kind="refused", at_ms=7, body=b"\x00refused", message_id="mrefused"),
    ]
    events = await ledger.events("t1", "s/1", 2, 2)
    assert await ledger.tail("t1", "s/1", 2, 2) == [(one.n, one.kind, one.body, one.at_ms) for one in events]
    assert await ledger.events("t1", "s/1", 6, 10) == []
    assert await ledger.events("t1", "s/none", 0, 10) == []
    assert await ledger.head("t1", "s/none") == 0
    assert [event.n for event in await ledger.events("t1", "s/1", 0, 100)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.req("D-1")
async def test_recent_message_ids_are_those_of_received_frames(ledger: Ledger) -> None:
    await put(ledger, append("s/0", message_id="other"))
    for i in range(6):
        await put(ledger, append(message_id=f"c{i}"), append(kind="M", message_id=f"m{i}"))
    await put(ledger, append(kind="refused", message_id="r"), append("s/2", message_id="other"))
    assert await ledger.recent_message_ids("t1", "s/1", 3) == ["c4", "c5", "r"]
    assert await ledger.recent_message_ids("t1", "s/none", 3) == []


# --- one transaction (C-4) ---


@pytest.mark.req("C-4", "M-2")
async def test_a_refused_batch_leaves_nothing_behind(ledger: Ledger) -> None:
    await put(ledger, append(), AuditAppend(draft()), PutIdempotency(answer()), PutSession(session()),
              PutControl(ControlRecord(session_id="S1", seq=1, message_id="m", body=b""), "t1"),
              PutTranscript(TranscriptLine(tenant_id="t1", session_id="S1", entry_id="e1", line=b"1")),
              PutTranscript(TranscriptLine(tenant_id="t1", session_id="S1", entry_id="e2", line=b"2")))
    with pytest.raises(NameTaken):
        await put(ledger, append(), append("s/new"), AuditAppend(draft()), AuditAppend(draft(tenant_id="t2")),
                  PutCommand(command()), PutSession(session(state="closed")), PutSession(session("S2")),
                  PutApproval(approval()), DropControls("t1", "S1", 9), DropTranscript("t1", "S1", ("e1",)),
                  Put(runner()), Put(key()), PutIdempotency(answer("k2")), PutIdempotency(answer()))
    assert await ledger.head("t1", "s/1") == 1
    assert await ledger.head("t1", "s/new") == 0
    assert (await ledger.audit_head("t1"))[0] == 1
    assert await ledger.audit_head("t2") == (0, FIRST_PREV)
    assert await ledger.audit_tenants() == ["t1"]
    assert await ledger.session("S1") == session()
    assert await ledger.session("S2") is None
    assert await ledger.command("c1", "t1") is None
    assert await ledger.approval("a1", "t1") is None
    assert await ledger.idempotency("k2", "t1") is None
    assert await ledger.runner("r1", "t1") is None
    assert await ledger.key("h1") is None
    assert len(await ledger.controls("S1", "t1", 0)) == 1
    assert [line.entry_id for line in await ledger.transcript_pending()] == ["e1", "e2"]
    receipt = await ledger.commit(WriteBatch([append(), append("s/new"), AuditAppend(draft())]))
    assert receipt.numbers == [2, 1]
    assert receipt.audit_seqs == [2]


@pytest.mark.req("C-4", "S-1")
async def test_only_the_faulty_batches_of_a_crowd_fail(ledger: Ledger) -> None:
    epoch = await ledger.take(LaneName("t1", "lane"))
    await put(ledger, PutIdempotency(answer("taken")))

    def batch(i: int) -> WriteBatch:
        if i % 5 == 1:
            return WriteBatch([append(), PutIdempotency(answer("taken"))])
        if i % 5 == 3:
            return WriteBatch([append()], [(LaneName("t1", "lane"), epoch + 1)])
        return WriteBatch([append(body=b"%d" % i), AuditAppend(draft())], [(LaneName("t1", "lane"), epoch)])

    outcomes = await asyncio.gather(*(ledger.commit(batch(i)) for i in range(100)), return_exceptions=True)
    good = [i for i in range(100) if i % 5 not in (1, 3)]
    assert all(isinstance(outcomes[i], NameTaken) for i in range(100) if i % 5 == 1)
    assert all(isinstance(outcomes[i], Fenced) for i in range(100) if i % 5 == 3)
    assert [outcomes[i] for i in good] == [([n], [n]) for n in range(1, len(good) + 1)]
    assert [event.body for event in await ledger.events("t1", "s/1", 0, 500)] == [b"%d" % i for i in good]
    assert (await ledger.audit_head("t1"))[0] == len(good)


@pytest.mark.req("M-2")
async def test_two_responses_under_one_key_in_one_batch_are_refused(ledger: Ledger) -> None:
    with pytest.raises(NameTaken):
        await put(ledger, PutIdempotency(answer()), PutIdempotency(answer()))
    assert await ledger.idempotency("k1", "t1") is None


@pytest.mark.req("C-4")
async def test_a_lane_begins_with_its_first_commit_or_not_at_all(ledger: Ledger) -> None:
    assert (await ledger.commit(WriteBatch([append(), BeginLane(LaneName("t1", "s/1"))]))).numbers == [1]
    assert (await ledger.commit(WriteBatch([append()], [(LaneName("t1", "s/1"), FIRST_EPOCH)]))).numbers == [2]
    with pytest.raises(Fenced):
        await ledger.commit(WriteBatch([append(), BeginLane(LaneName("t1", "s/1"))]))
    assert await ledger.take(LaneName("t1", "s/1")) > FIRST_EPOCH
    with pytest.raises(Fenced):
        await ledger.commit(WriteBatch([append()], [(LaneName("t1", "s/1"), FIRST_EPOCH)]))
    # A failed batch leaves the lane unchanged.
    await put(ledger, PutIdempotency(answer("taken")))
    with pytest.raises(NameTaken):
        await ledger.commit(WriteBatch([BeginLane(LaneName("t1", "s/2")), PutIdempotency(answer("taken"))]))
    assert await ledger.take(LaneName("t1", "s/2")) == FIRST_EPOCH
    with pytest.raises(Fenced):
        await ledger.commit(WriteBatch([append(), BeginLane(LaneName("t1", "s/2"))]))
    assert (await ledger.events("t1", "s/1", 2, 9)) == []


@pytest.mark.req("S-1")
async def test_a_stream_declared_new_begins_at_one(ledger: Ledger) -> None:
    new = Append(tenant_id="t1", stream="s/new", kind="status", at_ms=0, body=b"1", opens=True)
    assert (await ledger.commit(WriteBatch([new, append("s/new")]))).numbers == [1, 2]
    assert (await ledger.commit(WriteBatch([append("s/new")]))).numbers == [3]
    assert [event.n for event in await ledger.events("t1", "s/new", 0, 9)] == [1, 2, 3]


@pytest.mark.req("C-4")
async def test_a_lane_taken_over_fences_its_former_owner(ledger: Ledger) -> None:
    first = await ledger.take(LaneName("t1", "s/1"))
    await ledger.commit(WriteBatch([append()], [(LaneName("t1", "s/1"), first)]))
    second = await ledger.take(LaneName("t1", "s/1"))
    assert second > first
    with pytest.raises(Fenced):
        await ledger.commit(WriteBatch([append()], [(LaneName("t1", "s/1"), first)]))
    assert (await ledger.commit(WriteBatch([append()], [(LaneName("t1", "s/1"), second)]))).numbers == [2]
    with pytest.raises(Fenced):
        await ledger.commit(WriteBatch([append()], [(LaneName("t1", "s/1"), second),
                                                    (LaneName("t1", "never taken"), 1)]))
    assert await ledger.take(LaneName("t1", "s/2")) == 1


@pytest.mark.req("D-5")
async def test_the_gateway_id_is_kept(ledger: Ledger) -> None:
    assert await ledger.gateway_id() == await ledger.gateway_id() != ""


async def test_a_closed_ledger_raises_its_error(ledger: Ledger) -> None:
    await ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        await put(ledger, append())
    with pytest.raises(LedgerError, match="closed"):
        await ledger.head("t1", "s/1")
    await ledger.close()


async def test_an_empty_batch_commits(ledger: Ledger) -> None:
    assert await ledger.commit(WriteBatch([])) == ([], [])


# --- sessions ---


async def test_sessions_are_found_by_every_key(ledger: Ledger) -> None:
    await put(ledger, PutSession(session("S1", created_ms=1, updated_ms=50, deadline_ms=900)),
              PutSession(session("S2", created_ms=2, updated_ms=40, deadline_ms=800)),
              PutSession(session("S3", created_ms=2, updated_ms=60, session_key="other", state="closed")),
              PutSession(session("T1", tenant_id="t2", runner_id="r2")))
    assert await ledger.session("S1") == session("S1", created_ms=1, updated_ms=50, deadline_ms=900)
    assert await ledger.session("none") is None
    found = await ledger.session_by_key("t1", "k")
    assert found is not None
    assert found.session_id == "S2"
    assert await ledger.session_by_key("t2", "other") is None
    assert [record.session_id for record in await ledger.sessions("t1", 10)] == ["S3", "S1", "S2"]
    assert [record.session_id for record in await ledger.sessions("t1", 1, before=(60, ""))] == ["S1"]
    for only, ids in ((SessionFilter(runner_id="r1"), ["S3", "S1", "S2"]),
                      (SessionFilter(runner_id="r2"), []), (SessionFilter(state="closed"), ["S3"]),
                      (SessionFilter(agent_id="other"), []), (SessionFilter(workspace="/w"), ["S3", "S1", "S2"]),
                      (SessionFilter(session_key="other"), ["S3"]), (SessionFilter(session_ids=()), []),
                      (SessionFilter(session_ids=("S1", "S3", "S9"), agent_id="shell"), ["S3", "S1"])):
        assert [record.session_id for record in await ledger.sessions("t1", 10, None, only)] == ids, only
    assert [record.session_id for record in await ledger.runner_sessions("r1", "t1")] == ["S1", "S2"]
    assert await ledger.due_sessions() == [Due("S2", 800, "open", "t1"), Due("S1", 900, "open", "t1")]
    assert await ledger.session_clocks([LaneName(*one) for one in (
            ("t1", "S3"), ("t1", "none"), ("t1", "S1"), ("t1", "S1"), ("t2", "S2"))]) == [
        SessionClock("S1", "r1", "open", 900, "t1"), SessionClock("S3", "r1", "closed", None, "t1")]
    assert await ledger.session_clocks([]) == []
    await put(ledger, PutSession(session("S2", state="closed", updated_ms=70, deadline_ms=None)))
    assert [record.session_id for record in await ledger.sessions("t1", 10)] == ["S2", "S3", "S1"]
    assert [record.session_id for record in await ledger.runner_sessions("r1", "t1")] == ["S1"]
    assert await ledger.due_sessions() == [Due("S1", 900, "open", "t1")]


async def test_of_two_sessions_of_one_instant_the_later_one_is_the_newest(ledger: Ledger) -> None:
    await put(ledger, PutSession(session("S1")))
    await put(ledger, PutSession(session("S2")))
    found = await ledger.session_by_key("t1", "k")
    assert found is not None
    assert found.session_id == "S2"
    assert [record.session_id for record in await ledger.sessions("t1", 10)] == ["S2", "S1"]


@pytest.mark.req("I-3")
async def test_the_sessions_that_a_key_has_had_are_listed_newest_first(ledger: Ledger) -> None:
    await put(ledger, PutSession(session("S1", created_ms=1)), PutSession(session("S2", created_ms=3)),
              PutSession(session("S3", created_ms=3)), PutSession(session("X1", session_key="other", created_ms=9)),
              PutSession(session("T1", tenant_id="t2", created_ms=9)))
    assert [one.session_id for one in await ledger.key_sessions("t1", "k", 10)] == ["S3", "S2", "S1"]
    assert [one.session_id for one in await ledger.key_sessions("t1", "k", 2)] == ["S3", "S2"]
    # Later activity of an older one does not make it newer.
    await put(ledger, PutSession(session("S1", created_ms=1, updated_ms=99, state="running")))
    assert [one.session_id for one in await ledger.key_sessions("t1", "k", 10)] == ["S3", "S2", "S1"]
    assert await ledger.key_sessions("t1", "none", 10) == []
    assert [one.session_id for one in await ledger.key_sessions("t2", "k", 10)] == ["T1"]


@pytest.mark.req("C-5")
async def test_sessions_changed_at_one_instant_are_each_on_one_page(ledger: Ledger) -> None:
    await put(ledger, *(PutSession(session(f"S{number}", updated_ms=7)) for number in range(5)))
    seen: list[str] = []
    before: tuple[int, str] | None = None
    while page := await ledger.sessions("t1", 2, before):
        seen += [record.session_id for record in page]
        before = (page[-1].updated_ms, page[-1].session_id)
    assert seen == ["S4", "S3", "S2", "S1", "S0"]


@pytest.mark.req("C-5")
async def test_a_drain_stays_until_it_is_dropped(ledger: Ledger) -> None:
    whole = DrainRecord(tenant_id="t1", drain=Drain(scope="gateway", at=iso(1), by="user:u"))
    one = DrainRecord(tenant_id="t2", drain=Drain(scope="runner", id="r1", at=iso(2), by="user:v", reason="update"))
    await put(ledger, Put(whole), Put(one), Put(whole))
    assert await ledger.drains() == [whole, one]
    await put(ledger, Drop(DRAINS, ("t1", "runner", "r1")), Drop(DRAINS, ("t1", "gateway", "")))
    assert await ledger.drains() == [one]


@pytest.mark.req("C-4")
async def test_many_lanes_read_together_equal_those_read_alone(ledger: Ledger) -> None:
    names = [f"S{i}" for i in range(4)]
    for i, name in enumerate(names):
        await put(ledger, PutSession(session(name, tenant_id=f"t{i % 2}")),
                  *(PutCommand(command(f"{name}-{state}", state, session_id=name, tenant_id=f"t{i % 2}"))
                    for state in ("queued", "running", "succeeded")),
                  PutApproval(approval(f"a-{name}", session_id=name, tenant_id=f"t{i % 2}")),
                  *(PutControl(ControlRecord(session_id=name, seq=seq, message_id=f"m{seq}", body=b"\x00"),
                               f"t{i % 2}") for seq in (2, 1, 3)),
                  *(append(f"s/{name}", kind, message_id=f"{kind}-{name}-{n}", tenant_id=f"t{i % 2}") for n in range(3)
                    for kind in ("C", "M", "refused")),
                  *(PutTranscript(TranscriptLine(tenant_id=f"t{i % 2}", session_id=name, entry_id=f"e{n}-{name}",
                                                 line=b"{}")) for n in (1, 0)))
    found = await ledger.stored_lanes([LaneName(*one) for one in (
        ("t1", "S3"), ("t1", "none"), ("t0", "S0"), ("t1", "S1"), ("t0", "S0"), ("t1", "S2"))], 4)
    assert sorted(found) == ["S0", "S1", "S3"]
    for name, lane in found.items():
        assert lane.session == await ledger.session(name, lane.session.tenant_id)
        assert [one.command.id for one in lane.commands] == [f"{name}-queued", f"{name}-running"]
        assert lane.commands == await ledger.live_commands(name, lane.session.tenant_id)
        assert lane.approvals == await ledger.live_approvals(name, lane.session.tenant_id) != []
        assert lane.controls == await ledger.controls(name, lane.session.tenant_id, 0) != []
        assert lane.received == await ledger.recent_message_ids(lane.session.tenant_id, f"s/{name}", 4)
        assert lane.received == [f"C-{name}-1", f"refused-{name}-1", f"C-{name}-2", f"refused-{name}-2"]
        assert lane.pending == [line.entry_id for line in await ledger.transcript_pending(
            (name, lane.session.tenant_id))] != []
    assert await ledger.stored_lanes([], 4) == {}


@pytest.mark.req("C-4", "H-5")
async def test_the_histories_of_many_lanes_equal_those_read_alone(ledger: Ledger) -> None:
    cmd_1, apr_1, apr_2 = "cmd_" + 26 * "1", "apr_" + 26 * "1", "apr_" + 26 * "2"

    def sealed(name: str, number: int, **about: str) -> AuditAppend:
        return AuditAppend(draft(meta={"frames_of": name * 32, "frames": {}, "n": number}, **about))

    await put(ledger, *(append("s/S1", body=b"%d" % n) for n in range(5)), append("s/S2"),
              sealed("a", 1, command_id=cmd_1), sealed("b", 2, approval_id=apr_1),
              sealed("a", 3, command_id=cmd_1, approval_id=apr_1), sealed("a", 4), sealed("a", 5),
              AuditAppend(draft(tenant_id="t2", command_id=cmd_1)))
    asked = [LaneQuestion("t1", "s/S1", 1, (cmd_1, apr_1, apr_2), "a" * 32),
             LaneQuestion("t2", "s/S2", None, (cmd_1,), "b" * 32),
             LaneQuestion("t1", "s/none", 0, (), "b" * 32),
             LaneQuestion("t1", "s/S2", 0, (cmd_1,), "c" * 32)]
    found = await ledger.lane_histories(asked, 3, 2)
    for question, history in zip(asked, found, strict=True):
        tail = [] if question.after is None else await ledger.events(question.tenant_id, question.stream,
                                                                     question.after, 3)
        assert history.events == tail
        assert history.about == {one: await ledger.audit_about(question.tenant_id, one) for one in question.subjects}
        assert history.seals == await ledger.audit_seals(question.tenant_id, question.seals_of, 2)
    assert [event.n for event in found[0].events] == [2, 3, 4]
    assert [len(records) for records in found[0].about.values()] == [2, 1, 0]
    assert [record.seq for record in found[0].seals] == [4, 5]
    assert [len(history.seals) for history in found] == [2, 0, 1, 0]
    assert await ledger.lane_histories([], 3, 2) == []


# --- commands and approvals ---
@pytest.mark.req("H-5")
async def test_a_ballot_has_its_waiting_command_and_the_runner_of_its_session(ledger: Ledger) -> None:
    def about(command_id: str | None, approval_id: str, session_id: str = "S1") -> PutApproval:
        record = approval(approval_id, session_id=session_id)
        shown = msgspec.structs.replace(record.approval, command_id=command_id)
        return PutApproval(msgspec.structs.replace(record, approval=shown))

    await put(ledger, PutSession(session()), PutCommand(command("c1", "pending_approval")),
              PutCommand(command("c2", "pending_approval")), PutCommand(command("c3", "running")),
              about("c2", "a2"), about("c3", "a3"), about(None, "a4"), about("c1", "a5", "no session"))
    found = await ledger.ballot("a2", "t1")
    assert found is not None
    assert found.command is not None
    assert (found.approval.approval.id, found.command.command.id, found.runner_id) == ("a2", "c2", "r1")
    for name in ("a3", "a4"):
        other = await ledger.ballot(name, "t1")
        assert other is not None
        assert (other.approval.approval.id, other.command, other.runner_id) == (name, None, "r1")
    apart = await ledger.ballot("a5", "t1")
    assert apart is not None
    assert (apart.command, apart.runner_id) == (None, ""), "it is of no session that has the command"
    assert await ledger.ballot("a2", "t2") is None
    assert await ledger.ballot("none", "t1") is None


@pytest.mark.req("C-5")
async def test_executes_are_listed_apart_from_control_commands(ledger: Ledger) -> None:
    order = command("c2")
    order = msgspec.structs.replace(order, command=msgspec.structs.replace(order.command, type="cancel"))
    await put(ledger, PutCommand(command("c1")), PutCommand(order))
    found = [await ledger.commands(CommandQuery("t1", type=kind)) for kind in ("execute", "cancel", "pause", None)]
    assert [[record.command.id for record in page] for page in found] == [["c1"], ["c2"], [], ["c2", "c1"]]




@pytest.mark.req("C-4", "C-5", "P-2")
async def test_a_command_is_read_back_with_the_bytes_of_its_payload(ledger: Ledger) -> None:
    record = command(remaining_ms=7, cancel_cause="timeout")
    await put(ledger, PutCommand(record))
    found = await ledger.command("c1", "t1")
    assert found is not None
    assert isinstance(found.command.payload, msgspec.Raw)
    assert bytes(found.command.payload) == b'{"messages": [1e2],"b" :"\xc3\xa9"}'
    assert msgspec.structs.replace(found, command=record.command) == record
    assert msgspec.json.encode(found) == msgspec.json.encode(record)


@pytest.mark.req("C-5")
async def test_commands_are_filtered_and_paged_newest_first(ledger: Ledger) -> None:
    for i in range(12):
        await put(ledger, PutCommand(command(
            f"c{i}", "running" if i % 2 else "queued", session_id=f"S{i % 3}", agent_id="goose" if i < 6 else "shell",
            actor_id="u" if i % 4 else "v")))
    await put(ledger, PutCommand(command("foreign", tenant_id="t2")))
    await put(ledger, PutCommand(command("c3", "succeeded", session_id="S0", agent_id="goose", ended_at=iso(5))))

    async def ids(**query: Any) -> list[str]:
        return [record.command.id for record in await ledger.commands(CommandQuery("t1", **query))]

    assert await ids() == [f"c{i}" for i in range(11, -1, -1)]
    assert await ids(limit=5) == ["c11", "c10", "c9", "c8", "c7"]
    assert await ids(before="c7", limit=3) == ["c6", "c5", "c4"]
    assert await ids(before="c0") == []
    assert await ids(before="foreign") == []
    assert await ids(before="unknown") == []
    assert await ids(state="running") == ["c11", "c9", "c7", "c5", "c1"]
    assert await ids(state="running", agent_id="goose", before="c5") == ["c1"]
    assert await ids(session_id="S1", actor_id="v") == ["c4"]
    assert [record.command.id for record in await ledger.live_commands("S0", "t1")] == ["c0", "c6", "c9"]
    assert await ledger.live_commands("none", "t1") == []


@pytest.mark.req("P-2", "P-6")
async def test_approvals_are_listed_newest_first_and_live_ones_by_session(ledger: Ledger) -> None:
    for i, state in enumerate(["pending", "granted", "denied", "pending", "consumed"]):
        await put(ledger, PutApproval(approval(f"a{i}", state)))
    await put(ledger, PutApproval(approval("b", tenant_id="t2", session_id="S2")))
    found = await ledger.approval("a0", "t1")
    assert found is not None
    assert bytes(found.approval.input) == b'{"a" : 1.0}'
    assert msgspec.json.encode(found) == msgspec.json.encode(approval("a0"))

    async def ids(state: str | None, before: str | None, limit: int = 10) -> list[str]:
        return [record.approval.id for record in await ledger.approvals("t1", state, before, limit)]

    assert await ids(None, None) == ["a4", "a3", "a2", "a1", "a0"]
    assert await ids(None, "a3", 2) == ["a2", "a1"]
    assert await ids("pending", None) == ["a3", "a0"]
    assert await ids("pending", "a3") == ["a0"]
    assert await ids(None, "b") == []
    assert [record.approval.id for record in await ledger.live_approvals("S1", "t1")] == ["a0", "a1", "a3"]
    await put(ledger, PutApproval(approval("a1", "consumed")))
    assert [record.approval.id for record in await ledger.live_approvals("S1", "t1")] == ["a0", "a3"]
    assert await ledger.approval("none", "t1") is None


# --- the rest ---


@pytest.mark.req("D-7")
async def test_control_frames_are_kept_until_they_are_dropped(ledger: Ledger) -> None:
    def frame(seq: int, body: bytes = b"x", session_id: str = "S1") -> ControlRecord:
        return ControlRecord(session_id=session_id, seq=seq, message_id=f"m{seq}", body=body)

    await put(ledger, PutSession(session()), PutSession(session("S2", tenant_id="t2")),
              *(PutControl(frame(seq), "t1") for seq in (3, 1, 2)), PutControl(frame(1, session_id="S2"), "t2"))
    await put(ledger, PutControl(frame(2, b"no-op"), "t1"))
    assert await ledger.controls("S1", "t1", 1) == [frame(2, b"no-op"), frame(3)]
    await put(ledger, DropControls("t1", "S1", 2))
    assert await ledger.controls("S1", "t1", 0) == [frame(3)]
    assert await ledger.controls("S2", "t2", 0) == [frame(1, session_id="S2")]
    assert await ledger.controls("S2", "t1", 0) == []


@pytest.mark.req("K-1")
async def test_the_files_of_a_session_are_readable_only_by_its_tenant(ledger: Ledger) -> None:
    def file(transfer_id: str) -> FileRecord:
        return FileRecord(session_id="S1", transfer_id=transfer_id, name="a", media_type="x", size=1, sha256="",
                          purpose="output", created_ms=1, objects=["o1", "o2"])

    await put(ledger, PutSession(session()), PutFile(file("f1"), "t1"), PutFile(file("f2"), "t1"))
    assert await ledger.file("S1", "t1", "f2") == file("f2")
    assert [record for _, record in await ledger.files("S1", "t1", 0, 9)] == [file("f1"), file("f2")]
    assert await ledger.file("S1", "t2", "f2") is None
    assert await ledger.files("S1", "t2", 0, 9) == []


@pytest.mark.req("M-1", "M-2")
async def test_a_response_is_stored_byte_for_byte_until_it_and_its_command_are_old(ledger: Ledger) -> None:
    await put(ledger, PutIdempotency(answer("plain", 10)), PutIdempotency(answer("young", 100)),
              PutIdempotency(answer("running", 10, "c1")), PutIdempotency(answer("ended", 10, "c2")),
              PutIdempotency(answer("just ended", 10, "c3")), PutIdempotency(answer("gone", 10, "c9")),
              PutCommand(command("c1")), PutCommand(command("c2", "failed", ended_at=iso(50))),
              PutCommand(command("c3", "failed", ended_at=iso(150))))
    assert await ledger.idempotency("ended", "t1") == answer("ended", 10, "c2")
    assert await ledger.idempotency("none", "t1") is None
    assert await ledger.prune_idempotency(100) == 3
    left = [scope for scope in ("plain", "young", "running", "ended", "just ended", "gone")
            if await ledger.idempotency(scope, "t1")]
    assert left == ["young", "running", "just ended"]
    assert await ledger.prune_idempotency(100) == 0
    await put(ledger, PutIdempotency(answer("plain", 300)))


@pytest.mark.req("M-2")
async def test_pruning_many_responses_uses_several_transactions(ledger: Ledger) -> None:
    await put(ledger, *(PutIdempotency(answer(f"k{i}")) for i in range(2_500)))
    assert await ledger.prune_idempotency(11) == 2_500


@pytest.mark.req("L-3")
async def test_runners_are_found_by_id_token_and_tenant(ledger: Ledger) -> None:
    await put(ledger, Put(runner("r2", "h2")), Put(runner("r1", "h1")),
              Put(runner("r3", "h3", tenant_id="t2")))
    await put(ledger, Put(runner("r2", "h2b", revoked=True)))
    assert await ledger.runner("r2", "t1") == runner("r2", "h2b", revoked=True) == await ledger.runner_by_token("h2b")
    assert await ledger.runner_by_token("h2") is None
    assert [record.runner_id for record in await ledger.runners("t1")] == ["r2", "r1"]
    named = await ledger.runners_named(["r3", "nobody", "r2"], ["t1", "t2"])
    assert sorted(record.token_sha256 for record in named) == ["h2b", "h3"]
    assert [one.runner_id for one in await ledger.runners_named(["r3", "r2"], ["t1"])] == ["r2"]
    assert await ledger.runners_named([], ["t1"]) == []
    with pytest.raises(NameTaken):
        await put(ledger, Put(runner("r9", "h1")))


@pytest.mark.req("L-3", "L-6")
async def test_a_runners_last_seen_time_is_written_alone(ledger: Ledger) -> None:
    await put(ledger, Put(runner("r1", "h1")), Put(runner("r1", "h2", revoked=True)))
    await put(ledger, Note(RUNNERS, "t1", "r1", 77), Note(RUNNERS, "t1", "nobody", 78))
    assert await ledger.runner("r1", "t1") == runner("r1", "h2", revoked=True, last_seen_ms=77)
    assert await ledger.runners("t1") == [runner("r1", "h2", revoked=True, last_seen_ms=77)]
    assert await ledger.runner("nobody", "t1") is None


def browser_login(login_id: str = "brs_1", expires_ms: int = 20, tenant_id: str = "t1", **changes: Any
                  ) -> BrowserLoginRecord:
    return msgspec.structs.replace(BrowserLoginRecord(
        id=login_id, form="session", tenant_id=tenant_id, principal=Actor(type="user", id="ann"), role="approver",
        key_id="k1", key_sha256="h", created_ms=10, last_used_ms=10, expires_ms=expires_ms, cookie_sha256="c",
        half_sha256="f", label="a browser"), **changes)


@pytest.mark.req("J-18")
async def test_a_browser_login_is_changed_only_if_it_exists_and_keeps_its_last_use(ledger: Ledger) -> None:
    target = PushTarget(id="psh_1", endpoint="https://push.example/1", p256dh="p", auth="a", created_ms=12)
    await put(ledger, Put(browser_login()), Note(BROWSER_LOGINS, "t1", "brs_1", 15))
    await put(ledger, Change(browser_login(push=target)))
    assert await ledger.browser_login("brs_1") == browser_login(push=target, last_used_ms=15)
    with pytest.raises(Spent):
        await put(ledger, Change(browser_login(push=None)), Change(browser_login("brs_2")))
    assert [one.push for one in await ledger.browser_logins("t1")] == [target], "a batch is whole"
    await put(ledger, Redeem(BROWSER_LOGINS, "t1", "brs_1", 19))
    with pytest.raises(Spent):
        await put(ledger, Change(browser_login(push=target)))


@pytest.mark.req("K-1")
async def test_a_browser_login_is_spent_once_and_with_its_whole_batch(ledger: Ledger) -> None:
    await put(ledger, Put(browser_login()), Put(browser_login("brs_2", 30)),
              Put(browser_login("brs_3", tenant_id="t2")), Put(browser_login("0code", 30)))
    with pytest.raises(NameTaken):
        await put(ledger, Put(browser_login()))
    assert await ledger.browser_login("brs_1") == browser_login()
    assert [one.id for one in await ledger.browser_logins("t1")] == ["0code", "brs_1", "brs_2"]
    await put(ledger, Note(BROWSER_LOGINS, "t1", "brs_1", 15), Note(BROWSER_LOGINS, "t1", "nothing", 15))
    assert await ledger.browser_login("brs_1") == browser_login(last_used_ms=15)
    outcomes = await asyncio.gather(*(put(ledger, Redeem(BROWSER_LOGINS, "t1", "0code", 19),
                                          Put(browser_login(f"brs_9{i}", 40))) for i in range(5)),
                                    return_exceptions=True)
    assert sorted(type(one).__name__ for one in outcomes if isinstance(one, Exception)) == ["Spent"] * 4
    assert sum(one.id.startswith("brs_9") for one in await ledger.browser_logins("t1")) == 1
    for login_id, now_ms in (("0code", 19), ("nothing", 19), ("brs_2", 30)):
        with pytest.raises(Spent):
            await put(ledger, Redeem(BROWSER_LOGINS, "t1", login_id, now_ms))
    await put(ledger, Expire(BROWSER_LOGINS, 29))
    assert [await ledger.browser_login(one) for one in ("brs_1", "brs_2", "brs_3")] == [
        None, browser_login("brs_2", 30), None]


def pairing(code: str = "c1", expires_ms: int = 20, tenant_id: str = "t1") -> PairingRecord:
    return PairingRecord(code_sha256=code, tenant_id=tenant_id, by={"id": "u", "role": "owner"}, created_ms=10,
                         expires_ms=expires_ms, device_name="desk")


@pytest.mark.req("L-3")
async def test_a_code_is_spent_once_and_with_its_whole_batch(ledger: Ledger) -> None:
    await put(ledger, Put(pairing()), Put(pairing("c2", 30)), Put(pairing("c3", tenant_id="t2")))
    with pytest.raises(NameTaken):
        await put(ledger, Put(pairing()))
    assert await ledger.pairing("c1") == pairing()
    assert (await ledger.pairings("t1", 10), await ledger.pairings("t1", 20)) == (2, 1)
    with pytest.raises(NameTaken):
        await put(ledger, Redeem(PAIRINGS, "t1", "c1", 19), Put(runner("r1", "h")), Put(runner("r2", "h")))
    assert await ledger.pairing("c1") == pairing()
    outcomes = await asyncio.gather(*(put(ledger, Redeem(PAIRINGS, "t1", "c1", 19), Put(runner(f"r{i}", f"h{i}")))
                                      for i in range(5)), return_exceptions=True)
    assert sorted(type(one).__name__ for one in outcomes if isinstance(one, Exception)) == ["Spent"] * 4
    assert len(await ledger.runners("t1")) == 1
    for code, now_ms in (("c1", 19), ("nothing", 19), ("c2", 30)):
        with pytest.raises(Spent):
            await put(ledger, Redeem(PAIRINGS, "t1", code, now_ms))
    await put(ledger, Expire(PAIRINGS, 29))
    assert [await ledger.pairing(code) for code in ("c1", "c2", "c3")] == [None, pairing("c2", 30), None]


@pytest.mark.req("K-1")
async def test_keys_are_found_by_their_hash(ledger: Ledger) -> None:
    await put(ledger, Put(key()))
    await put(ledger, Put(key(revoked=True)))
    assert await ledger.key("h1") == key(revoked=True)
    assert await ledger.key("h2") is None
    with pytest.raises(NameTaken):
        await put(ledger, Put(key("k2")))


@pytest.mark.req("K-1")
async def test_keys_are_listed_by_tenant_and_their_use_is_written_alone(ledger: Ledger) -> None:
    await put(ledger, Put(key("k2", "h2")), Put(key("k1", "h1", label="laptop", expires_ms=9, origin="made")),
              Put(key("k3", "h3", tenant_id="t2")))
    await put(ledger, Note(KEYS, "t1", "k1", 77), Note(KEYS, "t1", "nothing", 78))
    assert [(one.key_id, one.last_used_ms) for one in await ledger.keys("t1")] == [("k1", 77), ("k2", None)]
    assert await ledger.key_by_id("k1", "t1") == key("k1", "h1", label="laptop", expires_ms=9, origin="made",
                                                     last_used_ms=77)
    assert await ledger.key_by_id("k3") is not None
    assert await ledger.key_by_id("k3", "t1") is None


@pytest.mark.req("K-1")
async def test_a_row_never_replaces_another_tenants_row(ledger: Ledger) -> None:
    await put(ledger, Put(runner("r1", "h1")), Put(key()))
    for record in (runner("r1", "h9", tenant_id="t2"), key("k1", "h9", tenant_id="t2")):
        with pytest.raises(NameTaken, match=r"Another tenant has a row of this name\."):
            await put(ledger, Put(record))
    assert await ledger.runner("r1", "t1") == runner("r1", "h1")
    assert await ledger.key("h1") == key()


@pytest.mark.req("K-1")
async def test_no_write_of_one_tenant_changes_a_credential_of_another(ledger: Ledger) -> None:
    await put(ledger, Put(key()), Put(runner("r1", "h1")), Put(pairing()),
              Put(browser_login()))
    await put(ledger, *(Note(entity, "t2", one, 77) for entity, one in ((KEYS, "k1"), (RUNNERS, "r1"),
                                                                       (BROWSER_LOGINS, "brs_1"))))
    for write in (Redeem(PAIRINGS, "t2", "c1", 19), Redeem(BROWSER_LOGINS, "t2", "brs_1", 19),
                  Change(browser_login(tenant_id="t2"))):
        with pytest.raises(Spent):
            await put(ledger, write)
    assert await ledger.key("h1") == key()
    assert await ledger.runner("r1", "t1") == runner("r1", "h1")
    assert await ledger.pairing("c1") == pairing()
    assert await ledger.browser_login("brs_1") == browser_login()


@pytest.mark.req("K-1")
async def test_tenants_are_stored(ledger: Ledger) -> None:
    acme = TenantRecord(tenant_id="acme", name="Acme", created_ms=5)
    await put(ledger, Put(TenantRecord(tenant_id="b", name="", created_ms=4)), Put(acme))
    await put(ledger, Put(msgspec.structs.replace(acme, suspended=True)))
    assert await ledger.tenant("acme") == msgspec.structs.replace(acme, suspended=True)
    assert await ledger.tenant("other") is None
    assert [one.tenant_id for one in await ledger.tenants()] == ["acme", "b"]


@pytest.mark.req("K-1")
async def test_a_row_of_another_tenant_is_not_found(ledger: Ledger) -> None:
    await put(ledger, PutSession(session("S1")), Put(runner()))
    assert await ledger.session("S1", "t1") is not None
    assert await ledger.session("S1", "t2") is None
    assert await ledger.runner("r1", "t1") is not None
    assert await ledger.runner("r1", "t2") is None
    for find in (ledger.command, ledger.approval):
        assert await find("nothing", "t1") is None


@pytest.mark.req("X-3")
async def test_transcript_lines_wait_in_the_order_they_were_written(ledger: Ledger) -> None:
    def line(entry_id: str, session_id: str = "S1") -> TranscriptLine:
        return TranscriptLine(tenant_id="t1", session_id=session_id, entry_id=entry_id,
                              line=b"\xff" + entry_id.encode())

    await put(ledger, PutSession(session()), PutSession(session("S2")))
    await put(ledger, PutTranscript(line("z")), PutTranscript(line("a", "S2")), PutTranscript(line("m")))
    await put(ledger, PutTranscript(line("b")))
    await put(ledger, PutTranscript(line("z")))
    assert await ledger.transcript_pending() == [line("z"), line("a", "S2"), line("m"), line("b")]
    assert await ledger.transcript_pending(limit=2) == [line("z"), line("a", "S2")]
    assert await ledger.transcript_pending(("S1", "t1")) == [line("z"), line("m"), line("b")]
    assert await ledger.transcript_pending(("S1", "t1"), limit=2) == [line("z"), line("m")]
    assert await ledger.transcript_pending(("S3", "t1")) == []
    await put(ledger, DropTranscript("t1", "S1", ("m", "z", "not there")), DropTranscript("t1", "S2", ("b",)))
    assert await ledger.transcript_pending() == [line("a", "S2"), line("b")]


@pytest.mark.req("U-1", "U-2")
async def test_each_tenant_has_a_chain_of_its_own(ledger: Ledger) -> None:
    receipt = await ledger.commit(WriteBatch([AuditAppend(draft()), AuditAppend(draft(tenant_id="t2")), append(),
                                              AuditAppend(draft("start", command_id="c1", meta={"n": 1}))]))
    assert receipt.audit_seqs == [1, 1, 2]
    await asyncio.gather(*(put(ledger, AuditAppend(draft("complete"))) for _ in range(20)))
    log = await ledger.audit("t1", 0, 100)
    assert [record.seq for record in log] == list(range(1, 23))
    prev = FIRST_PREV
    for record in log:
        body = msgspec.json.decode(record.body)
        assert (body["seq"], body["prev"], body["tenant_id"]) == (record.seq, prev, "t1")
        prev = record.hash
        assert prev == leaf_hash(record.body)
    assert await ledger.audit_head("t1") == (22, prev)
    assert await ledger.audit("t1", 20, 1) == log[20:21]
    assert await ledger.audit("t3", 0, 10) == []
    assert await ledger.audit_tenants() == ["t1", "t2"]


@pytest.mark.req("U-1")
@pytest.mark.parametrize("bad", [draft("invented"), draft(meta={"x": 0.5}), draft(meta={"x": object()})])
async def test_a_batch_that_cannot_be_audited_is_not_committed(ledger: Ledger, bad: AuditDraft) -> None:
    with pytest.raises(LedgerError, match="audit"):
        await put(ledger, append(), AuditAppend(draft()), AuditAppend(bad))
    assert await ledger.head("t1", "s/1") == 0
    assert await ledger.audit_tenants() == []


@pytest.mark.req("P-2", "U-2")
async def test_audit_records_are_found_by_their_subject(ledger: Ledger) -> None:
    one, two = f"cmd_{'1' * 26}", f"cmd_{'2' * 26}"
    held, verb = f"apr_{'3' * 26}", f"apr_{'4' * 26}"
    await put(
        ledger, AuditAppend(draft(command_id=one)), AuditAppend(draft(command_id=two)),
        AuditAppend(draft("vote", command_id=one, approval_id=held, meta={"command_id": two, "text": "\x00\\ \u00fc"})),
        AuditAppend(draft("vote", approval_id=verb)), AuditAppend(draft("pair")),
        AuditAppend(draft(tenant_id="t2", command_id=one)),
    )
    log = await ledger.audit("t1", 0, 100)
    assert [one.seq for one in await ledger.audit_about("t1", one)] == [1, 3]
    assert await ledger.audit_about("t1", verb) == [log[3]]
    assert [one.hash for one in await ledger.audit_about("t1", two)] == [log[1].hash]
    assert await ledger.audit_about("t1", f"cmd_{'9' * 26}") == []


@pytest.mark.req("H-5")
async def test_audit_records_that_seal_rows_are_found_by_tenant_and_number(ledger: Ledger) -> None:
    binding = {"row": "key/k1", "row_sha256": "0" * 64}
    await put(ledger, AuditAppend(draft(meta=binding)), AuditAppend(draft(meta={"text": '"row_sha256":"'})),
              AuditAppend(draft(meta={"n": 1})), AuditAppend(draft(tenant_id="t2", meta=binding)),
              AuditAppend(draft(meta=binding)))
    assert [one.seq for one in await ledger.audit_rows("t1", 0)] == [1, 4]
    assert [one.seq for one in await ledger.audit_rows("t1", 1)] == [4]
    assert await ledger.audit_rows("t3", 0) == []


@pytest.mark.req("H-5", "D-7")
async def test_audit_records_that_seal_a_session_are_found_by_its_name(ledger: Ledger) -> None:
    one, two = {"frames_of": "1" * 32, "frames": {"1": "0" * 64}}, {"frames_of": "2" * 32}
    await put(ledger, AuditAppend(draft(meta=one)), AuditAppend(draft(meta=two)),
              AuditAppend(draft(meta={"text": "1" * 32})),
              AuditAppend(draft(tenant_id="t2", meta=one)), AuditAppend(draft(meta=one)), AuditAppend(draft(meta=one)))
    assert [found.seq for found in await ledger.audit_seals("t1", "1" * 32, 9)] == [1, 4, 5]
    assert [found.seq for found in await ledger.audit_seals("t1", "1" * 32, 2)] == [4, 5]
    assert await ledger.audit_seals("t1", "3" * 32, 9) == []


@pytest.mark.req("S-1", "C-4")
async def test_a_read_sees_every_batch_whose_commit_returned(ledger: Ledger) -> None:
    dice = random.Random(7)

    async def work(name: str) -> None:
        for n in range(1, 30):
            await ledger.commit(WriteBatch([append(name), PutSession(session(name, updated_ms=n))]))
            if dice.random() < 0.5:
                assert await ledger.head("t1", name) == n
                assert len(await ledger.events("t1", name, 0, 100)) == n
                assert (await ledger.session(name)) == session(name, updated_ms=n)

    await asyncio.gather(*(work(f"w{i}") for i in range(10)))


@pytest.mark.req("A-9", "P-4")
async def test_remembered_rules_and_signing_keys_are_found_by_id_and_tenant(ledger: Ledger) -> None:
    rules = [RememberedRule(id=f"rul_{i}", tenant_id=tenant, created_at="", created_by="user:kim", approval_id="a",
                            rule={"name": "n", "effect": "allow"}) for i, tenant in enumerate(("t1", "t2", "t1"))]
    key = SigningKey(key_id="sgk_1", tenant_id="t1", owner=Actor(type="user", id="kim"), public_key="", created_at="")
    await put(ledger, *(Put(RuleRecord(rule=rule)) for rule in rules), Put(SigningKeyRecord(key=key)))
    revoked = msgspec.structs.replace(rules[0], revoked_at="now")
    await put(ledger, Put(RuleRecord(rule=revoked)))
    assert [one.rule.id for one in await ledger.rules()] == ["rul_1", "rul_2"]
    assert [one.rule.id for one in await ledger.rules("t1")] == ["rul_2"]
    assert [one.rule for one in await ledger.rules("t1", revoked=True)] == [revoked, rules[2]]
    assert (await ledger.rule("rul_0", "t1")) == RuleRecord(rule=revoked)
    assert await ledger.rule("rul_9", "t1") is None
    assert [one.key for one in await ledger.signing_keys("t1")] == [key]
    assert await ledger.signing_keys("t2") == []
    assert await ledger.signing_key("sgk_1") == SigningKeyRecord(key=key)
    assert await ledger.signing_key("sgk_2") is None


@pytest.mark.req("P-7")
async def test_the_spending_of_a_day_adds_up_by_pot_or_not_at_all(ledger: Ledger) -> None:
    def spent(day: int, scope: str, micros: int, raised: int = 0) -> Add:
        return Add(SpendingRecord(tenant_id="t1", budget="b", scope=scope, day=day, spent_micros=micros,
                                  raised_micros=raised))

    await put(ledger, spent(7, "", 5), spent(7, "claude", 2**50))
    await put(ledger, spent(7, "", 6, 40), spent(8, "", 1))
    with pytest.raises(Fenced):
        await ledger.commit(WriteBatch([spent(7, "", 100)], [(LaneName("t1", "taken by none"), 1)]))
    assert [(one.scope, one.spent_micros, one.raised_micros) for one in await ledger.spending(7)] == [
        ("", 11, 40), ("claude", 2**50, 0)]
    await put(ledger, Expire(SPENDING, 7))
    assert await ledger.spending(7) == []
    assert [one.spent_micros for one in await ledger.spending(8)] == [1]


@pytest.mark.req("J-13")
async def test_usage_adds_up_by_its_key_and_is_summed_by_the_query(ledger: Ledger) -> None:
    def used(day: int, tokens: int, **more: Any) -> Add:
        return Add(UsageRecord(**{"tenant_id": "t1", "day": day, "agent_id": "claude", "session_id": "s1",
                                  "person": "user:ann\0", "turns": 1, "input_tokens": tokens, **more}))

    await put(ledger, used(7, 5), used(7, 2**40, model="opus"), used(7, 6, cost_micros=3), used(9, 1))
    await put(ledger, used(7, 2, session_id="s2", output_tokens=1), used(8, 99, tenant_id="t2"))
    with pytest.raises(Fenced):
        await ledger.commit(WriteBatch([used(7, 1_000)], [(LaneName("t1", "taken by none"), 1)]))
    whole = await ledger.usage(UsageQuery("t1", 7, 8))
    assert (whole.places, whole.records) == (1, [whole.total])
    assert whole.total == UsageRecord(tenant_id="t1", turns=4, input_tokens=2**40 + 13, output_tokens=1, cost_micros=3)
    days = await ledger.usage(UsageQuery("t1", 0, 99, frozenset({"day", "model", "session"})))
    assert [(one.day, one.model, one.session_id, one.input_tokens) for one in days.records] == [
        (9, "", "s1", 1), (7, "opus", "s1", 2**40), (7, "", "s1", 11), (7, "", "s2", 2)]
    assert {one.agent_id for one in days.records} == {""}
    first = await ledger.usage(UsageQuery("t1", 0, 99, frozenset({"session", "person"}), model="", limit=1))
    assert [(one.session_id, one.person, one.turns) for one in first.records] == [("s1", "user:ann\0", 3)]
    assert (first.places, first.total.turns) == (2, 4)
    found = await ledger.usage(UsageQuery("t1", 0, 99, frozenset({"agent"}), "claude", None, "s2", "user:ann\0"))
    assert [one.input_tokens for one in found.records] == [2]
    await put(ledger, Expire(USAGE, 8))
    assert (await ledger.usage(UsageQuery("t1", 0, 99))).total.turns == 1
    nothing = await ledger.usage(UsageQuery("t9", 0, 99, frozenset({"day"})))
    assert nothing == ([], 0, UsageRecord(tenant_id="t9"))


@pytest.mark.req("P-8")
async def test_notifications_to_approvers_are_found_when_due(ledger: Ledger) -> None:
    def question(name: str, due_ms: int | None, state: Any = "pending", tenant: str = "t1") -> DeliveryRecord:
        delivery = Delivery(id=name, tenant_id=tenant, channel="c", approval_id="a", state=state, created_at="")
        return DeliveryRecord(delivery=delivery, due_ms=due_ms)

    assert await ledger.next_delivery_ms() is None
    rows = [question("d1", 20), question("d2", 10), question("d3", None, "dead"), question("d4", 15, tenant="t2")]
    await put(ledger, *map(Put, rows))
    assert await ledger.next_delivery_ms() == 10
    assert [one.delivery.id for one in await ledger.deliveries_due(19, 10)] == ["d2", "d4"]
    assert [one.delivery.id for one in await ledger.deliveries_due(99, 1)] == ["d2"]
    assert [one.delivery.id for one in await ledger.deliveries("t1", None, 10)] == ["d3", "d2", "d1"]
    assert [one.delivery.id for one in await ledger.deliveries("t1", "pending", 1)] == ["d2"]
    await put(ledger, Put(question("d2", None, "delivered")))
    assert await ledger.next_delivery_ms() == 15
    assert await ledger.delivery("d2", "t1") == question("d2", None, "delivered")
    assert await ledger.delivery("d2", "t2") is None
    assert await ledger.delivery("d9", "t1") is None


# --- the bound on unsigned audit records ---


def noted(size: int) -> PutFact:
    return PutFact(CHECKPOINT_FACT + "t1", write_noted(size, b"{}\n"))


@pytest.mark.req("U-3")
async def test_unsigned_audit_records_stay_within_their_bound_in_every_transaction(ledger: Ledger) -> None:
    signed: list[int] = []

    async def sign(tenant_id: str) -> None:
        count, _ = await ledger.audit_head(tenant_id)
        signed.append(count)
        await ledger.commit(WriteBatch([noted(count)]))

    ledger.bound_audit(sign)
    assert not ledger.began_audit("t1")
    await ledger.commit(WriteBatch([AuditAppend(draft())]))
    assert signed == [0], "no log begins without a checkpoint before it"
    assert ledger.began_audit("t1")
    await ledger.commit(WriteBatch([AuditAppend(draft())] * (UNSIGNED_RECORDS_MAX - 1)))
    assert signed == [0]
    await ledger.commit(WriteBatch([AuditAppend(draft())]))
    assert signed == [0, UNSIGNED_RECORDS_MAX]
    await asyncio.gather(*(ledger.commit(WriteBatch([AuditAppend(draft())] * 100)) for _ in range(30)))
    assert (await ledger.audit_head("t1"))[0] == UNSIGNED_RECORDS_MAX + 3_001
    assert max(after - before for before, after in pairwise([*signed, UNSIGNED_RECORDS_MAX + 3_001])
               ) <= UNSIGNED_RECORDS_MAX


@pytest.mark.req("U-3", "U-1")
async def test_a_batch_without_room_or_signature_is_not_committed(ledger: Ledger) -> None:
    async def cannot(tenant_id: str) -> None:
        raise LedgerError(f"{tenant_id} cannot be signed.")

    await ledger.commit(WriteBatch([noted(0)]))
    ledger.bound_audit(cannot)
    await ledger.commit(WriteBatch([AuditAppend(draft())] * UNSIGNED_RECORDS_MAX))
    with pytest.raises(LedgerError, match="t1 cannot be signed"):
        await ledger.commit(WriteBatch([PutFact("x", "1"), AuditAppend(draft())]))
    assert await ledger.fact("x") is None
    await ledger.commit(WriteBatch([PutFact("x", "2")]))
    assert await ledger.fact("x") == "2", "what leaves no record needs no room"


@pytest.mark.req("U-3", "C-4")
async def test_of_two_checkpoints_the_larger_one_stays_noted_in_any_order(ledger: Ledger) -> None:
    """Of two gateways that sign at the same time, the one that read the log first may commit last."""
    fact = CHECKPOINT_FACT + "t1"
    for size, kept in ((9, 9), (100, 100), (20, 100), (100, 100), (101, 101)):
        await ledger.commit(WriteBatch([AdvanceFact(fact, write_noted(size, b"{}\n"))]))
        assert noted_size(await ledger.fact(fact)) == kept
    await ledger.commit(WriteBatch([noted(3)]))
    assert noted_size(await ledger.fact(fact)) == 3, "a person who accepts a shorter log may put it back"


@pytest.mark.req("U-3")
async def test_a_log_over_the_bound_may_grow_by_it_once_more(ledger: Ledger) -> None:
    async def cannot(tenant_id: str) -> None:
        raise LedgerError(f"{tenant_id} cannot be signed.")

    await ledger.commit(WriteBatch([AuditAppend(draft())] * 2_000))
    ledger.bound_audit(cannot)
    await ledger.commit(WriteBatch([AuditAppend(draft())] * UNSIGNED_RECORDS_MAX))
    with pytest.raises(LedgerError, match="t1 cannot be signed"):
        await ledger.commit(WriteBatch([AuditAppend(draft())]))
