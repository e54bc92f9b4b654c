"""The entry point below `/a2a/`: it loads the facade with its first request. Most gateways have no client here, and the
facade takes 2 MB of memory (Y-18)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

if TYPE_CHECKING:
    from interlock.gateway.a2a.task_pushes import TaskPushes

FACADE = "interlock.gateway.a2a.facade"


class A2AEndpoint:
    """Serves the requests below BASE. The arguments are the facade's."""

    def __init__(self, rest: ASGIApp, secure: Callable[[str], bool], pushes: TaskPushes | None = None) -> None:
        self._rest = rest
        self._secure = secure
        self._pushes = pushes
        self._facade: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; the facade is loaded off the event loop."""
        if self._facade is None:
            await asyncio.to_thread(import_module, FACADE)
            from interlock.gateway.a2a.facade import A2AFacade

            self._facade = self._facade or A2AFacade(self._rest, self._secure, self._pushes)
        await self._facade(scope, receive, send)
