"""Slash commands: `/approve` grants a card that was shown completely in this conversation, or is refused (O-5)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from interlock.doors.acp.card import CARD_CHARS, CARDS_KEPT, ShownCards, card_of, is_whole
from interlock.doors.acp.open_session import OpenSession
from interlock.doors.acp.permission import Permissions
from interlock.doors.acp.slash import SlashCommands
from interlock.jsonrpc import Rpc
from interlock.protocol.resources import Approval
from interlock.sdk import AsyncInterlock, problems
from small_gateway.running import Gateway, running

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-5")]


@pytest.fixture
async def gateway(anyio_backend: str) -> AsyncIterator[Gateway]:
    async with running(30.0) as there:
        yield there


class NoEditor:
    """The pipes of an editor that neither sends nor reads."""

    async def write(self, data: bytes) -> None:
        raise AssertionError("nothing is sent to the editor")

    async def lines(self) -> AsyncIterator[bytes]:
        for line in ():
            yield line


class Conversation:
    """One editor's session `s1`, and what its user is answered."""

    def __init__(self, gateway: Gateway, role: str = "owner") -> None:
        self.client = AsyncInterlock(gateway.base, f"ilk_default_{role}")
        rpc = Rpc(NoEditor(), self._none, self._none)
        self.session = OpenSession(self.client, rpc, Permissions(self.client, rpc), "agent:shell:run:s1", "shell", "/w",
                                   session_id="s1")

    async def type(self, command: str) -> str:
        name, _, argument = command.removeprefix("/").partition(" ")
        return await SlashCommands(self.client).run(self.session, name, argument)

    async def _none(self, *_: Any) -> None:
        raise AssertionError("the editor asks nothing")


@pytest.fixture
async def conversation(gateway: Gateway) -> AsyncIterator[Conversation]:
    await gateway.desk.add_session()
    conversation = Conversation(gateway)
    yield conversation
    await conversation.client.close()


async def wait(gateway: Gateway, approval_id: str, command: str = "rm -rf build", **fields: Any) -> Approval:
    """Have an approval wait for a shell command."""
    asked = json.dumps({"command": command}).encode()
    subject = b'{"tool_name":"shell","input":%s}' % asked
    return await gateway.desk.add_approval(approval_id, **{
        "door": "tool", "digest": hashlib.sha256(subject).hexdigest(), "subject": msgspec.Raw(subject),
        "input": msgspec.Raw(asked), **fields})


async def state(gateway: Gateway, approval_id: str) -> str:
    return (await gateway.http.get(f"/v1/approvals/{approval_id}")).json()["state"]


async def test_approve_needs_the_complete_card_in_this_conversation(
    gateway: Gateway, conversation: Conversation
) -> None:
    await wait(gateway, "apr_1")
    other = Conversation(gateway)

    early = await conversation.type("/approve apr_1")
    assert "has not been shown whole" in early
    assert "/status" in early
    shown = await other.type("/status")
    assert "has not been shown whole" in await conversation.type("/approve")
    assert await state(gateway, "apr_1") == "pending"

    assert "rm -rf build" in shown
    assert await other.type("/approve") == "Allowed: apr_1"
    vote = (await gateway.http.get("/v1/approvals/apr_1")).json()["votes"][0]
    assert (vote["decision"], vote["comment"]) == ("grant", "in the editor (ACP)")
    assert await other.type("/approve apr_1") == "Approval apr_1 is granted already."
    await other.client.close()


async def test_a_card_that_changed_or_is_too_long_cannot_be_granted(
    gateway: Gateway, conversation: Conversation
) -> None:
    await wait(gateway, "apr_1")
    await wait(gateway, "apr_2", "true " + "x" * CARD_CHARS)
    assert "too long to be shown here" in await conversation.type("/status")
    await wait(gateway, "apr_1", "rm -rf /")

    assert "as it is now" in await conversation.type("/approve apr_1")
    assert "has not been shown whole" in await conversation.type("/approve apr_2")
    assert [await state(gateway, "apr_1"), await state(gateway, "apr_2")] == ["pending", "pending"]


async def test_an_approval_that_does_not_match_its_digest_cannot_be_granted(
    gateway: Gateway, conversation: Conversation
) -> None:
    await wait(gateway, "apr_1", digest="ab" * 32)
    await conversation.type("/status")
    assert "does not match the digest" in await conversation.type("/approve")
    assert await state(gateway, "apr_1") == "pending"


async def test_an_approval_that_cannot_be_decided_here_names_another_way(
    gateway: Gateway, conversation: Conversation
) -> None:
    await wait(gateway, "apr_1", signed=True)
    await wait(gateway, "apr_2", session_id="s2")

    assert "interlock approve apr_1 --sign" in await conversation.type("/status")
    assert "interlock approve apr_1 --sign" in await conversation.type("/approve apr_1")
    assert "interlock approve apr_1 --sign" in await conversation.type("/deny apr_1")
    assert "is of another session" in await conversation.type("/approve apr_2")
    assert await conversation.type("/approve apr_9") == "There is no approval 'apr_9'. List what waits with /status."


async def test_without_an_id_the_only_approval_is_meant(gateway: Gateway, conversation: Conversation) -> None:
    assert await conversation.type("/deny") == "No approval waits here."
    await wait(gateway, "apr_1")
    await wait(gateway, "apr_2")
    assert "Name one behind /deny: " in await conversation.type("/deny")
    assert await conversation.type("/deny apr_1 not on a Friday") == "Denied: apr_1"
    vote = (await gateway.http.get("/v1/approvals/apr_1")).json()["votes"][0]
    assert (vote["decision"], vote["comment"]) == ("deny", "not on a Friday")


async def test_a_key_that_may_not_vote_is_refused_by_the_gateway(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    await wait(gateway, "apr_1")
    conversation = Conversation(gateway, "operator")
    await conversation.type("/status")
    for command in ("/approve", "/deny"):
        with pytest.raises(problems.Forbidden):
            await conversation.type(command)
    await conversation.client.close()
    assert await state(gateway, "apr_1") == "pending"


def approval(subject: bytes = b'{"tool_name":"shell","input":{"command":"ls"}}', approval_id: str = "apr_1"
             ) -> Approval:
    return Approval(
        id=approval_id, tenant_id="default", created_at="", expires_at="", title="", agent_id="shell", session_id="s1",
        rule="ask", state="pending", door="tool", input=msgspec.Raw(b'{"command":"ls"}'), digest=approval_id,
        subject=msgspec.Raw(subject))


def test_shown_cards_are_bounded() -> None:
    shown = ShownCards()
    cards = [approval(approval_id=f"apr_{number}") for number in range(CARDS_KEPT + 1)]
    for card in cards:
        shown.add(card)
    assert not shown.covers(cards[0])
    assert all(shown.covers(card) for card in cards[1:])


def test_a_request_cannot_leave_its_fence() -> None:
    card = card_of(approval(b'{"tool_name":"shell","input":{"command":"ls\\n```\\n<!-- hidden -->"}}'))
    fence = card.text.splitlines()[1]
    assert fence == "````"
    assert card.text.endswith("\n````")
    assert card.text.count("````") == 2


@pytest.mark.parametrize(("members", "whole"), [
    ("", True), (',"content":[{"type":"content","content":{"type":"text","text":"why"}}]', True),
    (',"content":[{"type":"terminal","terminalId":"t1"}]', False), (',"described":true', False),
    (',"changed":true', False), (',"resolved_paths":{"a":"/etc/passwd"}', False),
])
def test_an_acp_tool_call_is_not_always_the_complete_card(members: str, whole: bool) -> None:
    assert is_whole(approval(b'{"tool_name":"shell","input":{"command":"ls"}%s}' % members.encode())) is whole
