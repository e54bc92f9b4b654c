"""Parse the envelopes of Socket Mode into messages and presses. Pure."""

from __future__ import annotations

import html
import re
from typing import Any, cast

import msgspec

from interlock.channels.slack.blocks import VOTE
from interlock.ports.chat_service import ButtonPress, ChatMessage, FileWanted, Spot

NAME = "slack"
_LINK = re.compile(r"<((?:https?://|mailto:)[^|>]+)(?:\|[^>]*)?>")


class Envelope(msgspec.Struct):
    """A message of Slack on the socket. `envelope_id` confirms it; "" for one that needs no confirmation."""

    type: str
    envelope_id: str = ""
    payload: dict[str, Any] = {}
    reason: str = ""


decode_envelope = msgspec.json.Decoder(Envelope).decode


def read_envelope(envelope: Envelope, bot_id: str, team_id: str = "") -> ChatMessage | ButtonPress | None:
    """Parse an envelope; None if it is not for the bot: other kinds, other bots, edits, the channel's other messages,
    and people of other workspaces than `team_id` in a shared channel, whose ids may be those of people of this one.
    """
    payload = envelope.payload
    if envelope.type == "interactive" and payload.get("type") == "block_actions":
        return _press(payload) if _is_of(team_id, _table(payload.get("user")), "team_id") else None
    event = _table(payload.get("event"))
    if envelope.type == "events_api" and _is_of(team_id, event, "user_team", "source_team", "team"):
        return _message(event, bot_id)
    return None


def _is_of(team_id: str, sender: dict[str, Any], *names: str) -> bool:
    """Return whether every workspace that a sender is stated to be of is this one; "" is any."""
    return not team_id or all(_text(sender, name) in ("", team_id) for name in names)


def _press(payload: dict[str, Any]) -> ButtonPress | None:
    actions = payload.get("actions")
    action = _table(cast("list[Any]", actions)[0]) if isinstance(actions, list) and actions else {}
    card = _table(payload.get("container"))
    user, channel, number = (_text(_table(payload.get("user")), "id"), _text(card, "channel_id"),
                             _text(card, "message_ts"))
    if not (user and channel and number and _text(action, "action_id").startswith(VOTE)):
        return None
    press_id = f"{channel}:{number}:{user}:{_text(action, 'action_ts')}"
    return ButtonPress(press_id, user, _text(action, "value"), Spot(channel, _text(card, "thread_ts") or None), number)


def _message(event: dict[str, Any], bot_id: str) -> ChatMessage | None:
    """In a direct chat every message is for the bot, in a channel those that mention it. A thread is a session."""
    direct = event.get("type") == "message" and event.get("channel_type") == "im"
    user, channel, number = _text(event, "user"), _text(event, "channel"), _text(event, "ts")
    if not (direct or event.get("type") == "app_mention") or not (user and channel and number):
        return None
    if event.get("bot_id") or user == bot_id or event.get("subtype") not in (None, "file_share"):
        return None
    thread = _text(event, "thread_ts")
    text, files = plain_words(_text(event, "text"), bot_id), _files(event)
    if not text and not files:
        return None
    return ChatMessage(Spot(channel, thread or number), user, number, text, direct, None, thread or None, files, NAME,
                       in_thread=True)


def plain_words(text: str, bot_id: str) -> str:
    """Return a message as its writer typed it: without the mention of the bot, links and `&<>` unescaped."""
    without = re.sub(rf"\s*<@{re.escape(bot_id)}(?:\|[^>]*)?>[ ,:]*", " ", text)
    return html.unescape(_LINK.sub(lambda found: found[1].removeprefix("mailto:"), without)).strip()


def _files(event: dict[str, Any]) -> tuple[FileWanted, ...]:
    files = event.get("files")
    tables = [_table(one) for one in cast("list[Any]", files)] if isinstance(files, list) else []
    return tuple(FileWanted(_text(one, "id"), 0, _text(one, "mimetype") or "application/octet-stream",
                            _text(one, "name") or None) for one in tables)


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(table: dict[str, Any], key: str) -> str:
    value = table.get(key)
    return value if isinstance(value, str) else ""
