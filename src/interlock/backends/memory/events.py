"""Numbered streams in memory, whose beginning may be deleted (S-1, G-5)."""

from __future__ import annotations

from interlock.protocol.records import Event


class Streams:
    """Events by stream. A number is never reused, whatever is deleted."""

    def __init__(self) -> None:
        self._events: dict[str, list[Event]] = {}
        self._forgotten: dict[str, int] = {}

    def names(self) -> list[str]:
        """Return the names of all streams that an event was appended to, in order of their first one."""
        return list(self._events)

    def head(self, name: str) -> int:
        """Return the highest number that was assigned."""
        return self._forgotten.get(name, 0) + self.kept(name)

    def kept(self, name: str) -> int:
        """Return how many are still stored."""
        return len(self._events.get(name, ()))

    def add(self, event: Event) -> None:
        """Append."""
        self._events.setdefault(event.stream, []).append(event)

    def take_back(self, name: str) -> None:
        """Undo the last `add`."""
        self._events[name].pop()

    def after(self, name: str, after: int, limit: int) -> list[Event]:
        """Return up to `limit` stored events after a number."""
        start = max(0, after - self._forgotten.get(name, 0))
        return self._events.get(name, [])[start : start + limit]

    def newest_first(self, name: str) -> list[Event]:
        """Return all stored events, from the end."""
        return self._events.get(name, [])[::-1]

    def forget(self, name: str, count: int) -> None:
        """Delete this number of events from the beginning."""
        if count:
            del self._events[name][:count]
            self._forgotten[name] = self._forgotten.get(name, 0) + count
