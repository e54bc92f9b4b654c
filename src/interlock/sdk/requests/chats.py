"""Requests on messages from chats (R-4)."""

from __future__ import annotations

from interlock.protocol.api.messages import RECEIVE_MESSAGE
from interlock.protocol.inbound import InboundBody, Received
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.methods import ApiResource, LinkT, SingleRequest
from interlock.sdk.requests.base import change


def receive(message: InboundBody, *, idempotency_key: str | None = None) -> RequestSpec[Received]:
    """Submit a chat's message: it becomes a task of the session that its chat names. A message with a `message_id` is
    accepted once, even if it is delivered several times."""
    return change(RECEIVE_MESSAGE, body=message, key=idempotency_key or message.idempotency_key)


class ChatMethods(ApiResource[LinkT]):
    """Messages from chats."""

    receive = SingleRequest(receive)
