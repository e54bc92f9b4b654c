"""The requests that the server received."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from .conversation import ModelPrompt

MAX_RECORDED = 10_000


class WireForm(StrEnum):
    """The wire form of a request."""

    ANTHROPIC = "anthropic"
    CHAT = "chat"
    RESPONSES = "responses"
    GEMINI = "gemini"


class RequestKind(StrEnum):
    """What a request was for: a turn, or a title or summary on the side."""

    TURN = "turn"
    SIDE = "side"


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request to a model: its headers in lower case, its body unchanged, and its parsed form."""

    provider: WireForm
    kind: RequestKind
    headers: dict[str, str]
    body: dict[str, Any]
    asked: ModelPrompt


class Recording:
    """The last `MAX_RECORDED` requests in order of arrival: the server's thread writes, others read."""

    def __init__(self) -> None:
        self._requests: deque[RecordedRequest] = deque(maxlen=MAX_RECORDED)
        self._visits: deque[str] = deque(maxlen=MAX_RECORDED)
        self._arrived = threading.Condition()

    def add(self, recorded: RecordedRequest) -> None:
        """Store a request and wake the tasks that wait for one."""
        with self._arrived:
            self._requests.append(recorded)
            self._arrived.notify_all()

    def visit(self, page: str) -> None:
        """Note that `GET /page/PAGE` was fetched."""
        with self._arrived:
            self._visits.append(page)

    def visited(self, page: str) -> bool:
        """Return whether that page was fetched."""
        with self._arrived:
            return page in self._visits

    def contained(self, text: str) -> bool:
        """Return whether a request contained this text, such as a tool's result."""
        return any(text in json.dumps(one.body, ensure_ascii=False) for one in self.all())

    def all(self) -> list[RecordedRequest]:
        """Return every request so far."""
        with self._arrived:
            return list(self._requests)

    def turns(self) -> list[RecordedRequest]:
        """Return the requests of turns, without side requests."""
        return [one for one in self.all() if one.kind is RequestKind.TURN]

    def wait_for(self, found: Callable[[RecordedRequest], bool], timeout_seconds: float = 30.0) -> RecordedRequest:
        """Return the first request for which `found` is true, received already or within the time. Raises
        TimeoutError.
        """
        with self._arrived:
            self._arrived.wait_for(lambda: any(map(found, self._requests)), timeout_seconds)
            for one in self._requests:
                if found(one):
                    return one
        raise TimeoutError(f"no such request within {timeout_seconds} s")
