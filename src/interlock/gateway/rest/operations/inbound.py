"""The operation for messages from chats (R-4)."""

from __future__ import annotations

from collections.abc import Awaitable

from starlette.types import ASGIApp

from interlock.engine.chats import InboundMessage
from interlock.gateway.rest.answers import encode, raw_answer
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.protocol.api import messages as api
from interlock.protocol.inbound import Attachment, InboundBody, Received
from interlock.protocol.records import IdempotencyRecord
from interlock.session.chat.chat_route import Chat


async def arrive(call: ApiRequest) -> ASGIApp:
    """POST /inbound."""
    memory, body = call.memory, call.body
    assert memory is not None
    assert isinstance(body, InboundBody)

    def remember(arrived: Received) -> IdempotencyRecord:
        location = {"Location": f"/v1/commands/{arrived.command_id}"} if arrived.command_id else {}
        return memory.keep(202, encode(arrived), location, arrived.command_id)

    async with call.front.access.quotas.counted(call.principal):
        arrived = await call.front.desk.chats.arrive(call.principal, _message(body), remember)
    answer = memory.record or remember(arrived)
    return raw_answer(answer.body, answer.status, answer.headers)


def seek(call: ApiRequest) -> Awaitable[None] | None:
    """Find the gateway of a message's session while its stored response is read."""
    return call.front.desk.chats.seek(call.principal, _message(call.body)) if call.guess else None


def _message(body: InboundBody) -> InboundMessage:
    # In a direct chat, the sender is the peer.
    peer = body.peer or (body.sender if body.chat_type == "direct" else None)
    chat = Chat(body.channel, body.chat_type, body.account_id, peer, body.group_id, body.thread_id, body.topic_id,
                body.parent_peer, body.guild_id, body.team_id)
    described = {"subject": body.subject, "room": body.room, "space": body.space, "displayName": body.display_name}
    return InboundMessage(chat, body.sender, body.text, [_part(one) for one in body.attachments], body.idempotency_key,
                          {name: text for name, text in described.items() if text}, body.session_key)


def _part(attachment: Attachment) -> dict[str, object]:
    value = {"encoding": "base64", "data": attachment.data, "media_type": attachment.media_type,
             **({"name": attachment.name} if attachment.name else {})}
    return {"contentType": attachment.content_type, "value": value}


HANDLERS: tuple[Handler, ...] = (
    Handler(api.RECEIVE_MESSAGE, arrive, ahead=seek),
)
