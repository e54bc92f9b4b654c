"""Parse updates of the Bot API into messages and presses. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from interlock.ports.chat_service import ButtonPress, ChatLimits, ChatMessage, FileWanted, Spot

if TYPE_CHECKING:
    from aiogram.types import Message, Update, User

Listening = Literal["mention", "all"]
LIMITS = ChatLimits(message_units=4_096, utf16=True, card_messages=3, threads=False)


def read_update(update: Update, me: User, listening: Listening) -> ChatMessage | ButtonPress | None:
    """Parse an update; None if it is not for the bot: other kinds of updates, other bots, a group's other messages."""
    press = update.callback_query
    if press is not None:
        card = press.message
        return ButtonPress(press.id, press.from_user.id, press.data or "",
                           None if card is None else Spot(card.chat.id), None if card is None else card.message_id)
    message = update.message
    if message is None or message.from_user is None or message.from_user.is_bot:
        return None
    direct = message.chat.type == "private"
    replied = message.reply_to_message
    to_me = replied is not None and replied.from_user is not None and replied.from_user.id == me.id
    text, named = _addressed(message.text or message.caption or "", me.username or "")
    files = _files(message)
    if not text.strip() and not files:
        return None
    if not direct and listening == "mention" and not (named or to_me):
        return None
    topic = message.message_thread_id if message.is_topic_message else None
    return ChatMessage(Spot(message.chat.id, topic), message.from_user.id, message.message_id, text, direct,
                None if direct else message.chat.title, replied.message_id if to_me and replied else None, files)


def move_of(update: Update) -> tuple[int, int] | None:
    """Return the id of a group before and after it became a supergroup; None for any other update."""
    message = update.message
    if message is None:
        return None
    if message.migrate_to_chat_id is not None:
        return message.chat.id, message.migrate_to_chat_id
    return None if message.migrate_from_chat_id is None else (message.migrate_from_chat_id, message.chat.id)


def _addressed(text: str, username: str) -> tuple[str, bool]:
    """Remove the bot's own name from a text: `/new@bot x` becomes `/new x`; a leading mention addresses the bot."""
    name = f"@{username}".lower()
    at = text.lower().find(name) if username else -1
    after = text[at + len(name):at + len(name) + 1]
    if at < 0 or after.isalnum() or after == "_":
        return text, False
    before, behind = text[:at], text[at + len(name):]
    if before.startswith("/") and " " not in before:
        return before + behind, True
    return (behind.lstrip(" ,:") if not before.strip() else text), True


def _files(message: Message) -> tuple[FileWanted, ...]:
    if message.photo:
        best = message.photo[-1]  # Telegram lists sizes of one picture, the largest last.
        return (FileWanted(best.file_id, best.file_size or 0, "image/jpeg", None),)
    found: list[FileWanted] = []
    for part, kind in ((message.document, "application/octet-stream"), (message.audio, "audio/mpeg"),
                       (message.video, "video/mp4"), (message.voice, "audio/ogg")):
        if part is not None:
            found.append(FileWanted(part.file_id, part.file_size or 0, part.mime_type or kind,
                                    getattr(part, "file_name", None)))
    return tuple(found)
