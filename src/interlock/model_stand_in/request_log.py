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
    """One request to a model: its headers in lower case, its body as it came, and what was read out of it."""

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
        """Keep a request and wake anyone who waits for one."""
        with self._arrived:
            self._requests.append(recorded)
            self._arrived.notify_all()

    def visit(self, page: str) -> None:
        """Keep that `GET /page/PAGE` was fetched."""
        with self._arrived:
            self._visits.append(page)

    def visited(self, page: str) -> bool:
        """Whether that page was fetched."""
        with self._arrived:
            return page in self._visits

    def contained(self, text: str) -> bool:
        """Whether a request contained this text, such as what a tool returned."""
        return any(text in json.dumps(one.body, ensure_ascii=False) for one in self.all())

    def all(self) -> list[RecordedRequest]:
        """Every request so far."""
        with self._arrived:
            return list(self._requests)

    def turns(self) -> list[RecordedRequest]:
        """The requests of turns, without those on the side."""
        return [one for one in self.all() if one.kind is RequestKind.TURN]

    def wait_for(self, found: Callable[[RecordedRequest], bool], timeout_seconds: float = 30.0) -> RecordedRequest:
        """The first request for which `found` is true, arrived already or within the time; else TimeoutError."""
        with self._arrived:
            self._arrived.wait_for(lambda: any(map(found, self._requests)), timeout_seconds)
            for one in self._requests:
                if found(one):
                    return one
        raise TimeoutError(f"no such request within {timeout_seconds} s")
