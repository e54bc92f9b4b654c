"""Incoming messages from chats (R-4)."""

from __future__ import annotations

from interlock.protocol.api.messages import RECEIVE_MESSAGE
from interlock.protocol.inbound import InboundBody, Received
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.methods import SingleRequest
from interlock.sdk.requests.base import change


def receive(message: InboundBody, *, idempotency_key: str | None = None) -> RequestSpec[Received]:
    """Forward a chat's message: it becomes a command of the chat's session. One with a `message_id` is accepted once,
    however often it is delivered."""
    return change(RECEIVE_MESSAGE, body=message, key=idempotency_key or message.idempotency_key)


class ChatMethods:
    """Incoming messages from chats."""

    receive = SingleRequest(receive)
