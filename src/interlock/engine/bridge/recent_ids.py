"""The last message ids of a session: a frame that comes again under another seq is applied once (section 2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from interlock.protocol.limits import RECENT_MESSAGE_IDS

UUID_CHARS, UUID_BYTES = 36, 16


class RecentIds:
    """The ids of the last RECENT_MESSAGE_IDS messages."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._order: deque[str | bytes] = deque(map(_short, ids))
        self._known = set(self._order)

    def seen(self, message_id: str) -> bool:
        """Remember the id; tell whether it was known."""
        short = _short(message_id)
        if short in self._known:
            return True
        self._known.add(short)
        self._order.append(short)
        if len(self._order) > RECENT_MESSAGE_IDS:
            self._known.discard(self._order.popleft())
        return False

    def listed(self) -> list[str]:
        """Return the ids, oldest first. A UUID is returned in its usual form, whatever its case was."""
        return [_long(one) for one in self._order]


def _short(message_id: str) -> str | bytes:
    """A UUID as its 16 bytes: every lane in memory holds thousands of them. What is written otherwise stays itself."""
    if len(message_id) != UUID_CHARS or message_id[8:24:5] != "----":
        return message_id
    try:
        short = bytes.fromhex(message_id.replace("-", ""))
    except ValueError:
        return message_id
    return short if len(short) == UUID_BYTES else message_id


def _long(short: str | bytes) -> str:
    if isinstance(short, str):
        return short
    digits = short.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
