"""A question in the editor: a yes is on what the editor was shown, or there is none (O-4, Y-3)."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from interlock.doors.acp.card import ShownCards
from interlock.doors.acp.permission import Permissions
from interlock.jsonrpc import Rpc
from interlock.sdk import AsyncInterlock
from small_gateway.running import Gateway, running

pytestmark = pytest.mark.anyio
SUBJECT = b'{"tool_name":"shell","input":{"command":"rm -rf build"}}'
INPUT = b'{"command":"rm -rf build"}'


@pytest.fixture
async def gateway(anyio_backend: str) -> AsyncIterator[Gateway]:
    async with running(30.0) as there:
        yield there


class Editor:
    """The editor's end of the pipe: allows whatever it is asked, and keeps what it was sent."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def write(self, data: bytes) -> None:
        for line in data.splitlines():
            message = json.loads(line)
            self.sent.append(message)
            if message["method"] == "session/request_permission":
                self._lines.put_nowait(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {
                    "outcome": {"outcome": "selected", "optionId": "allow"}}}).encode())

    async def lines(self) -> AsyncIterator[bytes]:
        while True:
            yield await self._lines.get()


async def asked(gateway: Gateway, digest: str) -> tuple[str, list[dict[str, Any]]]:
    """Ask an editor about an approval whose gateway states `digest`; returns its state and what the editor was sent."""
    await gateway.desk.add_approval("apr_1", door="tool", digest=digest, subject=msgspec.Raw(SUBJECT),
                                    input=msgspec.Raw(INPUT))

    async def none(*_: Any) -> None:
        raise AssertionError("the editor asks nothing")

    editor = Editor()
    rpc = Rpc(editor, none, none)
    reading = asyncio.create_task(rpc.run())
    async with AsyncInterlock(gateway.base, "ilk_default_owner") as client:
        await Permissions(client, rpc).ask("s1", "apr_1", ShownCards())
        state = (await client.approvals.get("apr_1")).state
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    return state, editor.sent


@pytest.mark.req("O-4", "Y-3")
async def test_a_yes_in_the_editor_is_sent_on_what_was_shown(gateway: Gateway) -> None:
    state, sent = await asked(gateway, hashlib.sha256(SUBJECT).hexdigest())
    assert [one["method"] for one in sent] == ["session/request_permission"]
    assert sent[0]["params"]["toolCall"]["rawInput"] == {"command": "rm -rf build"}
    assert state == "granted"


@pytest.mark.req("O-4", "Y-3")
async def test_what_is_not_of_the_gateways_digest_is_shown_and_not_asked(gateway: Gateway) -> None:
    state, sent = await asked(gateway, "f" * 64)
    assert (state, [one["method"] for one in sent]) == ("pending", ["session/update"])
    text = sent[0]["params"]["update"]["content"][0]["content"]["text"]
    assert text.startswith("What the gateway sent of apr_1 does not match the digest that it states")
    assert text.endswith("Deny it with: interlock deny apr_1")
