"""Requests that wait for a person, by their id (A-5): an id that two of them share is never granted."""

from __future__ import annotations

import asyncio

import pytest

from interlock.agents.acp.open_requests import MAX_REPEATED_IDS, OpenRequests
from interlock.jsonrpc import RpcRequest

pytestmark = [pytest.mark.anyio, pytest.mark.req("A-5")]


def waiting() -> asyncio.Task[None]:
    return asyncio.create_task(asyncio.Event().wait())  # type: ignore[arg-type]


def request(request_id: int | str | float) -> RpcRequest:
    return RpcRequest(request_id, "session/request_permission", b"{}")


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_request_is_handled_once() -> None:
    requests, task = OpenRequests(), waiting()
    assert not requests.refuses(1)
    requests.add(request(1), task)
    taken = requests.take(1)
    assert taken is not None
    assert taken.task is task
    assert requests.take(1) is None
    assert not requests.refuses(1), "the id is free again"
    await ended(task)


@pytest.mark.parametrize(("one", "other"), [(1, 1), (1, 1.0), (1, "1"), (2.0, "2"), ("a", "a")])
async def test_a_repeated_id_is_refused_in_any_form(
        one: int | str | float, other: int | str | float) -> None:
    requests, task = OpenRequests(), waiting()
    requests.add(request(one), task)
    assert requests.refuses(other)
    requests.take(one)
    assert requests.refuses(one), "a late answer could be read as one to it"
    assert not requests.refuses("another")
    await ended(task)


async def test_a_request_of_an_ended_task_no_longer_waits() -> None:
    requests, task = OpenRequests(), waiting()
    requests.add(request(1), task)
    await ended(task)
    assert requests.take(1) is None
    assert not requests.refuses(1)


async def test_a_task_that_ends_late_does_not_remove_a_newer_request() -> None:
    requests, first, second = OpenRequests(), waiting(), waiting()
    requests.add(request(1), first)
    requests.take(1)
    requests.add(request(1), second)
    await ended(first)
    taken = requests.take(1)
    assert taken is not None
    assert taken.task is second
    await ended(second)


async def test_an_agent_that_repeats_too_many_ids_is_refused_entirely() -> None:
    requests, task = OpenRequests(), waiting()
    for number in range(MAX_REPEATED_IDS + 1):
        requests.add(request(number), task)
        assert requests.refuses(number)
    assert requests.refuses("never seen")
    await ended(task)
