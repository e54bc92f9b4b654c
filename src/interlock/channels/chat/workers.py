"""One task for each chat that has work: one chat's work is done in its order, and chats do not wait for each other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from interlock.ports.chat_service import Id


class ChatWorkers:
    """`step` does the oldest work of a chat and returns True, or returns False at once if there is none. The work is
    kept by the owner of `step`, so that it can be durable."""

    def __init__(self, step: Callable[[Id], Awaitable[bool]], stop_s: float = 0.0) -> None:
        """`stop_s` is the time that work under way has to end when the workers are stopped."""
        self._step = step
        self._stop_s = stop_s
        self._tasks: dict[Id, asyncio.Task[None]] = {}
        self._stopping = False
        self._failure: BaseException | None = None
        self._failed = asyncio.Event()

    def wake(self, chat_id: Id) -> None:
        """Have a chat's work done, unless that is under way."""
        if chat_id not in self._tasks and not self._stopping:
            self._tasks[chat_id] = asyncio.create_task(self._work(chat_id))

    async def run(self) -> None:
        """Run until a worker ends with an error, which is raised."""
        await self.beside(_forever())

    async def beside(self, main: Coroutine[Any, Any, None]) -> None:
        """Run `main` until it or a worker ends with an error, which is raised; then stop the workers."""
        running = asyncio.ensure_future(main)
        failed = asyncio.ensure_future(self._failed.wait())
        try:
            await asyncio.wait([running, failed], return_when=asyncio.FIRST_COMPLETED)
            if self._failure is not None:
                raise self._failure
            await running
        finally:
            running.cancel()
            failed.cancel()
            await asyncio.gather(running, failed, return_exceptions=True)
            await self._stop()

    async def _stop(self) -> None:
        self._stopping = True
        if tasks := list(self._tasks.values()):
            if self._stop_s:
                await asyncio.wait(tasks, timeout=self._stop_s)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, chat_id: Id) -> None:
        try:
            while not self._stopping and await self._step(chat_id):
                pass
        except Exception as error:  # noqa: BLE001 - raised by `beside`
            self._failure = self._failure or error
            self._failed.set()
        finally:
            del self._tasks[chat_id]


async def _forever() -> None:
    await asyncio.Event().wait()
