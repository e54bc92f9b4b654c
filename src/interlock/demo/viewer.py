"""A viewer as any other: it follows a session over server-sent events, and resumes by its cursor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from interlock.cli.gateway_link import GatewayLink
from interlock.cli.sse import SseEvent, SseStream, StreamResumed
from interlock.demo.stream_view import StreamView
from interlock.protocol.api.sessions import GET_FRAMES

PAGE = 500


class DemoViewer:
    """Keeps a reading up to date, and wakes who waits for something in it."""

    def __init__(self, link: GatewayLink, session_id: str) -> None:
        self._link = link
        self._path = GET_FRAMES.at(session_id)
        self._changed = asyncio.Condition()
        self.reading = StreamView()
        self.resumed = 0
        """Times that the stream itself broke and was taken up again."""

    async def follow(self) -> None:
        """Read until cancelled. Raises Trouble."""
        async for heard in SseStream(self._link, self._path):
            if isinstance(heard, StreamResumed):
                self.resumed += 1
            if isinstance(heard, SseEvent):
                self.reading.take(heard.data)
                async with self._changed:
                    self._changed.notify_all()

    async def until(self, seen: Callable[[StreamView], bool]) -> None:
        """Wait until the reading fits."""
        async with self._changed:
            await self._changed.wait_for(lambda: seen(self.reading))

    async def fetch(self) -> StreamView:
        """Read the session's history afresh, page by page. Raises Trouble."""
        history = StreamView()
        cursor: str | None = None
        while True:
            params = {"limit": str(PAGE), **({"since": cursor} if cursor else {})}
            page = msgspec.json.decode(await self._link.get(self._path, params), type=dict[str, Any])
            for event in page["events"]:
                history.take(event)
            cursor = page["next_cursor"]
            if not page["has_more"]:
                return history
