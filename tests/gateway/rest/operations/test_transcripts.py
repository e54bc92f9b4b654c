"""Transcripts over the API: by page, as a tree, as context; a change is applied once (X-6)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from engine.conversation import Table
from engine.sessions.test_transcript_writer import converse
from interlock.backends.memory.transcripts import MemoryTranscripts
from interlock.command.redaction import Redaction, RedactionRule
from interlock.engine.sessions import transcript_desk
from interlock.gateway.rest.request import uploads
from small_gateway.running import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.req("X-6")]


@pytest.fixture
async def session(gateway: Gateway) -> AsyncIterator[str]:
    table = Table(transcripts=MemoryTranscripts())
    table.ledger = gateway.desk.ledger
    table.begin()
    gateway.desk.transcripts = table.engine.transcripts
    await table.engine.start()
    yield f"/v1/sessions/{await converse(table)}"
    await table.engine.stop()


async def test_entries_come_by_the_page_and_from_the_end(gateway: Gateway, session: str) -> None:
    whole = (await gateway.http.get(f"{session}/transcript")).json()
    assert [one["type"] for one in whole["items"]] == ["message", *["custom"] * 3, *["message"] * 3, "custom"]
    assert (whole["has_more"], whole["next_cursor"]) == (False, None)
    first = (await gateway.http.get(f"{session}/transcript?limit=4")).json()
    rest = (await gateway.http.get(f"{session}/transcript?limit=4&cursor={first['next_cursor']}")).json()
    assert first["items"] + rest["items"] == whole["items"]
    assert (await gateway.http.get(f"{session}/transcript?last=2")).json()["items"] == whole["items"][-2:]
    assert (await gateway.http.get(f"{session}/transcript?cursor=x")).status_code == 400


async def test_tree_context_and_export_are_the_same_conversation(gateway: Gateway, session: str) -> None:
    tree = (await gateway.http.get(f"{session}/tree")).json()
    assert (tree["entries"], tree["leaf"]) == (8, tree["nodes"][-1]["id"])
    assert [node["parent_id"] for node in tree["nodes"][1:]] == [node["id"] for node in tree["nodes"][:-1]]
    context = (await gateway.http.get(f"{session}/context")).json()
    assert [one["role"] for one in context["messages"]] == ["user", "assistant", "toolResult", "assistant"]
    assert context["model"] == {"provider": "shell", "model_id": "unknown"}
    file = await gateway.http.get(f"{session}/export")
    assert file.headers["content-type"] == "application/x-ndjson"
    assert len(file.content.splitlines()) == 9
    assert (await gateway.http.get(f"{session}/export?format=markdown")).text.startswith("# Session ")
    page = await gateway.http.get(f"{session}/export?format=html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert (await gateway.http.get(f"{session}/doctor")).json()["sound"] is True


async def test_a_role_without_the_raw_view_cannot_read_transcripts(gateway: Gateway, session: str) -> None:
    for role, tenant, status in (("viewer", "default", 403), ("approver", "default", 403), ("auditor", "default", 200),
                                 ("owner", "other", 404)):
        async with gateway.as_role(role, tenant) as person:
            for part in ("transcript", "tree", "context", "export", "doctor"):
                assert (await person.get(f"{session}/{part}")).status_code == status
    async with gateway.as_role("auditor") as auditor:
        answer = await auditor.post(f"{session}/fork", json={}, headers={"Idempotency-Key": "k" * 16})
        assert answer.status_code == 403


async def test_a_change_that_is_sent_twice_happens_once(gateway: Gateway, session: str) -> None:
    first = (await gateway.http.get(f"{session}/tree")).json()["nodes"][0]["id"]
    for path, body in (("labels", {"entry_id": first, "label": "start"}), ("fork", {}), ("repair", {}),
                       ("branches", {"entry_id": first, "summary": "did ls"})):
        once = await gateway.post(f"{session}/{path}", body, key=f"{path}-{'k' * 16}")
        again = await gateway.post(f"{session}/{path}", body, key=f"{path}-{'k' * 16}")
        assert once.status_code in (200, 201), once.text
        assert once.content == again.content
        assert again.headers["idempotency-replayed"] == "true"
    tree = (await gateway.http.get(f"{session}/tree")).json()
    assert (tree["entries"], tree["nodes"][0]["label"]) == (10, "start")
    assert tree["nodes"][-1]["parent_id"] == first
    assert len((await gateway.http.get("/v1/sessions")).json()["items"]) == 2


async def test_an_exported_transcript_can_be_imported(gateway: Gateway, session: str) -> None:
    text = (await gateway.http.get(f"{session}/export")).text
    answer = await gateway.post("/v1/sessions/import", {"content": text, "agent_id": "shell"})
    assert answer.status_code == 201, answer.text
    begun = answer.json()
    taken = f"/v1/sessions/{begun['session']['session_id']}"
    assert (await gateway.http.get(f"{taken}/context")).json() == (await gateway.http.get(f"{session}/context")).json()
    header = msgspec.json.decode((await gateway.http.get(f"{taken}/export")).content.splitlines()[0])
    assert (header["id"], header["cwd"]) == (begun["session"]["session_id"], "/w")
    for wrong in ({"content": "hello", "agent_id": "shell"}, {"content": text, "agent_id": "nobody"}):
        assert (await gateway.post("/v1/sessions/import", wrong)).status_code in (400, 409)
    assert (await gateway.post(f"{session}/fork", {"entry_id": "nowhere"})).status_code == 404


@pytest.mark.req("X-6", "M-1")
@pytest.mark.parametrize("at_once", [0, 1 << 20])
async def test_a_transcript_is_uploaded_piece_by_piece(
    gateway: Gateway, session: str, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(transcript_desk, "REPAIR_INLINE_BYTES", at_once)
    text = (await gateway.http.get(f"{session}/export")).content
    half = text.replace(b'"content":"', rb'"content":"\ud83d ', 1)

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(half), 100):
            yield half[at : at + 100]

    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": "upload-key-0123456"}
    path = "/v1/sessions/import?agent_id=shell&workspace=/elsewhere"
    answer = await gateway.http.post(path, content=pieces(), headers=headers)
    assert answer.status_code == 201, answer.text
    begun = answer.json()
    taken = f"/v1/sessions/{begun['session']['session_id']}"
    report = begun["report"]
    assert (begun["entries"], report["sound"], report["counts"]) == (text.count(b"\n") - 1, True, {"half_pair": 1})
    found = (await gateway.http.get(f"{taken}/context")).json()
    assert found == msgspec.json.decode((await gateway.http.get(f"{session}/context")).content.replace(
        b'"content":"', '"content":"\ufffd '.encode(), 1))
    again = await gateway.http.post(path, content=half, headers=headers)
    assert (again.json(), again.headers["Idempotency-Replayed"]) == (begun, "true")
    assert (await gateway.http.post(path, content=text, headers=headers)).status_code == 422
    # Damage is repaired up to a size, and refused with the remedy above it.
    headers["Idempotency-Key"] = "upload-key-1234567"
    repaired = await gateway.http.post(path, content=half[:-9], headers=headers)
    assert (repaired.status_code, repaired.json()["report"]["counts"]["torn_tail"]) == (201, 1)
    headers["Idempotency-Key"] = "upload-key-2345678"
    monkeypatch.setattr(transcript_desk, "REPAIR_INLINE_BYTES", 0)
    monkeypatch.setattr(transcript_desk, "MAX_REPAIRED_BYTES", 100)
    refused = await gateway.http.post(path, content=half[:-9], headers=headers)
    assert refused.status_code == 400
    assert "interlock sessions doctor FILE --repair" in refused.json()["detail"]
    headers["Idempotency-Key"] = "upload-key-3456789"
    monkeypatch.setattr(uploads, "MAX_IMPORT_BYTES", 100)
    assert (await gateway.http.post(path, content=pieces(), headers=headers)).status_code == 413
    missing = await gateway.http.post("/v1/sessions/import", content=b"", headers=headers)
    assert (missing.status_code, missing.json()["errors"][0]["pointer"]) == (400, "agent_id")


@pytest.mark.req("K-4", "U-1")
async def test_an_export_is_redacted_unless_an_admin_requests_it_raw_on_record(
    gateway: Gateway, session: str
) -> None:
    prompt = (await gateway.http.get(f"{session}/transcript")).json()["items"][0]["message"]["content"]
    words = prompt if isinstance(prompt, str) else prompt[0]["text"]
    assert gateway.desk.transcripts is not None
    gateway.desk.transcripts.configure(Redaction([RedactionRule(name="words", regex=re.escape(words))]).text)
    for form in ("jsonl", "markdown", "html"):
        left = await gateway.http.get(f"{session}/export?format={form}")
        assert words not in left.text
        assert "(redacted: words)" in left.text
        assert int(left.headers["X-Interlock-Redacted"]) >= 1
    async with gateway.as_role("auditor") as auditor:
        assert words not in (await auditor.get(f"{session}/export?view=delivered")).text
        assert (await auditor.get(f"{session}/export?view=raw")).status_code == 403
        assert (await auditor.get(f"{session}/export?view=all")).status_code == 400
    before = await raw_exports(gateway)
    async with gateway.as_role("admin") as admin:
        whole = await admin.get(f"{session}/export?view=raw")
    assert words in whole.text
    assert whole.headers["X-Interlock-Redacted"] == "0"
    assert [one["who"]["id"] for one in (await raw_exports(gateway))[len(before):]] == ["user:admin"]
    taken = await gateway.post("/v1/sessions/import", {"content": whole.text, "agent_id": "shell"})
    assert taken.json()["entries"] == 8


async def raw_exports(gateway: Gateway) -> list[dict[str, Any]]:
    records = [msgspec.json.decode(one.body) for one in await gateway.desk.ledger.audit("default", 0, 1_000)]
    return [one for one in records if one["meta"].get("op") == "export"]
