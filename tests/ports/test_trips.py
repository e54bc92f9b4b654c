"""Round trips to a store, counted for the operation that waits for them: concurrent ones count as one."""

from __future__ import annotations

import asyncio

import pytest

from interlock.ports.trips import CURRENT, Trips, counting, one_trip


async def trip(depth: int = 1) -> None:
    for _ in range(depth):
        with one_trip():
            await asyncio.sleep(0)


@pytest.mark.anyio
async def test_sequential_trips_add_up_and_parallel_ones_do_not() -> None:
    with counting() as trips:
        await trip(2)
        await asyncio.gather(trip(), trip(), trip())
    assert (trips.in_a_row, trips.statements) == (3, 5)


@pytest.mark.anyio
async def test_the_longest_of_several_parallel_chains_is_counted() -> None:
    with counting() as trips:
        begun = trips.in_a_row
        with counting() as inner:
            await trip(3)
        trips.ended(begun, inner)
        trips.ended(begun, Trips())
    assert (trips.in_a_row, trips.statements) == (3, 3)


@pytest.mark.anyio
async def test_an_operation_counts_only_its_own_trips() -> None:
    assert CURRENT.get() is None
    await trip()

    async def operation(depth: int) -> int:
        with counting() as trips:
            await trip(depth)
            return trips.in_a_row

    assert await asyncio.gather(operation(1), operation(4)) == [1, 4]
    assert CURRENT.get() is None


@pytest.mark.anyio
async def test_a_failed_trip_is_counted_too() -> None:
    with counting() as trips, pytest.raises(OSError, match="away"), one_trip():
        raise OSError("away")
    assert trips.in_a_row == 1
