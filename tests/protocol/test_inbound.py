"""Messages of chats (R-4): which of them are the same, and which content part a file becomes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.protocol.inbound import Attachment, InboundBody
from interlock.protocol.limits import MAX_CONTENT_PARTS

pytestmark = pytest.mark.req("R-4")


def message(**fields: Any) -> InboundBody:
    return msgspec.convert({"channel": "telegram", "chat_type": "direct", "sender": "ann", "message_id": "7", **fields},
                           InboundBody)


def test_a_message_without_an_id_of_its_chat_has_no_key_of_its_own() -> None:
    assert message(message_id=None).idempotency_key is None


@pytest.mark.parametrize("again", [{"channel": "Telegram"}, {"text": "edited"}, {"display_name": "Ann"},
                                   {"peer": "ann"}, {"group_id": "ignored in a direct chat"}])
def test_the_same_message_of_the_same_chat_has_the_same_key(again: dict[str, Any]) -> None:
    assert message(**again).idempotency_key == message().idempotency_key


@pytest.mark.parametrize("other", [
    {"channel": "slack"}, {"message_id": "8"}, {"sender": "bob"}, {"peer": "bob"}, {"account_id": "second"},
    {"thread_id": "1"}, {"topic_id": "1"}, {"chat_type": "group", "group_id": "ann"}, {"session_key": "main"},
])
def test_another_chat_or_number_is_another_message(other: dict[str, Any]) -> None:
    assert message(**other).idempotency_key != message().idempotency_key


def test_the_parts_of_a_key_are_separated() -> None:
    one = message(chat_type="group", group_id="a", thread_id="bc")
    assert one.idempotency_key != message(chat_type="group", group_id="ab", thread_id="c").idempotency_key


def test_in_a_group_the_sender_is_not_part_of_a_messages_key() -> None:
    assert message(chat_type="group", group_id="g").idempotency_key == message(
        chat_type="group", group_id="g", sender="bob").idempotency_key


@pytest.mark.parametrize(("media_type", "kind"), [
    ("image/png", "image"), ("audio/ogg", "audio"), ("video/mp4", "video"), ("text/plain", "file"), ("image", "image"),
    ("", "file"), ("IMAGE/PNG", "file"), ("imagery/x", "file"),
])
def test_a_file_becomes_the_part_that_its_media_type_names(media_type: str, kind: str) -> None:
    assert Attachment(data="", media_type=media_type).content_type == kind


@pytest.mark.parametrize("wrong", [
    {"channel": ""}, {"channel": "x" * 201}, {"sender": ""}, {"chat_type": "dm"}, {"sent_at": "now"},
    {"session_key": ""}, {"session_key": "x" * 513}, {"subject": "x" * 501},
    {"attachments": [{"data": ""}] * (MAX_CONTENT_PARTS + 1)}, {"attachments": [{"data": "", "url": "x"}]},
])
def test_a_body_beyond_its_bounds_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        message(**wrong)
