"""One numbered stream per session, one cursor per gateway: the frames that every outbox keeps for each (D-5, D-7)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from interlock.backends.memory.outbox import MemoryOutbox
from interlock.backends.outbox.sqlite import SqliteOutbox
from interlock.ports.outbox import Outbox, OutboxError, PutController, PutPolicy, RefuseControl
from interlock.protocol.limits import MIB, OBSERVER_ABSENT_MS
from interlock.protocol.payloads import RefusedControl
from interlock.runner.link.history import lost_after
from ports.outbox_words import OTHER, SESSION, changed, control, done

pytestmark = pytest.mark.anyio
Open = Callable[..., Awaitable[Outbox]]
HOUR_MS = 60 * 60 * 1000


@pytest.fixture(params=["memory", "sqlite"])
async def outbox_of(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    """`await outbox_of(limit)`: gateway g1 controls SESSION, g2 observes it, both are here."""
    made: list[Outbox] = []

    async def make(limit_bytes: int = 64 * MIB) -> Outbox:
        outbox: Outbox = (MemoryOutbox(limit_bytes=limit_bytes) if request.param == "memory"
                          else SqliteOutbox(tmp_path / "outbox.db", limit_bytes=limit_bytes))
        made.append(outbox)
        await outbox.join("g1", "one", adopt=True)
        await outbox.join("g2", "two", adopt=False)
        await outbox.write([control(1)._replace(gateway_id="g1")])
        return outbox

    yield make
    for outbox in made:
        await outbox.close()


async def kept(outbox: Outbox) -> list[int]:
    return [stored.seq for stored in await outbox.frames(SESSION, 0, 1 << 30)]


async def lost_to(outbox: Outbox, gateway_id: str) -> list[tuple[int, int]]:
    """The ranges that a history reports as lost to this gateway."""
    row = await outbox.session(SESSION, gateway_id)
    assert row is not None
    return lost_after(row.acked_seq, await outbox.frames(SESSION, row.acked_seq, 1 << 30), row.last_seq)


@pytest.mark.req("L-5")
async def test_link_numbers_always_increase(outbox_of: Open) -> None:
    outbox = await outbox_of()
    assert [await outbox.number_link() for _ in range(3)] == [1, 2, 3]
    assert await outbox.number_link(1) == 4, "what a gateway knows is behind"
    assert await outbox.number_link(70) == 71
    assert await outbox.number_link() == 72


@pytest.mark.req("D-5", "D-1")
async def test_frames_stay_until_the_observer_has_them_too(outbox_of: Open) -> None:
    outbox = await outbox_of()
    await outbox.write([done("a"), done("b"), done("c")])
    await outbox.ack(SESSION, 3, "", 5, "g1")
    assert await kept(outbox) == [1, 2, 3]
    await outbox.ack(SESSION, 2, "", 6, "g2")
    assert await kept(outbox) == [3]
    one, two = await outbox.session(SESSION, "g1"), await outbox.session(SESSION, "g2")
    assert one is not None
    assert two is not None
    assert (one.controller, one.acked_seq, one.bytes_kept, one.settled) == ("g1", 3, 0, False)
    assert (two.controller, two.acked_seq, two.last_sync_ms) == ("g1", 2, 6)
    assert two.last_message_id != one.last_message_id != ""


@pytest.mark.req("D-5", "D-1")
async def test_an_observer_that_is_ahead_trims_nothing(outbox_of: Open) -> None:
    outbox = await outbox_of()
    await outbox.write([done("a"), done("b")])
    await outbox.ack(SESSION, 2, "", 5, "g2")
    assert await kept(outbox) == [1, 2]
    row = await outbox.session(SESSION)
    assert row is not None
    assert (row.acked_seq, row.bytes_kept > 0) == (0, True)


@pytest.mark.req("D-5", "D-3")
async def test_an_observer_behind_by_more_than_the_limit_loses_exact_ranges(outbox_of: Open) -> None:
    outbox = await outbox_of(3_000)
    for number in range(10):
        (stored,) = await outbox.write([done(f"{number}" * 700)])
        await outbox.ack(SESSION, stored.seq, "", 5, "g1")
    assert await kept(outbox) == []
    assert await lost_to(outbox, "g2") == [(1, 10)]
    row = await outbox.session(SESSION, "g2")
    assert row is not None
    assert (row.why_lost, row.settled) == ("bytes", True)
    assert await lost_to(outbox, "g1") == []
    # Frames are kept for it again as soon as it has acknowledged the reported loss.
    await outbox.ack(SESSION, 10, "", 6, "g2")
    (stored,) = await outbox.write([done("x")])
    await outbox.ack(SESSION, 11, "", 7, "g1")
    assert await kept(outbox) == [11]
    assert await lost_to(outbox, "g2") == []


@pytest.mark.req("D-5", "D-3")
async def test_the_ring_evicts_by_the_controllers_cursor_and_both_lose_it(outbox_of: Open) -> None:
    outbox = await outbox_of(3_000)
    await outbox.write([done("x" * 700) for _ in range(6)])
    row = await outbox.session(SESSION)
    assert row is not None
    assert row.bytes_kept <= 3_000
    first = (await kept(outbox))[0]
    assert await lost_to(outbox, "g1") == await lost_to(outbox, "g2") == [(1, first - 1)]


@pytest.mark.req("D-5")
async def test_an_observer_away_for_a_day_loses_frames_and_the_controller_never(outbox_of: Open) -> None:
    outbox = await outbox_of()
    await outbox.write([done("a"), done("b")])
    await outbox.ack(SESSION, 2, "", 5, "g1")
    await outbox.leave("g1", HOUR_MS)
    await outbox.leave("g2", HOUR_MS)
    await outbox.write([done("c")])
    assert await outbox.sweep(HOUR_MS + OBSERVER_ABSENT_MS - 1) == []
    assert await kept(outbox) == [1, 2, 3]
    assert await outbox.sweep(HOUR_MS + OBSERVER_ABSENT_MS) == [(SESSION, "g2")]
    assert await kept(outbox) == [3]
    assert await lost_to(outbox, "g2") == [(1, 2)]
    assert await outbox.sweep(HOUR_MS + OBSERVER_ABSENT_MS) == []


@pytest.mark.req("D-5", "D-3")
async def test_a_session_without_a_buffer_keeps_no_content_without_its_controller(outbox_of: Open) -> None:
    outbox = await outbox_of()
    await outbox.write([PutPolicy(SESSION, "NONE")])
    await outbox.write([done("a")], attached=frozenset({"g1"}))
    await outbox.write([done("b")], attached=frozenset({"g2"}))
    assert await kept(outbox) == [1]


@pytest.mark.req("D-5")
async def test_a_change_of_control_moves_the_bound_too(outbox_of: Open) -> None:
    outbox = await outbox_of()
    await outbox.write([done("a"), done("b"), done("c")])
    await outbox.ack(SESSION, 3, "", 5, "g1")
    await outbox.ack(SESSION, 1, "", 5, "g2")
    before = [len(stored.raw) for stored in await outbox.frames(SESSION, 1, MIB)]
    await outbox.write([PutController(SESSION, "g2"), changed()])
    row = await outbox.session(SESSION)
    assert row is not None
    assert (row.controller, row.acked_seq) == ("g2", 1)
    assert row.bytes_kept == sum(before) + len((await outbox.frames(SESSION, 3, MIB))[0].raw)
    await outbox.ack(SESSION, 4, "", 6)
    assert await kept(outbox) == [4], "the first gateway observes now, and has not got it"


@pytest.mark.req("D-7")
async def test_each_gateway_numbers_its_own_control_frames(outbox_of: Open) -> None:
    outbox = await outbox_of()
    await outbox.write([control(1)._replace(gateway_id="g2"), control(2)._replace(gateway_id="g1")])
    rows = [await outbox.session(SESSION, name) for name in ("g1", "g2")]
    assert [row.control_seq if row else None for row in rows] == [2, 1]
    assert [one.seq for one in await outbox.controls(SESSION, 0, "g1")] == [1, 2]
    assert [one.seq for one in await outbox.controls(SESSION, 0, "g2")] == [1]
    assert await outbox.controlling(SESSION) == ["g1", "g2"]


@pytest.mark.req("D-7", "W-2")
async def test_a_refusal_is_kept_until_it_is_confirmed(outbox_of: Open) -> None:
    outbox = await outbox_of()
    refused = [RefusedControl(message_id=name, error_code="NOT_CONTROLLER", message="no") for name in ("m1", "m2")]
    await outbox.write([RefuseControl(SESSION, "g2", one) for one in (*refused, refused[1])])
    row = await outbox.session(SESSION, "g2")
    assert row is not None
    assert list(row.refused) == refused
    with pytest.raises(OutboxError, match="has not acknowledged"):
        await outbox.forget(SESSION, {})
    await outbox.confirm(SESSION, "g2", ["m1"])
    row = await outbox.session(SESSION, "g2")
    assert row is not None
    assert list(row.refused) == refused[1:]


@pytest.mark.req("D-5")
async def test_a_session_is_forgotten_only_when_the_observer_has_it_too(outbox_of: Open) -> None:
    outbox = await outbox_of()
    await outbox.write([changed()])
    await outbox.ack(SESSION, 1, "", 5, "g1")
    with pytest.raises(OutboxError, match="has not acknowledged"):
        await outbox.forget(SESSION, {})
    await outbox.ack(SESSION, 1, "", 5, "g2")
    await outbox.forget(SESSION, {"g1": 1, "g2": 1})
    assert await outbox.sessions("g2") == []


@pytest.mark.req("D-5")
async def test_a_late_gateway_gets_the_missed_ranges_and_frames_are_kept_from_then(outbox_of: Open) -> None:
    outbox = await outbox_of()
    await outbox.write([done("a"), done("b")])
    for gateway_id in ("g1", "g2"):
        await outbox.ack(SESSION, 1, "", 5, gateway_id)
    await outbox.join("g3", "three", adopt=False)
    row = await outbox.session(SESSION, "g3")
    assert row is not None
    assert row.why_lost == "joined"
    assert await lost_to(outbox, "g3") == [(1, 1)]
    for gateway_id in ("g1", "g2"):
        await outbox.ack(SESSION, 2, "", 5, gateway_id)
    assert await kept(outbox) == [2]


@pytest.mark.req("D-5")
async def test_reading_a_session_for_an_absent_gateway_keeps_nothing_for_it(outbox_of: Open) -> None:
    outbox = await outbox_of()
    await outbox.write([changed()])
    assert (await outbox.session(SESSION, "stranger")) is not None
    for gateway_id in ("g1", "g2"):
        await outbox.ack(SESSION, 1, "", 5, gateway_id)
    assert await kept(outbox) == []


@pytest.mark.req("D-5")
async def test_a_new_session_is_kept_for_briefly_absent_gateways(outbox_of: Open) -> None:
    outbox = await outbox_of()
    await outbox.leave("g2", 0)
    await outbox.open_session(OTHER, OBSERVER_ABSENT_MS - 1, b"")
    await outbox.write([PutController(OTHER, "g1"), changed(OTHER)])
    await outbox.ack(OTHER, 1, "", 5, "g1")
    assert len(await outbox.frames(OTHER, 0, MIB)) == 1
    late = "33333333-3333-4333-8333-333333333333"
    await outbox.open_session(late, OBSERVER_ABSENT_MS, b"")
    await outbox.write([PutController(late, "g1"), changed(late)])
    await outbox.ack(late, 1, "", 5, "g1")
    assert await outbox.frames(late, 0, MIB) == []
