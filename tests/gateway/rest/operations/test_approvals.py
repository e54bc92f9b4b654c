"""Approvals over REST: the bytes that a vote is about (J-12, P-2)."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import httpx
import msgspec
import pytest

from gateway.rest.test_routes import refused
from interlock.gateway.rest.filtered_pages import SCAN_MAX
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol.limits import MAX_CARD_CHATS
from interlock.protocol.records import RunnerRecord
from interlock.protocol.resources import Vote
from small_gateway.running import Gateway

pytestmark = pytest.mark.anyio
SUBJECT = b'{"tool_name": "shell",  "input" : {"n": 1.0, "big": 12345678901234567890, "s": "\xe2\x80\xae\\u202e"}}'


def sha(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


@pytest.mark.req("J-12", "P-2")
async def test_the_input_of_an_approval_is_byte_for_byte_that_of_its_digest(gateway: Gateway) -> None:
    await gateway.desk.add_approval("apr_1", digest=sha(SUBJECT), subject=msgspec.Raw(SUBJECT))
    await gateway.desk.add_approval("apr_2", digest=sha(b'{"a" : 1.0}'), input=msgspec.Raw(b'{"a" : 1.0}'))
    for approval_id, raw in (("apr_1", SUBJECT), ("apr_2", b'{"a" : 1.0}')):
        answer = await gateway.http.get(f"/v1/approvals/{approval_id}/input")
        assert (answer.status_code, answer.content) == (200, raw)
        digest = base64.b64encode(hashlib.sha256(raw).digest()).decode()
        assert answer.headers["Repr-Digest"] == f"sha-256=:{digest}:"
        assert answer.headers["Content-Type"] == "application/octet-stream", "no browser renders it"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
    async with gateway.as_role("viewer") as viewer, gateway.as_role("owner", "other") as stranger:
        assert (await viewer.head("/v1/approvals/apr_1/input")).content == b""
        refused(await stranger.get("/v1/approvals/apr_1/input"), "NotFound")


@pytest.mark.req("P-2", "H-5")
async def test_bytes_that_do_not_match_the_digest_are_not_shown(gateway: Gateway) -> None:
    await gateway.desk.add_approval("apr_1", digest=sha(SUBJECT), subject=msgspec.Raw(SUBJECT + b" "))
    refused(await gateway.http.get("/v1/approvals/apr_1/input"), "Conflict")


async def ids(gateway: Gateway, **query: str) -> list[str]:
    """Every approval that matches, over all pages."""
    found: list[str] = []
    while True:
        page = (await gateway.http.get("/v1/approvals", params=query)).json()
        found += [one["id"] for one in page["items"]]
        assert page["has_more"] is (page["next_cursor"] is not None)
        if not page["has_more"]:
            return found
        query["cursor"] = page["next_cursor"]


async def test_approvals_are_found_by_agent_session_person_and_text(gateway: Gateway) -> None:
    voted = Vote(by="user:ann", at="2026-11-01T00:00:00.000Z", decision="grant", method="acl")
    gone = msgspec.structs.replace(voted, by="user:bob", withdrawn_at="2026-11-01T00:00:01.000Z")
    await gateway.desk.add_approval("apr_1", title="git push origin", workspace="/srv/Work")
    await gateway.desk.add_approval("apr_2", state="granted", votes=[voted, gone], decided_by="user:ann")
    await gateway.desk.add_approval("apr_3", state="denied", session_id="s2", decided_by="user:bob", comment="too much")
    await gateway.desk.add_approval("apr_4", "other", title="git push")
    assert await ids(gateway) == ["apr_3", "apr_2", "apr_1"]
    assert await ids(gateway, decided="true") == ["apr_3", "apr_2"]
    assert await ids(gateway, session="s2") == ["apr_3"]
    assert await ids(gateway, agent="shell", limit="1") == ["apr_3", "apr_2", "apr_1"]
    assert await ids(gateway, agent="goose") == []
    assert await ids(gateway, by="ann") == await ids(gateway, by="user:ann") == ["apr_2"]
    assert await ids(gateway, by="bob") == ["apr_3"], "a vote that was withdrawn is none"
    assert await ids(gateway, q="GIT PUSH") == await ids(gateway, q="/srv/work") == ["apr_1"]
    assert await ids(gateway, q="too much", state="denied") == ["apr_3"]
    refused(await gateway.http.get("/v1/approvals", params={"decided": "maybe"}), "InvalidPayload")
    refused(await gateway.http.get("/v1/approvals", params={"q": "x" * 4_097}), "InvalidPayload")


async def test_a_search_reads_bounded_rows_per_request_and_continues_from_there(gateway: Gateway) -> None:
    for number in range(SCAN_MAX + 5):
        await gateway.desk.add_approval(f"apr_{number:05}", agent_id="old" if number < 2 else "shell")
    first = (await gateway.http.get("/v1/approvals", params={"agent": "old"})).json()
    assert (first["items"], first["has_more"]) == ([], True)
    assert await ids(gateway, agent="old") == ["apr_00001", "apr_00000"]


@pytest.mark.req("J-12")
async def test_an_approval_has_the_host_and_the_content_shown_by_the_agent(gateway: Gateway) -> None:
    subject = {"tool_name": "edit", "content": [{"type": "diff", "path": "/w/a", "oldText": "1", "newText": "2"}]}
    for number, tenant in (("1", "default"), ("2", "another")):
        record = RunnerRecord(runner_id=f"r{number}", tenant_id=tenant, token_sha256=number,
                              device_name=f"box {number}", created_ms=1, last_seen_ms=1)
        await gateway.desk.ledger.commit(WriteBatch([Put(record)]))
        await gateway.desk.add_approval(f"apr_{number}", runner_id=f"r{number}",
                                        subject=msgspec.Raw(msgspec.json.encode(subject)))
    listed = (await gateway.http.get("/v1/approvals")).json()["items"]
    assert [(one["id"], one.get("device_name"), "preview" in one) for one in listed] == [
        ("apr_2", None, False), ("apr_1", "box 1", False)]
    shown = (await gateway.http.get("/v1/approvals/apr_1")).json()
    assert shown["device_name"] == "box 1"
    assert shown["preview"] == {"parts": [{"kind": "diff", "path": "/w/a", "old_text": "1", "text": "2"}]}


@pytest.mark.req("J-5")
async def test_a_bridge_names_the_chats_that_have_a_card_if_its_role_acts(gateway: Gateway) -> None:
    await gateway.desk.add_approval("apr_1")

    async def report(approval_id: str = "apr_1", role: str = "operator", **body: Any) -> httpx.Response:
        async with gateway.as_role(role) as bridge:
            body["idempotency_key"] = sha(repr(body).encode())
            return await bridge.post(f"/v1/approvals/{approval_id}/cards", json=body)

    assert (await report(service="telegram", chats=["user:ann"])).status_code == 200
    shown = (await gateway.http.get("/v1/approvals/apr_1")).json()
    assert [(card["service"], card["chat"]) for card in shown["cards"]] == [("telegram", "user:ann")]
    refused(await report("apr_2", service="telegram", chats=[]), "NotFound")
    for reads in ("viewer", "auditor"):
        refused(await report(role=reads, service="slack", chats=["C1"]), "Forbidden")
    wrong_chats = [[""], ["C" * 129], ["all clear: allow it"], ["C1\n"], ["C"] * (MAX_CARD_CHATS + 1)]
    for wrong in ({"service": "Te legram", "chats": []}, {"service": "slack"},
                  *({"service": "slack", "chats": chats} for chats in wrong_chats)):
        refused(await report(**wrong), "InvalidPayload")
