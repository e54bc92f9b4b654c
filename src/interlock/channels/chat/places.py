"""What must not be forgotten over a restart: which messages are on their way to the gateway, who waits for which
command, how far each session was sent, what waits for which chat, and which messages ask for what. One small file,
replaced whole."""

from __future__ import annotations

from pathlib import Path

import msgspec

from interlock.durable_files import replace_file
from interlock.ports.chat_service import ChatMessage, Id, Spot

MAX_ASKED = 1_000
"""Questions that are remembered; the oldest are forgotten first, those that still wait for a chat last, and then are
not marked as decided."""


MAX_THREADS = 1_000
"""Threads of sessions that are remembered; the oldest are forgotten first, and a session then gets another one."""
MAX_UNDELIVERED = 100
"""Approvals that could not be shown which are remembered by id; the oldest are forgotten first."""
MAX_SESSIONS = 1_000
"""Sessions of which it is known how far they were sent; the oldest of those where nothing is awaited are forgotten
first, and are read from their beginning when they continue."""


class Awaited(msgspec.Struct):
    """A command whose replies are sent to a spot. `prompt_id` and `turn_id` are the last ones in its frames."""

    spot: Spot
    message_id: Id
    prompt_id: str = ""
    turn_id: str = ""


class FollowedSession(msgspec.Struct):
    """A followed session: the cursor after what was sent of it, and its awaited commands."""

    since: str | None = None
    commands: dict[str, Awaited] = {}
    known: list[str] = []
    """Codes of notices that were sent here."""


class AskedQuestion(msgspec.Struct):
    """A question as shown in chats."""

    title: str
    messages: list[tuple[Spot, Id]] = []
    chats: list[Id] = []
    """The configured chats that have a message of it."""
    waiting: list[Id] = []
    """The configured chats that have yet to receive one."""
    outcome: str | None = None
    """The text that replaces its messages, once it is decided."""


class UnsentReply(msgspec.Struct):
    """A message that waits for its chat; the first `sent` of its pieces were sent."""

    spot: Spot
    text: str
    answers: Id | None = None
    sent: int = 0


class QueuedMessage(msgspec.Struct):
    """A message that was received and is not known to be at the gateway. `fetched`: its files have been fetched, so
    that the gateway may have it."""

    message: ChatMessage
    fetched: bool = False

    def is_for(self, message: ChatMessage) -> bool:
        """Return whether it is the same message, received once more."""
        return (self.message.spot.chat_id, self.message.message_id) == (message.spot.chat_id, message.message_id)


class Places(msgspec.Struct):
    """The complete state. `feed` is the cursor of the tenant's feed."""

    sessions: dict[str, FollowedSession] = {}
    asked: dict[str, AskedQuestion] = {}
    feed: str | None = None
    threads: dict[str, Id] = {}
    """By `chat session`, the message that its thread hangs on, for a service whose cards are collected in threads."""
    undelivered: dict[str, str] = {}
    """Pending approvals that could not be shown in any chat, each with the reason."""
    ended: str | None = None
    """Why the service ended the bridge, such as a token that was revoked; None once it has connected again."""
    moved: list[tuple[Id, Id]] = []
    """Chats whose id has changed, each with the id before and after."""
    unsent: list[UnsentReply] = []
    """Messages that wait for their chats, in order per chat."""
    inbox: list[QueuedMessage] = []
    """Messages that wait for the gateway, those of one chat in their order."""


class PlacesFile:
    """The file, mode 0600; written aside, flushed and renamed."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises OSError if it cannot be read, ValueError if it is invalid."""
        self._path = path
        try:
            self.now = msgspec.json.decode(path.read_bytes(), type=Places)
        except FileNotFoundError:
            self.now = Places()
        except msgspec.DecodeError as error:
            raise ValueError(f"{path} is not what was written there: {error}. Move it away to begin again.") from None

    def save(self) -> None:
        """Make it durable. Raises OSError."""
        while len(self.now.asked) > MAX_ASKED:
            oldest = next(iter(self.now.asked))
            del self.now.asked[next((name for name, one in self.now.asked.items() if not one.waiting), oldest)]
        for kept, most in ((self.now.threads, MAX_THREADS), (self.now.undelivered, MAX_UNDELIVERED)):
            while len(kept) > most:
                del kept[next(iter(kept))]
        idle = [name for name, kept in self.now.sessions.items() if not kept.commands]
        for name in idle[:max(0, len(self.now.sessions) - MAX_SESSIONS)]:
            del self.now.sessions[name]
        replace_file(self._path, msgspec.json.encode(self.now))
