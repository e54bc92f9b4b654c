"""The log of a gateway that lost its lease names the reason: no free processor, its own work, the ledger, a stop."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from clusters.street import Member, street
from engine.cluster.test_renewal import Away, LoopTime
from interlock.engine.cluster import lease_loss
from interlock.engine.cluster import renewal as renewal_module
from interlock.engine.cluster.lease_loss import LeaseLoss, ProcessorTime, parse_processor_time, processor_time
from interlock.gateway.telemetry.cluster_health import LOSS_SHOWN_S
from interlock.ports.leases import INSTANCE_LIFE_MS

pytestmark = pytest.mark.req("C-4")
DOWN = "PostgreSQL does not answer."


@pytest.mark.parametrize(("loss", "cause"), [
    (LeaseLoss(7.4, ProcessorTime(ran_s=0.9, waited_s=6.2)), "starved"),
    (LeaseLoss(3.2, ProcessorTime(ran_s=0.3, waited_s=1.2)), "starved"),
    (LeaseLoss(7.4, ProcessorTime(ran_s=0.9, waited_s=6.2), DOWN), "starved"),
    (LeaseLoss(14.0, ProcessorTime(ran_s=11.0, waited_s=2.0)), "busy"),
    (LeaseLoss(20.0, ProcessorTime(ran_s=0.5, waited_s=0.2), DOWN), "ledger"),
    (LeaseLoss(20.0, ProcessorTime(ran_s=0.5, waited_s=0.2)), "stopped"),
    (LeaseLoss(20.0, ProcessorTime(ran_s=0.2, waited_s=0.5)), "stopped"),
    (LeaseLoss(11.0, ProcessorTime(ran_s=0.0, waited_s=5.0)), "starved"),
    (LeaseLoss(11.0, ProcessorTime(ran_s=5.0, waited_s=0.0)), "busy"),
    (LeaseLoss(11.0, ProcessorTime(ran_s=5.0, waited_s=5.0)), "starved"),
    (LeaseLoss(2.9, ProcessorTime(ran_s=0.1, waited_s=2.5)), "early"),
    (LeaseLoss(3.0, ProcessorTime(ran_s=0.1, waited_s=2.5)), "starved"),
    (LeaseLoss(9.0, None), "unknown"),
    (LeaseLoss(9.0, None, DOWN), "ledger"),
])
def test_the_cause_is_what_used_most_of_the_time(loss: LeaseLoss, cause: str) -> None:
    assert loss.cause == cause


def test_the_sentence_has_the_figures() -> None:
    assert LeaseLoss(7.4, ProcessorTime(0.9, 6.24)).sentence() == (
        "Its host had no free processor: 7.4 s after its last renewal, it waited 6,240 ms for a processor and ran for "
        "900 ms.")
    assert LeaseLoss(14.0, ProcessorTime(11.0, 2.0)).sentence().startswith("Its own work kept it from renewing: 14.0 s")
    assert LeaseLoss(20.0, ProcessorTime(0.5, 0.2), DOWN).sentence() == (
        "The ledger did not renew it (20.0 s after its last renewal, it waited 200 ms for a processor and ran for 500 "
        f"ms): {DOWN}")
    assert LeaseLoss(9.0, None, DOWN).sentence() == f"The ledger did not renew it: {DOWN}"
    assert "stopped or suspended" in LeaseLoss(20.0, ProcessorTime(0.5, 0.2)).sentence()
    assert "although it was renewed in time" in LeaseLoss(2.9, None).sentence()
    assert LeaseLoss(9.0, None).sentence() == "It was not renewed in time: 9.0 s after its last renewal."


def test_the_kernels_figures_are_read_and_others_ignored() -> None:
    assert parse_processor_time("1500000000 250000000 12\n") == ProcessorTime(1.5, 0.25)
    assert parse_processor_time("") is None
    assert parse_processor_time("a b c") is None


def test_a_system_without_the_figures_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lease_loss, "SCHEDSTAT", tmp_path / "schedstat")
    assert processor_time() is None
    (tmp_path / "schedstat").write_text("2000000000 1000000000 7\n")
    assert processor_time() == ProcessorTime(2.0, 1.0)


def spending(member: Member, *had: ProcessorTime | None) -> None:
    """Have the gateway's loop receive these totals of the processor, one at each reading."""
    totals = iter(had)
    read: Callable[[], ProcessorTime | None] = lambda: next(totals)  # noqa: E731
    member.cluster.renewal._processor = read


def waits(member: Member) -> float | None:
    return member.front.metrics.registry.get_sample_value("interlock_processor_wait_seconds_total", {"thread": "loop"})


@pytest.mark.anyio
async def test_a_starved_gateway_shows_why_it_lost_its_sessions() -> None:
    async with street(1) as town:
        (a,) = town.members
        assert a.cluster.renewal.last_loss() is None
        assert (await a.front.cluster.look()).lost_lease is None  # type: ignore[union-attr]
        former = a.cluster.instance_id
        spending(a, ProcessorTime(1.0, 1.0), ProcessorTime(1.5, 7.0), ProcessorTime(1.5, 7.25), ProcessorTime(2.0, 8.0))
        a.cluster.renewal.joined(asyncio.get_running_loop().time() - 7.0)
        town.clock.advance(INSTANCE_LIFE_MS)
        with capture_logs() as lines:
            await a.cluster.renewal.once()
        (line,) = [one for one in lines if one["event"] == "instance_taken_for_dead"]
        assert line["instance_id"] == former
        assert (line["cause"], line["waited_ms"], line["ran_ms"]) == ("starved", 6_250, 500)
        assert line["since_ms"] >= 7_000
        assert "it waited 6,250 ms for a processor and ran for 500 ms" in line["reason"]
        assert waits(a) == 6.25
        shown = (await a.front.cluster.look()).lost_lease  # type: ignore[union-attr]
        assert shown is not None
        assert shown.reason == line["reason"]
        assert shown.ago_s == 0
        await a.cluster.settled()


@pytest.mark.anyio
async def test_a_wait_of_a_second_between_renewals_is_logged_once_and_its_end_once() -> None:
    async with street(1) as town:
        (a,) = town.members
        spending(a, ProcessorTime(0, 0), ProcessorTime(0.1, 1.0), ProcessorTime(0.2, 2.5), ProcessorTime(0.3, 2.6))
        a.cluster.renewal.joined(asyncio.get_running_loop().time())
        with capture_logs() as lines:
            for _ in range(3):
                await a.cluster.renewal.once()
        assert [one["event"] for one in lines] == ["processor_missing", "processor_available"]
        assert "it waited 1,000 ms for one" in lines[0]["reason"]
        assert waits(a) == pytest.approx(2.6)


@pytest.mark.anyio
async def test_a_gateway_on_another_system_shows_no_waits() -> None:
    async with street(1) as town:
        (a,) = town.members
        spending(a, *[None] * 5)
        a.cluster.renewal.joined(asyncio.get_running_loop().time() - 5.0)
        await a.cluster.renewal.once()
        town.clock.advance(INSTANCE_LIFE_MS)
        with capture_logs() as lines:
            await a.cluster.renewal.once()
        (line,) = [one for one in lines if one["event"] == "instance_taken_for_dead"]
        assert "waited_ms" not in line
        assert waits(a) is None
        await a.cluster.settled()


@pytest.mark.anyio
async def test_a_lost_lease_is_shown_with_its_age_for_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    async with street(1) as town:
        (a,) = town.members
        time = LoopTime(monkeypatch)
        lost_s, shown = math.ceil(time.now_s), list[int | None]()
        time.now_s = lost_s  # Whole seconds: with a fraction, 3,600 s later can be computed as 3,599.999….
        town.clock.advance(INSTANCE_LIFE_MS)
        await a.cluster.renewal.once()
        for passed_s in (90.5, 3_600, 3_601):
            time.now_s = lost_s + passed_s
            loss = (await a.front.cluster.look()).lost_lease  # type: ignore[union-attr]
            shown.append(loss and loss.ago_s)
        assert shown == [90, LOSS_SHOWN_S, None]
        await a.cluster.settled()


@pytest.mark.anyio
@pytest.mark.parametrize("answers_again", [False, True])
async def test_a_ledger_that_answered_again_is_not_the_cause_of_a_later_loss(
        monkeypatch: pytest.MonkeyPatch, answers_again: bool) -> None:
    monkeypatch.setattr(renewal_module, "RENEW_EVERY_MS", 0)
    async with street(1) as town:
        (a,) = town.members
        renewal, leases = a.cluster.renewal, town.leases
        spending(a, *[ProcessorTime(0, 0)] * 9)
        renewal.joined(asyncio.get_running_loop().time())
        failed = asyncio.Event()
        renewal._outage.failed = lambda *_, **__: failed.set()  # type: ignore[method-assign]
        renewal._leases = Away(leases, "renew")  # type: ignore[assignment]
        renewing = asyncio.create_task(renewal.run())
        await failed.wait()
        renewing.cancel()
        renewal._leases = leases
        if answers_again:
            await renewal.once()
        renewal._until_s = asyncio.get_running_loop().time() - 10.0
        assert renewal.lost().cause == ("stopped" if answers_again else "ledger")
        assert ("PostgreSQL is away." in renewal.last_loss()[1]) is not answers_again  # type: ignore[index]
