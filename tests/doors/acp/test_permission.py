"""A question in the editor: a grant covers the request that the editor was shown, or does not count (O-4, Y-3)."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from interlock.doors.acp.card import ShownCards
from interlock.doors.acp.permission import Permissions, waits
from interlock.jsonrpc import Rpc
from interlock.sdk import AsyncInterlock
from lazily import lazily
from small_gateway.running import Gateway, running

schema = lazily("acp.schema")

pytestmark = pytest.mark.anyio
SUBJECT = b'{"tool_name":"shell","input":{"command":"rm -rf build"}}'
INPUT = b'{"command":"rm -rf build"}'


@pytest.fixture
async def gateway(anyio_backend: str) -> AsyncIterator[Gateway]:
    async with running(30.0) as there:
        yield there


class Editor:
    """The editor's end of the pipe: allows every request, fills each form with `written`, and records the
    messages."""

    def __init__(self, written: Any = None) -> None:
        self.written = written
        self.sent: list[dict[str, Any]] = []
        self.received = asyncio.Event()
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()

    async def write(self, data: bytes) -> None:
        for line in data.splitlines():
            message = json.loads(line)
            self.sent.append(message)
            self.received.set()
            if message["method"] == "session/request_permission":
                self._lines.put_nowait(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {
                    "outcome": {"outcome": "selected", "optionId": "allow"}}}).encode())
            if message["method"] == "elicitation/create" and self.written is not None:
                self._lines.put_nowait(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": self.written
                                                   }).encode())

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
async def test_a_grant_in_the_editor_is_sent_with_the_shown_digest(gateway: Gateway) -> None:
    state, sent = await asked(gateway, hashlib.sha256(SUBJECT).hexdigest())
    assert [one["method"] for one in sent] == ["session/request_permission"]
    assert sent[0]["params"]["toolCall"]["rawInput"] == {"command": "rm -rf build"}
    assert state == "granted"


@pytest.mark.req("O-4", "Y-3")
async def test_a_request_that_does_not_match_the_gateways_digest_is_shown_and_not_asked(gateway: Gateway) -> None:
    state, sent = await asked(gateway, "f" * 64)
    assert (state, [one["method"] for one in sent]) == ("pending", ["session/update"])
    text = sent[0]["params"]["update"]["content"][0]["content"]["text"]
    assert text.startswith("What the gateway sent of apr_1 does not match the digest that it states")
    assert text.endswith("Deny it with: interlock deny apr_1")


QUESTION = msgspec.Raw(b'{"question":"Which way?","options":[{"label":"left"},{"label":"right"}]}')


@asynccontextmanager
async def question(gateway: Gateway, written: Any, role: str = "operator", *, shows_forms: bool = True
                   ) -> AsyncIterator[tuple[Editor, asyncio.Task[None]]]:
    """Ask an editor about a question; `written` is what its user does with the form, None for nothing yet."""
    await gateway.desk.add_approval("apr_1", door="tool", kind="question", title="Which way?", input=QUESTION)

    async def none(*_: Any) -> None:
        raise AssertionError("the editor asks nothing")

    editor = Editor(written)
    rpc = Rpc(editor, none, none)
    reading = asyncio.create_task(rpc.run())
    async with AsyncInterlock(gateway.base, f"ilk_default_{role}") as client:
        asking = asyncio.create_task(Permissions(client, rpc, shows_forms).ask("s1", "apr_1", ShownCards()))
        yield editor, asking
        await asyncio.gather(asking, return_exceptions=True)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


async def state_of(gateway: Gateway) -> tuple[str, str | None]:
    shown = (await gateway.http.get("/v1/approvals/apr_1")).json()
    return shown["state"], shown.get("answer")


@pytest.mark.req("O-4", "C-8")
@pytest.mark.parametrize(("written", "state"), [
    ({"action": "accept", "content": {"answer": " left "}}, ("granted", "left")),
    ({"action": "decline"}, ("denied", None)),
    ({"action": "decline", "content": None}, ("denied", None)),
    ({"action": "cancel"}, ("pending", None)),
    ({"action": "accept", "content": {"answer": "  "}}, ("pending", None)),
    ({"action": "accept", "content": {"answer": ["left"]}}, ("pending", None)),
    ({"action": "of-the-future"}, ("pending", None)),
    ("nonsense", ("pending", None))])
async def test_a_question_is_a_form_and_only_its_text_answers_it(
    gateway: Gateway, written: Any, state: tuple[str, str | None]
) -> None:
    async with question(gateway, written) as (editor, asking):
        await asking
    [sent] = editor.sent
    assert sent["method"] == "elicitation/create"
    schema.CreateFormSessionElicitationRequest.model_validate(sent["params"])
    assert sent["params"]["message"].splitlines()[:3] == ["Which way?", "  1 left", "  2 right"]
    assert await state_of(gateway) == state


@pytest.mark.req("O-4", "C-8")
@pytest.mark.parametrize(("role", "shows_forms"), [("viewer", True), ("operator", False)])
async def test_without_forms_or_the_role_a_question_is_shown_with_its_verb(
    gateway: Gateway, role: str, shows_forms: bool
) -> None:
    async with question(gateway, {"action": "accept", "content": {"answer": "left"}}, role, shows_forms=shows_forms
                        ) as (editor, asking):
        await asking
    [sent] = editor.sent
    assert sent["method"] == "session/update"
    assert "interlock answer apr_1" in json.dumps(sent)
    assert await state_of(gateway) == ("pending", None)


@pytest.mark.req("O-4", "C-8")
async def test_a_question_that_is_answered_elsewhere_is_withdrawn(gateway: Gateway) -> None:
    async with question(gateway, None) as (editor, asking):
        await asyncio.wait_for(editor.received.wait(), 20)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    assert [one["method"] for one in editor.sent] == ["elicitation/create", "$/cancel_request"]
    assert editor.sent[1]["params"]["requestId"] == editor.sent[0]["id"]


@pytest.mark.req("O-4", "P-4", "J-17")
@pytest.mark.parametrize(("signed", "remedy"), [
    (True, "Vote with: interlock approve apr_1 --sign"), ("passkey", "Vote on the gateway's page /a/apr_1.")])
async def test_an_approval_that_needs_signed_votes_is_shown_with_the_way_to_sign(
    gateway: Gateway, signed: Any, remedy: str
) -> None:
    approval = await gateway.desk.add_approval("apr_1", signed=signed)
    assert waits(approval).endswith(remedy)
