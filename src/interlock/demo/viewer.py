"""An ordinary viewer: it follows a session over server-sent events, and resumes by its cursor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.link.sse import SseEvent, SseStream, StreamResumed
from interlock.demo.stream_view import StreamView
from interlock.protocol.api.sessions import GET_FRAMES

PAGE = 500


class DemoViewer:
    """Keeps a StreamView up to date, and wakes tasks that wait for a change in it."""

    def __init__(self, link: GatewayLink, session_id: str) -> None:
        self._link = link
        self._path = GET_FRAMES.at(session_id)
        self._changed = asyncio.Condition()
        self.reading = StreamView()
        self.resumed = 0
        """Times that the stream itself broke and was resumed."""

    async def follow(self) -> None:
        """Read until cancelled. Raises Trouble."""
        async for item in SseStream(self._link, self._path):
            if isinstance(item, StreamResumed):
                self.resumed += 1
            if isinstance(item, SseEvent):
                self.reading.take(item.data)
                async with self._changed:
                    self._changed.notify_all()

    async def until(self, seen: Callable[[StreamView], bool]) -> None:
        """Wait until the condition holds."""
        async with self._changed:
            await self._changed.wait_for(lambda: seen(self.reading))

    async def fetch(self) -> StreamView:
        """Read the session's history again from the start, page by page. Raises Trouble."""
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
