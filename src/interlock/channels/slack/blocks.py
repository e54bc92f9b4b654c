"""A message as Slack's blocks. Pure.

Texts are `plain_text`, in which Slack neither expands mentions nor formats anything, and sections are always expanded:
text that Slack folds under "see more" would not be shown whole (H-4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.ports.chat_service import Button, ChatLimits

SECTION_UNITS = 3_000
"""Slack's limit of the text of one section."""
LIMITS = ChatLimits(message_units=9_000, utf16=True, card_messages=1, threads=True)
"""Slack states no limit for all blocks of a message, and rejects them from about 13,000 characters."""
PREVIEW_CHARS = 150
"""Characters of the first line that a notification shows."""
VOTE = "interlock-vote"
"""Prefix of the action ids of our buttons."""


def message_blocks(text: str, buttons: Sequence[Button] = ()) -> list[dict[str, Any]]:
    """Return the blocks of a message: its text in sections, then its buttons."""
    blocks: list[dict[str, Any]] = [{"type": "section", "expand": True, "text": _plain(part)} for part in _parts(text)]
    if buttons:
        blocks.append({"type": "actions", "elements": [_element(one, at) for at, one in enumerate(buttons)]})
    return blocks


def preview(text: str) -> str:
    """Return the text of a message's notification: its first line, with nothing that Slack would expand."""
    line = text.strip().split("\n", 1)[0][:PREVIEW_CHARS]
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _element(button: Button, at: int) -> dict[str, Any]:
    element: dict[str, Any] = {"type": "button", "text": _plain(button.label), "action_id": f"{VOTE}-{at}"}
    return {**element, "url": button.url} if button.url is not None else {**element, "value": button.data}


def _parts(text: str) -> list[str]:
    """Cut a text into sections, at the end of a line if one is near enough. Slack rejects blank sections, so parts of
    white space alone are dropped."""
    parts: list[str] = []
    rest = text
    while LIMITS.units(rest) > SECTION_UNITS:
        head = rest[:SECTION_UNITS]
        while LIMITS.units(head) > SECTION_UNITS:
            head = head[:-1]
        cut = head.rfind("\n")
        cut = cut if cut >= len(head) // 2 else len(head)
        parts.append(rest[:cut])
        rest = rest[cut:].removeprefix("\n")
    return [part for part in (*parts, rest) if part.strip()]
