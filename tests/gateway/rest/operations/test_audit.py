"""The audit log over REST: pages, export, checkpoint, proofs, and what may be erased (U-1, U-3, U-4, U-5)."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from tests.small_gateway.desk import SmallDesk
from tests.small_gateway.running import Gateway, running

from interlock.backends.checkpoints.files import CheckpointFiles
from interlock.command.audit.audit_check import verify
from interlock.command.audit.note import is_genuine, parse_checkpoint
from interlock.gateway.audit.checkpoints import CheckpointSigner
from interlock.gateway.rest.cursors import stream_cursor
from interlock.ports.ledger import AuditAppend, WriteBatch
from interlock.protocol.records import AuditDraft

pytestmark = pytest.mark.anyio
PUBLIC = Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key()


async def add_comment(gateway: Gateway, who: str, comment: str) -> None:
    draft = AuditDraft(tenant_id="default", at="2026-11-21T10:00:00.000Z", who={"id": who, "role": "approver"},
                       action="vote", personal={"comment": comment})
    await gateway.desk.ledger.commit(WriteBatch([AuditAppend(draft)]))


async def got(gateway: Gateway, path: str, **query: Any) -> Any:
    answer = await gateway.http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.req("U-1", "U-5")
async def test_audit_is_read_in_pages_and_exported_with_its_checkpoint(gateway: Gateway) -> None:
    await gateway.desk.audit(3)
    page = (await gateway.http.get("/v1/audit?limit=3")).json()
    assert [item["seq"] for item in page["items"]] == [1, 2, 3]
    rest = (await gateway.http.get("/v1/audit", params={"since": page["next_cursor"]})).json()
    assert [item["record"]["action"] for item in rest["items"]] == ["audit_read"]
    begun = await got(gateway, "/v1/audit", since=stream_cursor("a/default", 0))
    assert [item["record"]["action"] for item in begun["items"]][3:] == ["audit_read"] * 2, "it is recorded, too"
    export = await gateway.http.get("/v1/audit/export")
    lines = export.text.splitlines()
    assert export.headers["Content-Type"] == "application/x-ndjson"
    assert [json.loads(line)["seq"] for line in lines[:-1]] == [1, 2, 3, 4, 5, 6]
    assert json.loads(lines[-2])["record"]["action"] == "audit_export"
    assert parse_checkpoint(json.loads(lines[-1])["checkpoint"]).size == 6
    report = verify(export.content.splitlines(keepends=True), PUBLIC)
    assert (report.ok, report.records, report.not_yet_signed) == (True, 6, 0)
    assert (await gateway.http.head("/v1/audit/export")).content == b""
    async with gateway.as_role("owner", "other") as other:
        for path in ("export", "checkpoint", "proof/inclusion?seq=1"):
            assert (await other.get("/v1/audit/" + path)).status_code == 503


@pytest.mark.req("U-4")
async def test_a_persons_texts_are_erased_and_the_log_still_verifies(gateway: Gateway) -> None:
    for number in range(3):
        await add_comment(gateway, "user:ann", f"ann {number}")
    await add_comment(gateway, "user:bob", "bob")
    erasure = await gateway.post("/v1/audit/erasures", {"who": "user:ann"}, "erase-ann-for-good")
    assert erasure.json() == {"erased": [1, 2, 3], "has_more": False}
    again = await gateway.post("/v1/audit/erasures", {"records": [4, 4, 99, 1, 0]})
    assert again.json()["erased"] == [4]
    replayed = await gateway.post("/v1/audit/erasures", {"who": "user:ann"}, "erase-ann-for-good")
    assert replayed.json() == erasure.json()
    export = await gateway.http.get("/v1/audit/export")
    assert "ann 1" not in export.text
    assert '"bob"' not in export.text
    report = verify(export.content.splitlines(keepends=True), PUBLIC)
    assert (report.ok, report.erased) == (True, 4)
    redacted = [json.loads(line)["record"] for line in export.text.splitlines() if '"redact"' in line]
    assert [record["meta"] for record in redacted] == [{"of": "user:ann", "records": [1, 2, 3]}, {"records": [4]}]


@pytest.mark.req("U-4")
async def test_only_admins_erase_and_with_only_one_selector(gateway: Gateway) -> None:
    await add_comment(gateway, "user:ann", "hello")
    for body in ({}, {"who": "user:ann", "records": [1]}, {"records": ["1"]}, {"whom": "x"}):
        assert (await gateway.post("/v1/audit/erasures", body)).status_code == 400
    async with gateway.as_role("auditor") as auditor:
        headers = {"Idempotency-Key": "auditors-do-not-erase"}
        refused = await auditor.post("/v1/audit/erasures", json={"records": [1]}, headers=headers)
        assert refused.status_code == 403
        page = (await auditor.get("/v1/audit")).json()
        assert page["items"][0]["personal"]["comment"][1] == "hello"
        assert page["items"][1]["record"]["action"] == "auth_denied"
        assert set(page["items"][1]["personal"]) == {"ip", "user_agent"}


async def wrote(gateway: Gateway, action: str, who: str = "user:ann", at: str = "2026-11-21T10:00:00.000Z",
                **about: str) -> None:
    draft = AuditDraft(tenant_id="default", at=at, who={"id": who, "role": "operator"}, action=action,
                       **about)  # type: ignore[arg-type]
    await gateway.desk.ledger.commit(WriteBatch([AuditAppend(draft)]))


async def searched(gateway: Gateway, **query: str) -> list[int]:
    """The numbers of all matching records over all pages, except those of the reading itself."""
    found: list[int] = []
    query.setdefault("limit", "2")
    while True:
        page = await got(gateway, "/v1/audit", **query)
        found += [item["seq"] for item in page["items"] if item["record"]["action"] != "audit_read"]
        if not page["has_more"]:
            return found
        query["since"] = page["next_cursor"]


@pytest.mark.req("J-13", "U-5")
async def test_records_are_found_by_person_action_and_time_in_either_order(gateway: Gateway) -> None:
    await wrote(gateway, "enqueue", command_id="cmd_1", session_id="s1")
    await wrote(gateway, "vote", "user:bob", approval_id="apr_1", session_id="s1")
    await wrote(gateway, "vote", "agent:ann", "2026-11-22T10:00:00.000Z", approval_id="apr_2")
    await wrote(gateway, "complete", "user:ann", "2026-11-23T10:00:00.000Z", command_id="cmd_1", session_id="s1")
    for query, seqs in (
        ({}, [1, 2, 3, 4]), ({"actor": "user:ann"}, [1, 4]), ({"actor": "ann"}, [1, 3, 4]), ({"actor": "an"}, []),
        ({"action": "vote"}, [2, 3]), ({"command": "cmd_1"}, [1, 4]), ({"session": "s1", "action": "vote"}, [2]),
        ({"approval": "apr_2"}, [3]), ({"from": "2026-11-22T00:00:00Z", "to": "2026-11-23T00:00:00Z"}, [3]),
        ({"from": "2026-11-21T10:00:00Z", "to": "2026-11-21T10:00:00Z"}, []),
        ({"to": "2026-11-21T12:00:00+01:00"}, [1, 2]),
    ):
        assert await searched(gateway, **query) == seqs, query
        assert await searched(gateway, order="newest", **query) == seqs[::-1], query
    for query in ({"action": "voted"}, {"from": "yesterday"}, {"order": "up"}, {"actor": "x" * 5000},
                  {"order": "newest", "since": stream_cursor("a/default", 1)}):
        answer = await gateway.http.get("/v1/audit", params=query)
        assert (answer.status_code, answer.json()["code"]) == (400, "InvalidPayload"), query


@pytest.mark.req("U-5")
async def test_a_search_finds_records_of_a_clock_that_was_set_back(gateway: Gateway) -> None:
    await wrote(gateway, "vote", at="2026-11-21T10:00:00.000Z")
    await wrote(gateway, "vote", at="2026-11-21T09:30:00.000Z")
    await wrote(gateway, "vote", at="2026-11-21T10:01:00.000Z")
    since = {"from": "2026-11-21T10:00:00Z", "limit": "100"}
    assert await searched(gateway, **since) == [1, 3]
    assert await searched(gateway, order="newest", **since) == [3, 1]


@pytest.mark.req("U-1", "U-5")
async def test_a_search_is_audited_and_its_following_pages_are_not(gateway: Gateway) -> None:
    for _ in range(3):
        await wrote(gateway, "vote")
    first = await got(gateway, "/v1/audit", order="newest", limit=1)
    await got(gateway, "/v1/audit", order="newest", limit=1, since=first["next_cursor"])
    assert (await gateway.desk.ledger.audit_head("default"))[0] == 4
    await got(gateway, "/v1/audit", order="newest", since=stream_cursor("newest/a/default", 900))
    assert (await gateway.desk.ledger.audit_head("default"))[0] == 5, "no cursor is a way around it"
    record = await got(gateway, "/v1/audit/records/2")
    assert (record["seq"], record["record"]["action"]) == (2, "vote")
    assert (await gateway.desk.ledger.audit_head("default"))[0] == 6
    for seq in ("0", "99", "x", "-1", "1" * 40):
        assert (await gateway.http.get(f"/v1/audit/records/{seq}")).status_code == 404
    async with gateway.as_role("operator") as operator:
        for path in ("/v1/audit/records/2", "/v1/audit/key"):
            assert (await operator.get(path)).status_code == 403


@pytest.mark.req("U-3")
async def test_the_key_that_is_published_verifies_the_checkpoints(tmp_path: Path) -> None:
    desk = SmallDesk()
    async with running(10, desk=desk) as gateway:
        assert (await gateway.http.get("/v1/audit/key")).status_code == 404, "nothing signs here"
    desk = SmallDesk()
    desk.signer = CheckpointSigner(desk.ledger, Ed25519PrivateKey.from_private_bytes(bytes(range(32))), "gw_1",
                                   CheckpointFiles(tmp_path), desk.signing)
    async with running(10, desk=desk) as gateway:
        shown = await got(gateway, "/v1/audit/key")
        raw = base64.b64decode(shown["public_key"])
        assert hashlib.sha256(raw).hexdigest() == shown["sha256"]
        signed = parse_checkpoint((await gateway.http.get("/v1/audit/checkpoint")).text)
        assert is_genuine(signed, Ed25519PublicKey.from_public_bytes(raw))
        assert (signed.origin, signed.signatures[0].key_id.hex()) == (shown["origin"], shown["note_key_id"])
