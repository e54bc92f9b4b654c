"""A chat's message (R-4): accepted once by its own number, even if it is delivered several times."""

import pytest

from interlock.protocol.inbound import InboundBody
from interlock.sdk.requests.chats import receive
from sdk.requests.asked import body, line

pytestmark = pytest.mark.req("R-4", "M-1")
MESSAGE = InboundBody(channel="telegram", chat_type="direct", sender="ann", text="hi", message_id="7")


def test_a_message_is_its_own_idempotency_key() -> None:
    asked = receive(MESSAGE)
    assert line(asked) == "POST /v1/inbound"
    assert asked.with_key("fresh").key == MESSAGE.idempotency_key
    assert receive(MESSAGE, idempotency_key="own").key == "own"
    assert body(asked)["text"] == "hi"


def test_a_message_without_a_number_gets_a_new_key() -> None:
    asked = receive(InboundBody(channel="telegram", chat_type="direct", sender="ann"))
    assert asked.with_key("fresh").key == "fresh"
