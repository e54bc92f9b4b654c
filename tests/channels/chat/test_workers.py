"""One chat's work in its order, chats beside each other, and an error of any of them ends the whole."""

from __future__ import annotations

import asyncio

import pytest

from interlock.channels.chat.workers import ChatWorkers
from interlock.ports.chat_service import Id

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-12", "O-13")]


class Work:
    """Numbers by chat; those of a chat in `held` are done once `go` is set."""

    def __init__(self, **by_chat: list[int]) -> None:
        self._left: dict[Id, list[int]] = {chat: list(numbers) for chat, numbers in by_chat.items()}
        self.held: set[Id] = set()
        self.go = asyncio.Event()
        self.done: list[tuple[Id, int]] = []
        self.all_done = asyncio.Event()

    def add(self, chat: Id, number: int) -> None:
        self._left.setdefault(chat, []).append(number)

    async def step(self, chat: Id) -> bool:
        if not self._left.get(chat):
            return False
        if chat in self.held:
            await self.go.wait()
        number = self._left[chat].pop(0)
        if number < 0:
            raise ArithmeticError(number)
        self.done.append((chat, number))
        if not any(self._left.values()):
            self.all_done.set()
        return True


async def test_a_waiting_chat_delays_no_other_and_keeps_its_order() -> None:
    work = Work(a=[1, 2, 3], b=[1, 2])
    work.held = {"a"}
    workers = ChatWorkers(work.step)

    async def conversation() -> None:
        workers.wake("a")
        workers.wake("b")
        while len(work.done) < 2:
            await asyncio.sleep(0)
        assert work.done == [("b", 1), ("b", 2)]
        work.add("a", 4)
        workers.wake("a")  # It is at work already, and takes this up itself.
        work.go.set()
        await work.all_done.wait()

    await workers.beside(conversation())
    assert work.done[2:] == [("a", 1), ("a", 2), ("a", 3), ("a", 4)]


async def test_an_idle_chat_is_resumed() -> None:
    work = Work(a=[1])
    workers = ChatWorkers(work.step)

    async def conversation() -> None:
        for number in (2, 3):
            workers.wake("a")
            await work.all_done.wait()
            work.all_done.clear()
            work.add("a", number)
        workers.wake("a")
        await work.all_done.wait()

    await workers.beside(conversation())
    assert [number for _, number in work.done] == [1, 2, 3]


async def test_an_error_of_one_chat_is_raised_and_ends_the_others() -> None:
    work = Work(a=[1], b=[-1])
    work.held = {"a"}
    workers = ChatWorkers(work.step)

    async def conversation() -> None:
        workers.wake("a")
        workers.wake("b")
        await asyncio.Event().wait()

    with pytest.raises(ArithmeticError):
        await asyncio.wait_for(workers.beside(conversation()), 20)
    assert work.done == []


async def test_running_work_ends_before_the_workers_do() -> None:
    work = Work(a=[1, 2])
    work.held = {"a"}
    workers = ChatWorkers(work.step, stop_s=20)
    workers.wake("a")
    running = asyncio.ensure_future(workers.beside(forever()))
    for stage in range(20):  # More turns of the loop than a cancellation takes to arrive.
        if stage == 10:
            running.cancel()
        await asyncio.sleep(0)
    work.go.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert work.done == [("a", 1)], "the work under way is done, and no more is begun"


async def forever() -> None:
    await asyncio.Event().wait()
