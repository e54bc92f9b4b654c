"""Messages received from a chat and sent to it: the pure part of the Telegram channel."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.channels.chat.messages import (
    DIGEST_SHOWN,
    SHOWN_DENIALS,
    buttons,
    counted,
    decided,
    ending,
    pieces,
    read_press,
)
from interlock.channels.chat.question import question
from interlock.channels.telegram.updates import LIMITS, read_update
from interlock.ports.chat_service import ButtonPress, ChatMessage, FileWanted, Spot
from interlock.protocol.resources import Actor, Approval, Command, Denial, Failure, Notice, Target, Vote
from lazily import lazily

telegram = lazily("aiogram.types")


class Me(NamedTuple):
    """The bot as `getMe` describes it."""

    id: int = 12345
    username: str = "interlock_bot"


ME = Me()
ANNA = {"id": 7, "is_bot": False, "first_name": "Anna"}


def update(text: str = "hello", chat: dict[str, Any] | None = None, **fields: Any) -> telegram.Update:
    message = {"message_id": 5, "date": 1_800_000_000, "chat": chat or {"id": 7, "type": "private"}, "from": ANNA,
               "text": text, **fields}
    return telegram.Update.model_validate({"update_id": 1, "message": message})


GROUP = {"id": -100, "type": "supergroup", "title": "The team"}


@pytest.mark.req("R-4")
def test_a_direct_message_comes_from_its_peer() -> None:
    received = read_update(update(), ME, "mention")
    assert received == ChatMessage(Spot(7), 7, 5, "hello", True, None, None)
    assert isinstance(received, ChatMessage)
    body = received.body("interlock_bot", [])
    assert (body.channel, body.chat_type, body.peer, body.sender) == ("telegram", "direct", "7", "7")
    assert body.group_id is None
    assert body.idempotency_key is not None


@pytest.mark.req("R-1", "R-4")
def test_a_topic_of_a_group_is_its_own_place() -> None:
    received = read_update(update("@interlock_bot, go on", GROUP, message_thread_id=9, is_topic_message=True), ME,
                           "mention")
    assert isinstance(received, ChatMessage)
    assert (received.spot, received.text, received.title) == (Spot(-100, 9), "go on", "The team")
    body = received.body("interlock_bot", [])
    assert (body.chat_type, body.group_id, body.topic_id, body.subject) == ("group", "-100", "9", "The team")


@pytest.mark.parametrize(("text", "listening", "expected"), [
    ("just talk", "mention", None), ("just talk", "all", "just talk"), ("/new@interlock_bot", "mention", "/new"),
    ("/new@interlock_bot opus", "mention", "/new opus"), ("@Interlock_Bot do it", "mention", "do it"),
    ("ask @interlock_bot about it", "mention", "ask @interlock_bot about it"),
    ("@interlock_bots do it", "mention", None), ("/new@another_bot", "mention", None)])
def test_group_messages_count_only_if_the_bot_is_mentioned(text: str, listening: Any, expected: str | None) -> None:
    received = read_update(update(text, GROUP), ME, listening)
    assert (received.text if isinstance(received, ChatMessage) else None) == expected


def test_a_reply_to_the_bot_is_for_the_bot_and_quotes_its_message() -> None:
    earlier = {"message_id": 3, "date": 1_800_000_000, "chat": GROUP, "text": "?",
               "from": {"id": ME.id, "is_bot": True, "first_name": "Interlock"}}
    received = read_update(update("blue", GROUP, reply_to_message=earlier), ME, "mention")
    assert isinstance(received, ChatMessage)
    assert received.answers == 3


@pytest.mark.parametrize("fields", [
    {"from": {"id": 8, "is_bot": True, "first_name": "Other"}}, {"text": "   "}, {"text": None}])
def test_messages_of_bots_and_empty_ones_are_ignored(fields: dict[str, Any]) -> None:
    assert read_update(update(**fields), ME, "all") is None
    assert read_update(telegram.Update(update_id=1), ME, "all") is None


def test_a_picture_has_its_largest_size_and_a_file_its_name() -> None:
    photo = [{"file_id": name, "file_unique_id": name, "width": 1, "height": 1, "file_size": size}
             for name, size in (("small", 10), ("large", 99))]
    received = read_update(update(text=None, caption="look", photo=photo), ME, "mention")  # type: ignore[arg-type]
    assert isinstance(received, ChatMessage)
    assert (received.text, received.files) == ("look", (FileWanted("large", 99, "image/jpeg", None),))
    document = {"file_id": "d", "file_unique_id": "d", "file_name": "a.pdf", "mime_type": "application/pdf"}
    received = read_update(update(text=None, document=document), ME, "mention")  # type: ignore[arg-type]
    assert isinstance(received, ChatMessage)
    assert received.files == (FileWanted("d", 0, "application/pdf", "a.pdf"),)


def test_a_button_press_is_read_with_its_data() -> None:
    press = {"id": "p1", "from": ANNA, "chat_instance": "1", "data": "g:apr_1:abc"}
    read = read_update(telegram.Update.model_validate({"update_id": 1, "callback_query": press}), ME, "mention")
    assert read == ButtonPress("p1", 7, "g:apr_1:abc")


@given(st.text(max_size=300), st.integers(2, 40))
def test_pieces_fit_and_add_up_to_the_text(text: str, limit: int) -> None:
    cut = pieces(text, LIMITS._replace(message_units=limit))
    assert all(0 < LIMITS.units(piece) <= limit for piece in cut)
    assert "".join("".join(cut).split()) == "".join(text.split())


def test_a_cut_prefers_a_paragraph_to_a_line_to_a_word() -> None:
    assert pieces("one two\n\nthree four", LIMITS._replace(message_units=12)) == ["one two", "three four"]
    assert pieces("one two\nthree four", LIMITS._replace(message_units=12)) == ["one two", "three four"]
    assert pieces("one two three", LIMITS._replace(message_units=10)) == ["one two", "three"]
    assert pieces("x" * 25, LIMITS._replace(message_units=10)) == ["x" * 10, "x" * 10, "x" * 5]
    assert pieces("😀" * 3, LIMITS._replace(message_units=4)) == ["😀😀", "😀"]
    assert pieces("  \n ", LIMITS) == []


def approval(**fields: Any) -> Approval:
    shown = {"input": msgspec.Raw(b"{}"), **fields}
    digest = hashlib.sha256(bytes(shown.get("subject", shown["input"]))).hexdigest()
    return Approval(**{
        "id": "apr_1", "tenant_id": "default", "door": "tool", "state": "pending", "created_at": "t", "rule": "r",
        "expires_at": "later", "title": "rm -r x", "agent_id": "shell", "session_id": "s1", "digest": digest, **shown})


@pytest.mark.req("P-2", "P-8")
def test_a_question_shows_title_digest_and_input_and_names_its_buttons_decisions() -> None:
    held = approval(required=2, input=msgspec.Raw(b'{"command": "rm -r x"}'))
    (asked,) = question(held, LIMITS, str).messages
    assert "│ $ rm -r x" in asked
    assert f"sha256 {held.digest[:DIGEST_SHOWN]}…" in asked
    assert "needs 2 yes votes" in asked
    allow, deny = buttons(approval())
    assert read_press(allow.data) == ("grant", "apr_1", approval().digest[:DIGEST_SHOWN], False)
    assert read_press(deny.data) == ("deny", "apr_1", approval().digest[:DIGEST_SHOWN], False)
    longest = buttons(approval(id="apr_" + "0" * 26))[0]
    assert len(longest.data.encode()) <= 64  # The Bot API takes no more.


@pytest.mark.req("P-8", "A-9")
def test_a_button_that_grants_every_described_call_of_a_kind_names_its_scope() -> None:
    asked = question(approval(), LIMITS, str, kind="execute")
    assert [button.label for button in asked.buttons] == ["Allow", "Allow this kind", "Deny"]
    assert "allows every call of the kind execute that this agent describes in this session" in asked.messages[-1]
    pressed = read_press(asked.buttons[1].data)
    assert pressed == ("grant", "apr_1", approval().digest[:DIGEST_SHOWN], True)
    assert "Allow this kind" not in [button.label for button in question(approval(), LIMITS, str).buttons]


@pytest.mark.req("P-4", "C-8")
def test_text_answers_and_signatures_have_no_buttons() -> None:
    assert buttons(approval(signed=True)) == []
    assert buttons(approval(kind="question")) == []
    assert "Reply to this message" in question(approval(kind="question"), LIMITS, str).messages[-1]


@pytest.mark.parametrize("data", ["", "g", "g:apr_1", "x:apr_1:" + "a" * 16, "g:apr_1:short", "g:a:b:c"])
def test_a_foreign_button_press_is_ignored(data: str) -> None:
    assert read_press(data) is None


def test_the_outcome_of_a_question_is_shown() -> None:
    assert decided(approval(state="consumed", decided_by="user:anna"), "rm") == "✅ rm\nallowed by user:anna"
    assert decided(approval(state="denied", decided_by="user:bo"), "rm") == "⛔ rm\ndenied by user:bo"
    assert decided(approval(state="expired"), "rm") == "▫️ rm\nnot answered in time"
    votes = [Vote(by="user:a", at="t", decision="grant", method="acl"),
             Vote(by="user:b", at="t", decision="grant", method="acl", withdrawn_at="t")]
    assert counted(approval(required=2, votes=votes)) == \
        "Your vote counts: 1 of 2 yes votes; waiting for another approver."
    assert (counted(approval(state="granted")), counted(approval(state="denied"))) == ("Allowed.", "Denied.")


def command(**fields: Any) -> Command:
    return Command(**{"id": "cmd_1", "created_at": "t", "updated_at": "t", "tenant_id": "default",
                      "actor": Actor(type="user", id="a"), "type": "execute", "target": Target(), "state": "succeeded",
                      "timeout_ms": 1, **fields})


@pytest.mark.req("Y-5")
def test_an_end_names_the_denied_call_the_decider_and_the_reason() -> None:
    denials = [Denial(tool_name="shell", title="$ rm x", by="policy:no rm", reason="It deletes.", at="t"),
               *[Denial(tool_name="shell", title=f"$ x {n}", by="user:ann", at="t") for n in range(SHOWN_DENIALS)]]
    rows = (ending(command(denials=denials)) or "").splitlines()
    assert rows[0] == '⛔ not run: $ rm x, denied by the policy rule "no rm": It deletes.'
    assert rows[-1] == "⛔ not run: 1 more"
    assert len(rows) == SHOWN_DENIALS + 1


@pytest.mark.req("D-4")
def test_an_end_is_shown_unless_the_replies_show_it() -> None:
    assert ending(command()) is None
    lost = Notice(code="Truncated", message="3 frames of output were lost.")
    assert ending(command(notices=[lost])) == "⚠️ 3 frames of output were lost."
    failed = command(state="failed", error=Failure(code="AgentLost", message="The agent is gone."))
    assert ending(failed) == "✖️ It failed: The agent is gone."
    assert ending(command(state="canceled", error=Failure(code="Canceled", message="x"))) == "✖️ Stopped."
    assert ending(command(state="rejected")) == "✖️ Not run: it was not allowed."
