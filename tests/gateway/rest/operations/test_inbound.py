"""The endpoint for messages (R-4): required roles, responses, and that a message counts once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engine.test_chats import ChatTable
from interlock.backends.memory.ledger import MemoryLedger
from small_gateway.desk import SmallDesk
from small_gateway.running import Gateway, running

pytestmark = pytest.mark.anyio
HELLO = {"channel": "telegram", "chat_type": "direct", "sender": "ann", "text": "hello", "message_id": "1"}


@asynccontextmanager
async def chatting(**settings: Any) -> AsyncIterator[tuple[Gateway, ChatTable]]:
    """A gateway whose chats are the engine's own."""
    table, desk = ChatTable(**settings), SmallDesk()
    assert isinstance(table.ledger, MemoryLedger)
    desk.ledger, desk.chats = table.ledger, table.engine.chats
    async with running(60, desk=desk) as gateway:
        yield gateway, table


@pytest.mark.req("R-4")
async def test_a_message_that_a_channel_delivers_twice_is_one_command() -> None:
    async with chatting() as (gateway, table):
        first = await gateway.post("/v1/inbound", HELLO, key="")
        again = await gateway.post("/v1/inbound", HELLO, key="")
        assert (first.status_code, again.status_code) == (202, 202)
        assert first.content == again.content
        assert again.headers["idempotency-replayed"] == "true"
        assert first.headers["location"] == f"/v1/commands/{first.json()['command_id']}"
        other = await gateway.post("/v1/inbound", {**HELLO, "message_id": "2"}, key="")
        assert other.json()["command_id"] != first.json()["command_id"]
        assert len(await table.ledger.live_commands(first.json()["session_id"], "default")) == 2


@pytest.mark.req("R-4", "I-1")
async def test_a_new_message_delivered_twice_resets_once() -> None:
    async with chatting() as (gateway, _):
        await gateway.post("/v1/inbound", HELLO, key="")
        asked = {**HELLO, "text": "/new start over", "message_id": "2"}
        first, again = [(await gateway.post("/v1/inbound", asked, key="")).json() for _ in range(2)]
        assert first == again
        assert first["reset"] == "asked"


@pytest.mark.req("R-4")
async def test_an_invalid_field_is_named_and_a_caller_without_the_role_refused() -> None:
    async with chatting() as (gateway, _):
        for wrong, place in (({"chat_type": "crowd"}, "chat_type"), ({"chat_type": "group"}, "group_id"),
                             ({"text": ""}, "text"), ({"colour": "red"}, "colour")):
            answer = await gateway.post("/v1/inbound", {**HELLO, **wrong}, key="")
            assert answer.status_code == 400, answer.text
            assert place in answer.json()["detail"]
        without = {name: value for name, value in HELLO.items() if name != "message_id"}
        assert (await gateway.post("/v1/inbound", without, key="")).json()["code"] == "IdempotencyKeyMissing"
        assert (await gateway.post("/v1/inbound", without)).status_code == 202
        async with gateway.as_role("viewer") as viewer:
            assert (await viewer.post("/v1/inbound", json=HELLO)).status_code == 403
