"""A hook is called before a conversation is compacted: its possible answers, and the outcome without one (Z-6)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.channels.compaction_hook import ANSWER_BYTES, CompactionHookSettings, HttpCompactionHook
from interlock.ports.compaction_hook import BeforeCompact, CompactionVeto, Supply
from interlock.ports.outbound_http import OutboundResponse, Outgoing, Unreached, UrlRefused

pytestmark = [pytest.mark.anyio, pytest.mark.req("Z-6")]
SECRET = b"s" * 32
ABOUT = BeforeCompact(
    session_id="s", session_key="agent:builtin:main", tenant_id="default", agent_id="builtin", cause="threshold",
    instructions=None, first_kept="0a", entries=3, tokens_before=9_000, tokens_kept=2_000, max_summary_tokens=1_000,
    previous_summary=None, read_files=["a"], modified_files=[], messages=[{"role": "user", "content": "hello"}])


class Receiver(Outgoing):
    """The client of the hook and its scripted receiver."""

    def __init__(self, answer: OutboundResponse | Exception) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Mapping[str, str], bytes]] = []

    def check(self, url: str) -> None:
        assert url

    async def send(self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None,
                   max_bytes: int, timeout_s: float) -> OutboundResponse:
        assert (method, max_bytes, timeout_s) == ("POST", ANSWER_BYTES, 5.0)
        self.asked.append((url, headers, body or b""))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def hook(receiver: Receiver, *, required: bool = False) -> HttpCompactionHook:
    return HttpCompactionHook(CompactionHookSettings("https://h.example/x", SECRET, 5.0, required), receiver,
                              ManualClock(), lambda: "1")


async def test_the_hook_receives_the_entries_to_summarize_and_can_verify_the_sender() -> None:
    receiver = Receiver(OutboundResponse(204, b""))
    assert await hook(receiver).before_compact(ABOUT) is None
    ((url, headers, body),) = receiver.asked
    assert url == "https://h.example/x"
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    mac = hmac.digest(SECRET, signed, hashlib.sha256)
    assert headers["webhook-signature"] == "v1," + base64.b64encode(mac).decode()
    sent = msgspec.json.decode(body)
    assert sent["type"] == "session_before_compact"
    assert sent["data"]["messages"] == [{"role": "user", "content": "hello"}]
    assert sent["data"]["tokens_before"] == 9_000


@pytest.mark.parametrize(("body", "expected"), [
    (b"", None), (b"{}", None), (b'{"cancel": false}', None), (b'{"unheard": 1}', None),
    (b'{"cancel": true, "reason": "an  audit\\nruns"}', CompactionVeto("an audit runs")),
    (b'{"cancel": true}', CompactionVeto("it gave no reason")),
    (b'{"summary": "mine"}', Supply("mine")), (b'{"summary": ""}', Supply("")),
])
async def test_the_hook_may_return_these_decisions(body: bytes, expected: Any) -> None:
    assert await hook(Receiver(OutboundResponse(200, body))).before_compact(ABOUT) == expected


@pytest.mark.parametrize("answer", [
    OutboundResponse(500, b"oops"), OutboundResponse(302, b""), OutboundResponse(200, b"not json"),
    OutboundResponse(200, b'{"summary": 7}'),
    OutboundResponse(200, b"[" * 5_000), Unreached("Nobody answered."), UrlRefused("That leads inside."),
])
async def test_a_hook_that_does_not_answer_is_skipped_or_cancels_if_required(answer: Any) -> None:
    assert await hook(Receiver(answer)).before_compact(ABOUT) is None
    cancelled = await hook(Receiver(answer), required=True).before_compact(ABOUT)
    assert isinstance(cancelled, CompactionVeto)
    assert "did not answer" in cancelled.reason
