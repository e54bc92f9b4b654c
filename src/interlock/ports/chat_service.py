"""A chat service in both directions: cards with buttons and replies are sent, messages and button presses received
(O-12, O-13).

Spots, messages and people are identified by the service's own ids: numbers for Telegram, texts for Slack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from interlock.protocol.inbound import Attachment, InboundBody

Id = int | str


class Spot(NamedTuple):
    """A chat and, if present, its topic or thread."""

    chat_id: Id
    topic_id: Id | None = None


class FileWanted(NamedTuple):
    """A file of a message, which is fetched separately. `size` in bytes, 0 if unknown."""

    file_id: str
    size: int
    media_type: str
    name: str | None


class ChatMessage(NamedTuple):
    """A person's message."""

    spot: Spot
    user_id: Id
    message_id: Id
    text: str
    direct: bool
    title: str | None
    """The name of a shared chat."""
    answers: Id | None
    """The bot's own message that this one replies to."""
    files: tuple[FileWanted, ...] = ()
    channel: str = "telegram"
    in_thread: bool = False
    """Whether the spot's topic is a thread, which has a session of its own even in a direct chat."""
    first_chat_id: Id | None = None
    """The id that its chat had before it moved, which still names its session; None if it has not moved."""

    def body(self, account_id: str, attachments: list[Attachment]) -> InboundBody:
        """Return the message as the body of `POST /v1/inbound` (R-4)."""
        chat, topic, user = str(self.first_chat_id or self.spot.chat_id), self.spot.topic_id, str(self.user_id)
        # A chat that has moved numbers its messages from the start.
        number = str(self.message_id) if self.first_chat_id is None else f"{self.spot.chat_id}:{self.message_id}"
        return InboundBody(
            channel=self.channel, chat_type="direct" if self.direct else "group", account_id=account_id,
            peer=user if self.direct else None, group_id=None if self.direct else chat,
            topic_id=None if topic is None or self.in_thread else str(topic),
            thread_id=str(topic) if topic is not None and self.in_thread else None, sender=user, text=self.text,
            attachments=attachments, message_id=number, subject=self.title,
        )


class ButtonPress(NamedTuple):
    """A press of a button. `spot` and `message_id` are the card's; None if the service does not state them."""

    press_id: str
    user_id: Id
    data: str
    spot: Spot | None = None
    message_id: Id | None = None


class Button(NamedTuple):
    """A button: its label, and either the data that a press sends or the URL that it opens."""

    label: str
    data: str
    url: str | None = None


class ChatLimits(NamedTuple):
    """What one message of a service holds, and what its cards can do."""

    message_units: int
    """The longest text of a message, in UTF-16 units if `utf16`, otherwise in characters."""
    utf16: bool
    card_messages: int
    """Messages that one approval's card may span; a longer request is shown in part, with a link."""
    threads: bool
    """Whether the cards of one session are collected in a thread."""

    def units(self, text: str) -> int:
        """Return the length of a text as the service counts it."""
        return len(text) + (sum(ord(char) > 0xFFFF for char in text) if self.utf16 else 0)


class ChatRefused(Exception):
    """Raised if the service rejects the request permanently; the text is one sentence."""


class BotRejected(ChatRefused):
    """Raised if the service rejects the bot's credentials, and so every request until the bot starts with valid
    ones."""


class ChatMoves(NamedTuple):
    """Chats whose id has changed, each with the id before and after; `save` makes them durable."""

    pairs: list[tuple[Id, Id]]
    save: Callable[[], None]

    def current(self, chat_id: Id) -> Id:
        """Return the id that a chat has now."""
        return next((after for before, after in self.pairs if before == chat_id), chat_id)

    def first(self, chat_id: Id) -> Id | None:
        """Return the id that a chat had before it moved, or None if it has not moved."""
        return next((before for before, after in self.pairs if after == chat_id), None)

    def add(self, before: Id, after: Id) -> None:
        """Note that a chat has moved, durably. Raises OSError."""
        if (before, after) not in self.pairs:
            self.pairs.append((before, after))
            self.save()


class ChatService(Protocol):
    """Guarantees: each method waits for as long as the service requires, and retries while the service is unreachable,
    so it ends with a result or with ChatRefused, which is BotRejected if the credentials are not valid. Calls for
    several chats do not wait for each other. A message is sent at least once: if the reply was lost, the message is
    sent again. The result of `receive` is confirmed to the service by the next `receive`, so it is received again after
    a crash before that."""

    name: str
    """The channel part of its sessions' keys, such as `telegram`."""
    limits: ChatLimits

    def keep_moves(self, moves: ChatMoves) -> None:
        """Use these moves, and add further ones, if a chat of the service can get another id."""
        return

    async def connect(self) -> str:
        """Log in; returns the bot's account. Raises BotRejected."""
        ...

    async def receive(self) -> list[ChatMessage | ButtonPress]:
        """Confirm the previous batch, wait for the next one and return it. Raises ChatRefused."""
        ...

    async def open_chat(self, chat_id: Id) -> Id:
        """Return the id of a chat as its messages state it, and open the direct chat if `chat_id` is a person's. Raises
        ChatRefused."""
        ...

    async def send(self, spot: Spot, text: str, *, answers: Id | None = None, buttons: Sequence[Button] = ()) -> Id:
        """Send a message within the limits; returns its id. Raises ChatRefused."""
        ...

    async def edit(self, spot: Spot, message_id: Id, text: str) -> None:
        """Replace a message's text and remove its buttons. Does nothing if the message was deleted or has this text
        already. Raises BotRejected."""
        ...

    async def show_typing(self, spot: Spot) -> None:
        """Show that a reply is being written; a failure has no consequence."""
        ...

    async def answer_press(self, press: ButtonPress, text: str) -> None:
        """Show a person the outcome of their press; a press that is too old is passed over."""
        ...

    async def fetch(self, wanted: FileWanted, limit_bytes: int) -> bytes | None:
        """Fetch a file; None if it is larger than `limit_bytes`. Raises ChatRefused."""
        ...

    async def close(self) -> None:
        """Close its connections."""
        ...
