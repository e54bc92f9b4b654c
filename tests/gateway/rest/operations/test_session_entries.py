"""The entry of a session's key over REST: overrides, reset, history, archive; a verb sees its own effect (V-2)."""

from __future__ import annotations

from typing import Any

import pytest

from engine.test_chats import ChatTable
from gateway.rest.operations.test_inbound import HELLO
from small_gateway.desk import SmallDesk
from small_gateway.running import Gateway, running

pytestmark = pytest.mark.anyio


class EngineDesk(SmallDesk):
    """The small desk's listener, and the engine's own sessions."""

    def __init__(self, table: ChatTable) -> None:
        super().__init__()
        self.ledger, self.chats, self.sessions = table.ledger, table.engine.chats, table.engine.sessions


async def begun(gateway: Gateway) -> str:
    return (await gateway.post("/v1/inbound", HELLO, key="")).json()["session_id"]


async def patch(gateway: Gateway, session_id: str, **fields: Any) -> Any:
    gateway.keys += 1
    return await gateway.http.patch(f"/v1/sessions/{session_id}", json=fields,
                                    headers={"Idempotency-Key": f"patch-key-number-{gateway.keys:04d}"})


@pytest.mark.req("V-2", "I-4")
async def test_fields_are_set_and_cleared_one_by_one_and_shown() -> None:
    async with running(60, desk=EngineDesk(ChatTable())) as gateway:
        session_id = await begun(gateway)
        changed = await patch(gateway, session_id, label=" work ", modelOverride="opus")
        assert changed.status_code == 200, changed.text
        assert (changed.json()["entry"]["label"], changed.json()["entry"]["modelOverride"]) == ("work", "opus")
        await patch(gateway, session_id, label=None)
        entry = (await gateway.http.get(f"/v1/sessions/{session_id}")).json()["entry"]
        assert ("label" in entry, entry["modelOverride"], entry["provider"]) == (False, "opus", "telegram")


@pytest.mark.req("I-4")
async def test_unknown_fields_are_kept_and_cannot_replace_known_ones() -> None:
    async with running(60, desk=EngineDesk(ChatTable())) as gateway:
        session_id = await begun(gateway)
        await patch(gateway, session_id, label="work", unknownFields={"theirs": {"a": [1, None]}})
        changed = await patch(gateway, session_id, thinkingLevel="high")
        assert (changed.json()["entry"]["theirs"], changed.json()["entry"]["label"]) == ({"a": [1, None]}, "work")
        for name in ("label", "inputTokens", "sessionId", "sessionStartedAt"):
            changed = await patch(gateway, session_id, unknownFields={name: 1})
            assert (changed.status_code, changed.json()["code"]) == (400, "InvalidPayload"), changed.text
        assert "theirs" not in (await patch(gateway, session_id, unknownFields={"theirs": None})).json()["entry"]


@pytest.mark.req("V-2")
async def test_a_read_only_field_is_refused_by_name_and_nothing_changes() -> None:
    async with running(60, desk=EngineDesk(ChatTable())) as gateway:
        session_id = await begun(gateway)
        for wrong, place in (({"compactionCount": 3}, "compactionCount"), ({"sendPolicy": "maybe"}, "sendPolicy"),
                             ({"label": "a\nb"}, "label"), ({"label": "", "modelOverride": "opus"}, "label")):
            answer = await patch(gateway, session_id, **wrong)
            assert answer.status_code == 400, answer.text
            assert place in answer.json()["detail"]
        assert "modelOverride" not in (await gateway.http.get(f"/v1/sessions/{session_id}")).json()["entry"]


@pytest.mark.req("V-2", "I-3")
async def test_a_reset_keeps_overrides_and_lists_the_old_session_as_history() -> None:
    async with running(60, desk=EngineDesk(ChatTable())) as gateway:
        old = await begun(gateway)
        await patch(gateway, old, label="work", thinkingLevel="high")
        new = (await gateway.post(f"/v1/sessions/{old}/reset", {})).json()
        assert new["session_id"] != old
        assert (new["entry"]["label"], new["entry"]["thinkingLevel"]) == ("work", "high")
        assert (new.get("total_tokens", 0), "lastInteractionAt" in new["entry"]) == (0, False)
        for one in (old, new["session_id"]):
            items = (await gateway.http.get(f"/v1/sessions/{one}/history")).json()["items"]
            assert [item["session_id"] for item in items] == [new["session_id"], old]
        # "ok" and nothing changed: an older session of the key is not reset.
        assert (await gateway.post(f"/v1/sessions/{old}/reset", {})).status_code == 409


@pytest.mark.req("V-2")
async def test_an_archived_session_is_readable_restorable_and_frees_its_key() -> None:
    async with running(60, desk=EngineDesk(ChatTable())) as gateway:
        session_id = await begun(gateway)
        changed = (await gateway.post(f"/v1/sessions/{session_id}/archive", {})).json()
        assert changed["entry"]["archivedAt"] > 0
        assert (await gateway.http.get(f"/v1/sessions/{session_id}")).status_code == 200
        back = (await gateway.post(f"/v1/sessions/{session_id}/restore", {})).json()
        assert "archivedAt" not in back["entry"]
        once = {"Idempotency-Key": "delete-it-0000001"}
        gone = await gateway.http.request("DELETE", f"/v1/sessions/{session_id}", headers=once)
        assert (gone.status_code, "archivedAt" in gone.json()["entry"]) == (200, True)
        again = await gateway.http.request("DELETE", f"/v1/sessions/{session_id}", headers=once)
        assert (again.content, again.headers["idempotency-replayed"]) == (gone.content, "true")
        await gateway.post(f"/v1/sessions/{session_id}/restore", {})
        await gateway.post(f"/v1/sessions/{session_id}/archive", {})
        again = (await gateway.post("/v1/inbound", {**HELLO, "message_id": "2"}, key="")).json()
        assert again["session_id"] != session_id
