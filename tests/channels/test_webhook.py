"""A question is sent as one signed POST, and a failed delivery is reported (P-8)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from interlock.channels.webhook import WebhookChannel, read_secret, signature
from interlock.ports.channel import ApprovalNotice, NotAsked
from interlock.ports.outbound_http import OutboundResponse, Outgoing, Unreached, UrlRefused

pytestmark = pytest.mark.anyio
SECRET = bytes(range(24))
ASKING = ApprovalNotice(approval_id="apr_1", title="$ rm", digest="ab", input='{"command":"rm"}', expires_at="later",
                        agent_title="tidy up", agent_id="claude", runner_id="host", workspace="/w",
                        requested_by="user:ann",
                        lines="$ rm", is_cut=True)
AT_MS = 1_800_000_000_123


class Receiver(Outgoing):
    """Answers every request alike, and keeps what came."""

    def __init__(self, answer: int | Exception) -> None:
        self._answer = answer
        self.got: list[tuple[str, Mapping[str, str], bytes]] = []

    def check(self, url: str) -> None:
        return

    async def send(self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None,
                   max_bytes: int, timeout_s: float) -> OutboundResponse:
        self.got.append((f"{method} {url}", headers, body or b""))
        if isinstance(self._answer, Exception):
            raise self._answer
        return OutboundResponse(self._answer, b"")


@pytest.mark.req("P-8")
async def test_only_title_digest_and_input_are_sent_and_signed() -> None:
    receiver = Receiver(204)
    await WebhookChannel("https://hooks.example/x", SECRET, receiver).ask("dlv_1", AT_MS, ASKING)
    (line, headers, body), = receiver.got
    assert line == "POST https://hooks.example/x"
    assert msgspec.json.decode(body) == {
        "type": "approval.pending", "timestamp": "2027-01-15T08:00:00.123Z",
        "data": {"approval_id": "apr_1", "title": "$ rm", "digest": "ab", "input": '{"command":"rm"}',
                 "agent_title": "tidy up", "agent_id": "claude", "runner_id": "host", "workspace": "/w",
                 "requested_by": "user:ann", "lines": "$ rm", "is_cut": True, "expires_at": "later"}}
    assert headers["webhook-id"] == "dlv_1"
    assert headers["webhook-timestamp"] == "1800000000"
    assert headers["webhook-signature"] == signature(SECRET, "dlv_1", "1800000000", body)


@pytest.mark.req("P-8")
def test_the_signature_is_that_of_standard_webhooks() -> None:
    # The example of that specification's own documents.
    secret = read_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    assert signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body) == \
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.req("P-8")
@pytest.mark.parametrize(("answer", "final", "sentence"), [
    (500, False, "status 500"), (302, False, "status 302"), (404, False, "status 404"), (410, True, "status 410"),
    (Unreached("nobody answered"), False, "nobody answered"), (UrlRefused("an address inside"), True, "inside"),
])
async def test_a_failed_delivery_reports_its_reason_and_whether_it_is_permanent(
    answer: Any, final: bool, sentence: str
) -> None:
    with pytest.raises(NotAsked, match=sentence) as caught:
        await WebhookChannel("https://hooks.example/x", SECRET, Receiver(answer)).test("dlv_1", AT_MS)
    assert caught.value.final is final


@pytest.mark.req("P-8")
@pytest.mark.parametrize("text", ["", "whsec_%%", "whsec_" + base64.b64encode(b"short").decode()])
def test_a_weak_secret_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|bytes"):
        read_secret(text)
