"""Tickets by which a browser opens one stream (K-2): valid once, for one path, for half a minute."""

from __future__ import annotations

import msgspec
import pytest

from interlock.gateway.access.tickets import MAX_OWN_TICKETS, MAX_TICKETS, TICKET_LIFE_MS, TICKET_PREFIX, Tickets
from interlock.ports.bus import BusError
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal
from interlock.protocol.resources import Actor

pytestmark = [pytest.mark.anyio, pytest.mark.req("K-2")]
ANN = Principal(tenant_id="t", actor=Actor(type="user", id="ann"), role="viewer", key_id="k")
BOB = msgspec.structs.replace(ANN, actor=Actor(type="user", id="bob"))


class Hand:
    """A clock that is moved, and numbers that are drawn in order."""

    def __init__(self) -> None:
        self.ms = 1_000
        self.drawn = 0

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def __call__(self, count: int) -> bytes:
        self.drawn += 1
        return self.drawn.to_bytes(count, "big")


def tickets() -> tuple[Tickets, Hand]:
    hand = Hand()
    return Tickets(hand, hand), hand


async def refused(made: Tickets, ticket: str, path: str = "/v1/events") -> bool:
    try:
        await made.spend(ticket, path)
    except Problem as problem:
        return problem.code == "Unauthorized"
    return False


async def test_a_ticket_opens_its_path_once_as_its_principal() -> None:
    made, _ = tickets()
    given = made.give(ANN, "/v1/events", "token")
    assert given.ticket.startswith(TICKET_PREFIX)
    assert (given.path, given.expires_at) == ("/v1/events", "1970-01-01T00:00:31.000Z")
    assert await made.spend(given.ticket, "/v1/events") == (ANN, "token")
    assert await refused(made, given.ticket)


async def test_an_attempt_on_another_path_also_spends_the_ticket() -> None:
    made, _ = tickets()
    given = made.give(ANN, "/v1/events", "token")
    assert await refused(made, given.ticket, "/v1/sessions/s/frames")
    assert await refused(made, given.ticket)


@pytest.mark.parametrize(("after_ms", "good"), [(TICKET_LIFE_MS - 1, True), (TICKET_LIFE_MS, False)])
async def test_a_ticket_expires_after_half_a_minute(after_ms: int, good: bool) -> None:
    made, hand = tickets()
    given = made.give(ANN, "/v1/events", "token")
    hand.ms += after_ms
    assert await refused(made, given.ticket) is not good


@pytest.mark.parametrize("ticket", ["", "ilt_", "ilt_unknown", "ilk_key", "ilt_gw.unknown", "ilt_../x.y"])
async def test_an_unknown_ticket_is_refused(ticket: str) -> None:
    assert await refused(tickets()[0], ticket)


async def test_tickets_are_bounded_per_person() -> None:
    made, hand = tickets()
    for _ in range(MAX_OWN_TICKETS):
        made.give(ANN, "/v1/events", "token")
    with pytest.raises(Problem) as caught:
        made.give(ANN, "/v1/events", "token")
    assert (caught.value.code, caught.value.headers) == ("QuotaExceeded", {"Retry-After": "30"})
    made.give(BOB, "/v1/events", "token")
    hand.ms += TICKET_LIFE_MS
    made.give(ANN, "/v1/events", "token")
    assert MAX_OWN_TICKETS < MAX_TICKETS


async def test_a_ticket_is_spent_at_its_issuing_gateway_wherever_it_is_used() -> None:
    (first, _), (second, _) = tickets(), tickets()
    asked: list[str] = []

    async def ask_first(gateway: str, message: bytes) -> bytes:
        asked.append(gateway)
        return await first.spend_for(message)

    async def away(gateway: str, message: bytes) -> bytes:
        raise BusError("away")

    first.join(lambda: "gw_1", away)
    second.join(lambda: "gw_2", ask_first)
    given = first.give(ANN, "/v1/events", "token")
    assert await second.spend(given.ticket, "/v1/events") == (ANN, "token")
    assert await refused(second, given.ticket)
    assert asked == ["gw_1", "gw_1"]
    gone = second.give(ANN, "/v1/events", "token")
    assert await refused(first, gone.ticket), "the gateway that gave it does not answer"
