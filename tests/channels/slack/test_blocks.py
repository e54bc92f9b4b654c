"""A message as Slack's blocks: shown whole, with nothing in it that Slack would expand or reject."""

from __future__ import annotations

import pytest

from interlock.channels.slack.blocks import PREVIEW_CHARS, SECTION_UNITS, message_blocks, preview
from interlock.ports.chat_service import Button


def texts(text: str) -> list[str]:
    return [block["text"]["text"] for block in message_blocks(text)]


@pytest.mark.req("H-4")
def test_a_short_text_is_one_expanded_section_of_plain_text() -> None:
    assert message_blocks("<!channel> *hi*") == [
        {"type": "section", "expand": True,
         "text": {"type": "plain_text", "text": "<!channel> *hi*", "emoji": False}}]


@pytest.mark.req("H-4")
def test_a_long_text_is_cut_at_line_ends_without_loss() -> None:
    lines = [f"line {number} " + "x" * 100 for number in range(60)]
    parts = texts("\n".join(lines))

    assert len(parts) > 1
    assert all(len(part) <= SECTION_UNITS for part in parts)
    assert "\n".join(parts) == "\n".join(lines)


def test_one_long_line_is_cut_by_slacks_units() -> None:
    parts = texts("😀" * SECTION_UNITS)

    assert "".join(parts) == "😀" * SECTION_UNITS
    assert {len(part.encode("utf-16-le")) // 2 <= SECTION_UNITS for part in parts} == {True}


def test_a_part_of_white_space_is_left_out_because_slack_rejects_it() -> None:
    assert texts("   ") == []
    assert texts("x" * SECTION_UNITS + "\n" + " " * 10) == ["x" * SECTION_UNITS]


def test_buttons_are_below_the_text_and_open_a_page_or_send_data() -> None:
    *_, actions = message_blocks("hi", [Button("Allow", "yes"), Button("Look", "", url="https://g.example")])

    allow, look = actions["elements"]
    assert (allow["value"], allow["action_id"], "url" in allow) == ("yes", "interlock-vote-0", False)
    assert (look["url"], look["action_id"], "value" in look) == ("https://g.example", "interlock-vote-1", False)


def test_a_notification_shows_the_first_line_and_expands_nothing() -> None:
    assert preview("\n<!channel> & more\nsecond") == "&lt;!channel&gt; &amp; more"
    assert len(preview("x" * 500)) == PREVIEW_CHARS
