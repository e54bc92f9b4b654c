"""Closing a link by the gateway (W-2): a code and a reason that the runner can parse."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.gateway.link.intake import Closing, next_message, refused
from interlock.gateway.link.outflow import LinkClosed
from interlock.protocol.codes import Code
from interlock.protocol.refusals import LinkRefusal, read_reason

pytestmark = [pytest.mark.anyio, pytest.mark.req("W-2")]


def test_a_refusal_is_decoded_from_its_close() -> None:
    closing = refused(Code.UNAUTHORIZED, "the token was revoked")
    assert read_reason(closing.code, closing.sentence) == LinkRefusal(Code.UNAUTHORIZED, "the token was revoked")


async def message(**event: Any) -> bytes:
    async def receive() -> dict[str, Any]:
        return event

    return await next_message(receive)


async def test_a_text_message_is_bytes_and_the_links_end_an_exception() -> None:
    assert await message(type="websocket.receive", text="é") == "é".encode()
    assert await message(type="websocket.receive", text="") == b""
    with pytest.raises(LinkClosed):
        await message(type="websocket.disconnect", code=1006)


@pytest.mark.parametrize("event", [{"bytes": b"x"}, {"bytes": b"x", "text": None}, {}])
async def test_a_message_of_another_kind_closes_the_link(event: dict[str, Any]) -> None:
    with pytest.raises(Closing, match="text messages") as caught:
        await message(type="websocket.receive", **event)
    assert caught.value.code == 1003
