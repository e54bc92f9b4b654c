"""A message of a chat as the body that the gateway receives (R-4): whose chat it is, and which thread or topic."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.ports.chat_service import ChatMessage, Spot
from interlock.protocol.inbound import Attachment

pytestmark = pytest.mark.req("R-4", "O-12")


def message(**fields: Any) -> ChatMessage:
    return ChatMessage(**{"spot": Spot(-100, 7), "user_id": 5, "message_id": 9, "text": "hi", "direct": False,
                          "title": "Team", "answers": None, **fields})


def test_a_message_of_a_group_names_the_group_and_its_topic() -> None:
    body = message().body("bot", [Attachment(data="")])
    assert (body.channel, body.chat_type, body.account_id, body.group_id, body.peer) == (
        "telegram", "group", "bot", "-100", None)
    assert (body.topic_id, body.thread_id, body.sender, body.message_id, body.subject) == ("7", None, "5", "9", "Team")
    assert len(body.attachments) == 1


def test_a_direct_message_names_the_person() -> None:
    body = message(direct=True, spot=Spot(5), title=None).body("bot", [])
    assert (body.chat_type, body.peer, body.group_id, body.topic_id, body.thread_id) == (
        "direct", "5", None, None, None)


def test_a_thread_is_a_session_of_its_own_even_in_a_direct_chat() -> None:
    body = message(direct=True, in_thread=True, channel="slack", spot=Spot("D1", "17.3")).body("app", [])
    assert (body.thread_id, body.topic_id, body.channel) == ("17.3", None, "slack")


def test_the_same_message_delivered_twice_is_the_same_command() -> None:
    assert message().body("bot", []).idempotency_key == message(text="edited").body("bot", []).idempotency_key
    assert message().body("bot", []).idempotency_key != message(message_id=10).body("bot", []).idempotency_key
