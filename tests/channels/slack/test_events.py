"""Events of Slack, read as messages and presses (O-12)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.channels.slack.blocks import LIMITS, SECTION_UNITS, message_blocks, preview
from interlock.channels.slack.events import Envelope, plain_words, read_envelope
from interlock.ports.chat_service import Button, ButtonPress, ChatMessage, Spot

pytestmark = pytest.mark.req("O-12")
BOT = "UBOT"


def event(**fields: Any) -> Envelope:
    found = {"type": "message", "channel_type": "im", "user": "UANN", "text": "hello", "ts": "1.1", "channel": "D1"}
    return Envelope("events_api", "e1", {"event": {**found, **fields}})


@pytest.mark.req("R-1", "R-4")
def test_a_message_begins_a_thread_that_is_a_session() -> None:
    message = read_envelope(event(), BOT)
    assert message == ChatMessage(Spot("D1", "1.1"), "UANN", "1.1", "hello", True, None, None, (), "slack", True)
    assert isinstance(message, ChatMessage)
    body = message.body(BOT, [])
    assert (body.channel, body.chat_type, body.peer, body.thread_id, body.topic_id) == (
        "slack", "direct", "UANN", "1.1", None)
    again = read_envelope(event(ts="2.2", thread_ts="1.1"), BOT)
    assert isinstance(again, ChatMessage)
    assert (again.spot, again.answers) == (Spot("D1", "1.1"), "1.1")


def test_in_a_channel_only_mentions_are_for_the_bot() -> None:
    message = read_envelope(event(type="app_mention", channel_type="channel", channel="C1", text="<@UBOT> do it"), BOT)
    assert isinstance(message, ChatMessage)
    assert (message.text, message.direct, message.body(BOT, []).group_id) == ("do it", False, "C1")
    assert read_envelope(event(channel_type="channel", channel="C1"), BOT) is None


@pytest.mark.parametrize("fields", [
    {"bot_id": "B1"}, {"user": BOT}, {"subtype": "message_changed"}, {"subtype": "message_deleted"}, {"text": " "},
    {"user": None}, {"ts": 5}, {"channel": ""}])
def test_bots_edits_and_incomplete_events_are_ignored(fields: dict[str, Any]) -> None:
    assert read_envelope(event(**fields), BOT) is None


@pytest.mark.parametrize(("text", "plain"), [
    ("<@UBOT>: go", "go"), ("<@UBOT|interlock> go", "go"),
    ("go <https://a.example/x|a.example> on", "go https://a.example/x on"),
    ("a &lt; b &amp;&amp; c", "a < b && c"), ("<@UOTHER> look", "<@UOTHER> look")])
def test_a_text_is_what_its_author_typed(text: str, plain: str) -> None:
    assert plain_words(text, BOT) == plain


def press(**fields: Any) -> Envelope:
    return Envelope("interactive", "e1", {
        "type": "block_actions", "user": {"id": "UANN"},
        "actions": [{"action_id": "interlock-vote-0", "value": "g:apr_1:x", "action_ts": "9.9"}],
        "container": {"type": "message", "channel_id": "C1", "message_ts": "3.3", "thread_ts": "1.1"}, **fields})


def test_a_button_press_names_its_person_its_card_and_its_data() -> None:
    assert read_envelope(press(), BOT) == ButtonPress("C1:3.3:UANN:9.9", "UANN", "g:apr_1:x", Spot("C1", "1.1"), "3.3")


@pytest.mark.parametrize("fields", [
    {"type": "view_submission"}, {"actions": []}, {"actions": "x"}, {"user": {}}, {"container": {}},
    {"actions": [{"action_id": "of-another-app", "value": "g:apr_1:x"}]}])
def test_a_button_press_on_a_foreign_card_is_ignored(fields: dict[str, Any]) -> None:
    assert read_envelope(press(**fields), BOT) is None


@pytest.mark.req("P-3")
@pytest.mark.parametrize(("envelope", "passes"), [
    (press(user={"id": "UANN", "team_id": "T1"}), True), (press(user={"id": "UANN", "team_id": "T2"}), False),
    (press(), True), (event(team="T1"), True), (event(user_team="T2"), False), (event(source_team="T2"), False),
    (event(team="T2"), False), (event(), True)])
def test_a_person_of_another_workspace_differs_from_one_here_with_the_same_id(envelope: Envelope, passes: bool) -> None:
    assert (read_envelope(envelope, BOT, "T1") is not None) is passes
    assert read_envelope(envelope, BOT) is not None


@settings(max_examples=50)
@given(st.recursive(st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(
    st.sampled_from(["event", "type", "user", "actions", "container", "text", "ts", "files"]), inner)))
def test_no_payload_breaks_the_reader(payload: Any) -> None:
    for kind in ("events_api", "interactive", "slash_commands"):
        read_envelope(Envelope(kind, "e", payload if isinstance(payload, dict) else {"event": payload}), BOT)


@settings(max_examples=25)
@given(st.text(max_size=4_000) | st.integers(1, 9).map(lambda times: "😀\n" * times * 400))
def test_a_split_message_loses_only_line_ends(text: str) -> None:
    blocks = message_blocks(text, [Button("Allow", "g")])
    parts = [block["text"]["text"] for block in blocks[:-1]]
    assert all(0 < LIMITS.units(part) <= SECTION_UNITS for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_a_notification_mentions_no_one() -> None:
    assert preview("<!channel> & more\nsecond") == "&lt;!channel&gt; &amp; more"
