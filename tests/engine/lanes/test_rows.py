"""Keys, rules and the like are used only if they match the audit log (H-5)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.backends.sqlite.audit_rows import audit_rows
from interlock.backends.sqlite.ledger import LEDGER_NAME, open_ledger
from interlock.command.audit.register import bound
from interlock.command.policy.policy import PolicySubject, RuleSet
from interlock.engine.bridge.lane_state import Limits
from interlock.engine.engine import Engine
from interlock.engine.lanes.rows import RowAudit
from interlock.engine.viewers.viewers import Viewers
from interlock.gateway.access.credentials import CACHE_MS, Credentials, digest, ensure_owner_key
from interlock.gateway.access.keys import KeyStore
from interlock.gateway.access.tenants import TenantStore
from interlock.gateway.audit.row_state import compare_rows
from interlock.ports.ledger import AuditAppend, Ledger, Put, WriteBatch
from interlock.protocol.access import KeyBody, TenantBody
from interlock.protocol.problems import Problem
from interlock.protocol.records import (
    AuditDraft,
    IdempotencyRecord,
    KeyRecord,
    Principal,
    RuleRecord,
    TenantRecord,
)
from interlock.protocol.resources import Actor, RememberedRule

pytestmark = pytest.mark.anyio
OWNER = Principal(tenant_id="default", actor=Actor(type="user", id="owner"), role="owner", key_id="key_0")


class Bytes:
    """Other bytes at each call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, count: int) -> bytes:
        self.calls += 1
        return self.calls.to_bytes(count, "big")


class Place:
    """A gateway's keys in a real file, and an intruder with SQL access."""

    def __init__(self, ledger: Ledger, file: Path) -> None:
        self.ledger, self.file, self.clock, self.entropy = ledger, file, ManualClock(1000), Bytes()
        self.answers = 0
        self.begin()

    def begin(self) -> None:
        """Start a gateway, with nothing in memory."""
        self.rows = RowAudit(self.ledger, self.clock)
        self.credentials = Credentials(self.ledger, self.clock, None, self.rows)
        self.keys = KeyStore(self.ledger, self.clock, self.entropy, self.credentials)
        self.tenants = TenantStore(self.ledger, self.clock, self.credentials)

    def connected(self) -> apsw.Connection:
        """Connect as an outsider that waits while a gateway writes."""
        connection = apsw.Connection(str(self.file))
        connection.set_busy_timeout(20_000)
        return connection

    def sql(self, statement: str, *values: Any) -> None:
        connection = self.connected()
        connection.execute(statement, values)
        assert connection.changes() == 1
        connection.close()

    def edit(self, table: str, where: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the body of a row."""
        connection = self.connected()
        (body,) = connection.execute(f"SELECT body FROM {table} WHERE {where}").fetchone()
        connection.close()
        found = msgspec.json.decode(body)
        change(found)
        self.sql(f"UPDATE {table} SET body = ? WHERE {where}", msgspec.json.encode(found))

    def remember(self, _shown: Any) -> IdempotencyRecord:
        self.answers += 1
        return IdempotencyRecord(tenant_id="default", scope=str(self.answers), fingerprint="", status=200, headers={},
                                 body=b"", created_ms=0)

    async def key(self, person: str = "ann", role: str = "viewer") -> tuple[str, str]:
        made = await self.keys.make(OWNER, KeyBody(principal=Actor(type="user", id=person), roles=[role]),
                                    self.remember)
        return made.key, made.key_id

    async def role(self, secret: str) -> str | None:
        """The role that a key has from now on, None if it is refused."""
        self.clock.advance(CACHE_MS)
        try:
            return (await self.credentials.principal(secret)).role
        except Problem:
            return None

    async def tampered(self) -> list[str]:
        records = [msgspec.json.decode(one.body) for one in await self.ledger.audit("default", 0, 1_000)]
        return [one["meta"]["about"] for one in records if one["action"] == "tampered"]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    ledger = await open_ledger(tmp_path / LEDGER_NAME, ManualClock(1000))
    try:
        there = Place(ledger, tmp_path / LEDGER_NAME)
        await there.rows.adopt()
        await ensure_owner_key(tmp_path, ledger, there.clock, there.entropy)
        yield there
    finally:
        await ledger.close()


@pytest.mark.req("H-5")
async def test_a_key_whose_role_was_changed_by_sql_is_refused_and_reported_once(place: Place) -> None:
    secret, key_id = await place.key()
    assert await place.role(secret) == "viewer"
    place.edit("api_key", f"key_id = '{key_id}'", lambda body: body.update(role="owner"))
    assert await place.role(secret) is None
    assert await place.role(secret) is None
    assert await place.tampered() == [f"key/{key_id}"]
    assert await place.rows.check() == [
        f"the stored row of the API key {key_id} is not the one in the audit record of its last change"]


@pytest.mark.req("H-5", "O-9")
async def test_work_that_a_revoked_key_began_cannot_be_continued_by_sql(place: Place) -> None:
    _, key_id = await place.key()
    assert await place.credentials.state_of("default", key_id) == "valid"
    await place.keys.revoke(OWNER, key_id, place.remember)
    place.edit("api_key", f"key_id = '{key_id}'", lambda body: body.update(revoked=False))
    assert await place.credentials.state_of("default", key_id) == "ended"
    assert await place.tampered() == [f"key/{key_id}"]


@pytest.mark.req("H-5")
@pytest.mark.parametrize("change", [
    {"revoked": False}, {"expires_ms": 10**15}, {"principal": {"type": "user", "id": "owner"}}, {"tenant_id": "t2"},
])
async def test_a_revoked_key_cannot_be_restored_by_sql(place: Place, change: dict[str, Any]) -> None:
    secret, key_id = await place.key()
    await place.keys.revoke(OWNER, key_id, place.remember)
    place.edit("api_key", f"key_id = '{key_id}'", lambda body: body.update({"revoked": False, **change}))
    assert await place.role(secret) is None
    assert len(await place.tampered()) == 1


@pytest.mark.req("H-5")
async def test_a_row_older_than_its_last_change_does_not_match_its_record(place: Place) -> None:
    secret, key_id = await place.key()
    before = next(one for one in await place.ledger.keys("default") if one.key_id == key_id)
    await place.keys.revoke(OWNER, key_id, place.remember)
    await place.ledger.commit(WriteBatch([Put(before)]))
    assert await place.role(secret) is None


@pytest.mark.req("H-5")
async def test_an_inserted_key_and_a_secret_added_to_a_valid_row_are_refused(place: Place) -> None:
    forged = KeyRecord(key_sha256=digest("ilk_forged"), key_id="key_forged", tenant_id="default", role="owner",
                       created_ms=1, principal=Actor(type="user", id="owner"))
    await place.ledger.commit(WriteBatch([Put(forged)]))
    assert await place.role("ilk_forged") is None
    _, key_id = await place.key("bob", "admin")
    place.sql("UPDATE api_key SET key_sha256 = ? WHERE key_id = ?", digest("ilk_other"), key_id)
    assert await place.role("ilk_other") is None
    assert await place.rows.check() == [
        "the stored row of the API key key_forged has no audit record: it was not written by a gateway"]


@pytest.mark.req("H-5")
async def test_a_changed_key_cannot_be_rotated_into_a_valid_one(place: Place) -> None:
    _, key_id = await place.key()
    place.edit("api_key", f"key_id = '{key_id}'", lambda body: body.update(role="admin"))
    with pytest.raises(Problem, match="not the one in the audit record"):
        await place.keys.rotate(OWNER, key_id, place.remember)
    assert (await place.keys.revoke(OWNER, key_id, place.remember)).revoked


@pytest.mark.req("H-5")
async def test_a_suspended_tenant_stays_suspended_whatever_its_row_contains(place: Place) -> None:
    await place.tenants.make(OWNER, TenantBody(tenant_id="t2"), place.remember)
    made = await place.keys.make(OWNER, KeyBody(principal=Actor(type="user", id="eve"), roles=["admin"],
                                                tenant_id="t2"), place.remember)
    assert await place.role(made.key) == "admin"
    await place.tenants.suspend(OWNER, "t2", place.remember, suspended=True)
    place.edit("tenant", "tenant_id = 't2'", lambda body: body.update(suspended=False))
    assert await place.role(made.key) is None
    assert await place.tampered() == ["tenant/t2"]


@pytest.mark.req("H-5")
async def test_existing_rows_are_adopted_once_and_sealed_from_then_on(tmp_path: Path) -> None:
    ledger = await open_ledger(tmp_path / LEDGER_NAME, ManualClock(1000))
    old = [KeyRecord(key_sha256=digest(f"ilk_{n}"), key_id=f"key_{n}", tenant_id="default", role="viewer",
                     created_ms=n, principal=Actor(type="user", id="ann")) for n in range(600)]
    await ledger.commit(WriteBatch([Put(TenantRecord(tenant_id="default", name="", created_ms=0)),
                                    *map(Put, old)]))
    place = Place(ledger, tmp_path / LEDGER_NAME)
    assert await place.role("ilk_1") == "viewer"  # No gateway that binds rows has started yet.
    assert await place.rows.adopt()
    assert not await place.rows.adopt()
    records = [msgspec.json.decode(one.body) for one in await ledger.audit("default", 0, 10)]
    assert [(one["action"], len(one["meta"]["rows"])) for one in records] == [("adopted", 500), ("adopted", 101)]
    assert await place.role("ilk_599") == "viewer"
    place.edit("api_key", "key_id = 'key_599'", lambda body: body.update(role="owner"))
    place.begin()
    assert not await place.rows.adopt()
    assert await place.role("ilk_599") is None
    assert await place.role("ilk_1") == "viewer"
    await place.keys.revoke(OWNER, "key_1", place.remember)
    place.edit("api_key", "key_id = 'key_1'", lambda body: body.update(revoked=False))
    assert await place.role("ilk_1") is None
    place.sql("DELETE FROM api_key WHERE key_id = 'key_2'")
    assert "the stored row of the API key key_2 was removed" in await place.rows.check()
    await ledger.close()


def rule(effect: str, **fields: Any) -> RuleRecord:
    return RuleRecord(rule=RememberedRule(
        id="rul_1", tenant_id="default", created_at="2026-01-01T00:00:00Z", created_by="user:ann", approval_id="apr_1",
        rule={"name": "n", "effect": effect, "tool": "Bash", "until": "2099-01-01T00:00:00Z", **fields}))


async def decided(place: Place) -> str:
    """The decision of a newly started gateway on a call of the tool."""
    engine = Engine(place.ledger, Viewers(place.ledger), place.clock, place.entropy, RuleSet(), Limits())
    await engine.read_rules()
    return engine.policy.decide(PolicySubject(door="tool", tenant_id="default", agent_id="a", origin="user",
                                              permission="asks", at_ms=0, tool_name="Bash")).effect


async def put_rule(place: Place, record: RuleRecord) -> None:
    meta = {"change": "remembered", "effect": record.rule.rule["effect"], **bound(record)}
    await place.ledger.commit(WriteBatch([Put(record), AuditAppend(AuditDraft(
        tenant_id="default", at="", who={"id": "user:ann", "role": "admin"}, action="policy_change", meta=meta))]))


@pytest.mark.req("H-5", "A-9")
async def test_a_remembered_rule_that_was_inserted_or_changed_by_sql_allows_nothing(place: Place) -> None:
    await place.ledger.commit(WriteBatch([Put(rule("allow"))]))
    assert await decided(place) == "ask"
    await put_rule(place, rule("allow"))
    assert await decided(place) == "allow"
    place.edit("remembered_rule", "id = 'rul_1'", lambda body: body["rule"]["rule"].update(tool="*"))
    assert await decided(place) == "ask"
    assert set(await place.tampered()) == {"rule/rul_1"}


@pytest.mark.req("H-5", "A-9")
@pytest.mark.parametrize("statement", [
    "DELETE FROM remembered_rule WHERE id = ?", "UPDATE remembered_rule SET revoked = 1 WHERE id = ?",
    "UPDATE remembered_rule SET body = replace(CAST(body AS TEXT), 'deny', 'allow') WHERE id = ?",
])
async def test_a_deny_rule_removed_by_sql_leaves_nothing_allowed(place: Place, statement: str) -> None:
    await put_rule(place, rule("deny"))
    assert await decided(place) == "deny"
    place.sql(statement, "rul_1")
    assert await decided(place) == "ask"
    assert set(await place.tampered()) == {"rule/rul_1"}


@pytest.mark.req("H-5", "U-5")
async def test_verifying_the_database_names_each_row_that_differs(place: Place) -> None:
    _, changed = await place.key()
    _, gone = await place.key("bob")
    with audit_rows(place.file) as stored:
        assert compare_rows(stored) == []
    place.edit("api_key", f"key_id = '{changed}'", lambda body: body.update(role="owner"))
    place.sql("DELETE FROM api_key WHERE key_id = ?", gone)
    place.sql("INSERT INTO tenant VALUES ('t9', ?)", b'{"tenant_id":"t9","name":"","created_ms":0}')
    with audit_rows(place.file) as stored:
        assert compare_rows(stored) == [
            f"the stored row of the API key {changed} is not the one in the audit record of its last change",
            "the stored row of the tenant t9 has no audit record: it was not written by a gateway",
            f"the stored row of the API key {gone} was removed, or cannot be read",
        ]
