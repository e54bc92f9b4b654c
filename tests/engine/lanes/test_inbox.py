"""The inputs that wait for a lane: in order, frames of one link joined, and senders held back while it is full."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.engine.lanes import inbox as bounds
from interlock.engine.lanes.inbox import Inbox, Job, Run

pytestmark = pytest.mark.anyio
FRAME: Any = object()


def job(size: int = 0) -> Job:
    return Job(ClockTicked(), size_bytes=size)


def run(inbox: Inbox, source: object, count: int, raw: bytes = b"x") -> Run:
    begun = Run(source, 0)
    inbox.push(begun)
    for _ in range(count):
        assert inbox.joined(source, FRAME, raw)
    return begun


async def test_inputs_are_taken_in_order_of_arrival() -> None:
    inbox, jobs = Inbox(), [job(), job(), job()]
    for one in jobs:
        inbox.push(one)

    assert (len(inbox), bool(inbox)) == (3, True)
    assert inbox.take() == jobs
    assert (len(inbox), bool(inbox), inbox.take()) == (0, False, [])


async def test_a_frame_joins_only_the_last_run_of_its_own_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "RUN_FRAMES", 2)
    inbox, link, other = Inbox(), object(), object()
    assert not inbox.joined(link, FRAME, b"x")
    begun = run(inbox, link, 1)
    assert not inbox.joined(other, FRAME, b"x")
    assert inbox.joined(link, FRAME, b"yy")
    assert not inbox.joined(link, FRAME, b"x")  # It has no room.
    assert (len(begun.frames), begun.size_bytes, len(inbox)) == (2, 3, 2)
    inbox.push(job())
    assert not inbox.joined(link, FRAME, b"x")  # It would pass what came between.


async def test_a_decision_takes_no_more_than_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "GROUP_JOBS", 2)
    monkeypatch.setattr(bounds, "GROUP_BYTES", 10)
    inbox = Inbox()
    for size in (0, 0, 10, 0, 0):
        inbox.push(job(size))

    assert [len(inbox.take()) for _ in range(3)] == [2, 1, 2]


@pytest.mark.parametrize(("jobs", "size"), [(4, 0), (1, 100)])
async def test_a_sender_to_a_full_lane_waits_until_half_of_it_is_processed(
        jobs: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "INBOX_JOBS", 4)
    monkeypatch.setattr(bounds, "INBOX_BYTES", 100)
    monkeypatch.setattr(bounds, "GROUP_JOBS", 1)
    inbox = Inbox()
    for _ in range(jobs):
        assert not inbox.full
        inbox.push(job(size))
    waiting = asyncio.create_task(inbox.room())
    await asyncio.sleep(0)
    assert (inbox.full, waiting.done()) == (True, False)
    while inbox.full:
        inbox.take()
    await waiting
    assert len(inbox) < 2


async def test_the_lane_wakes_on_an_input_and_does_not_wait_for_existing_ones() -> None:
    inbox = Inbox()
    waiting = asyncio.create_task(inbox.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    inbox.push(job())
    await waiting
    await inbox.wait()


async def test_a_lane_that_ends_drops_its_inputs_and_releases_waiting_senders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "INBOX_JOBS", 1)
    inbox = Inbox()
    inbox.push(job())
    waiting = asyncio.create_task(inbox.room())
    assert len(inbox.take_all()) == 1
    await waiting
    assert (len(inbox), inbox.full, inbox.take_all()) == (0, False, [])
