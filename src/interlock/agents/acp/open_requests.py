"""The agent's requests that wait for a person, by their JSON-RPC id: an ambiguous id never gets a yes (A-5)."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from interlock.jsonrpc import RpcRequest

MAX_REPEATED_IDS = 256
"""Ids of two open requests at once, which are refused from then on; with more, every request is refused."""


class Waiting(NamedTuple):
    """A request, and the task that answers it."""

    request: RpcRequest
    task: asyncio.Task[None]


class OpenRequests:
    """Waiting requests, and the ids that can no longer be answered with a yes.

    An agent matches an answer to its request by the id alone. While two of its requests have one id, a yes for the
    first may be read as the answer to the second, so both are denied, and so is every later request with that id.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._repeated: set[str] = set()

    def add(self, request: RpcRequest, task: asyncio.Task[None]) -> None:
        """Store a request until it is removed, or its task is done."""
        waiting = self._waiting[_key(request.request_id)] = Waiting(request, task)
        task.add_done_callback(lambda _: self._remove(waiting))

    def take(self, request_id: int | str | float) -> Waiting | None:
        """Remove and return the request that waits under this id: it is about to be answered."""
        return self._waiting.pop(_key(request_id), None)

    def refuses(self, request_id: int | str | float) -> bool:
        """Return whether a new request under this id must be denied."""
        key = _key(request_id)
        if key in self._waiting:
            self._repeated.add(key)
        return key in self._repeated or len(self._repeated) > MAX_REPEATED_IDS

    def _remove(self, waiting: Waiting) -> None:
        key = _key(waiting.request.request_id)
        if self._waiting.get(key) is waiting:
            del self._waiting[key]


def _key(request_id: int | str | float) -> str:
    """Return an id as an agent in JavaScript may look it up: 1, 1.0 and "1" are the same property of an object."""
    return str(int(request_id)) if isinstance(request_id, float) and request_id.is_integer() else str(request_id)
