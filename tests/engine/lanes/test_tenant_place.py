"""A request for a tenant in another cluster is refused with the address and time of a retry."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.backends.memory.ledger import MemoryLedger
from interlock.engine.lanes.tenant_place import TenantPlaces, refusal
from interlock.ports.ledger import Ledger, Put, WriteBatch
from interlock.protocol.problems import Problem
from interlock.protocol.records import TenantRecord


def tenant(**fields: Any) -> TenantRecord:
    return TenantRecord(tenant_id="t1", name="t1", created_ms=0, **fields)


@pytest.mark.req("K-1")
def test_a_tenant_that_is_here_is_not_refused() -> None:
    assert refusal(tenant()) is None


@pytest.mark.req("K-1")
def test_a_request_for_a_tenant_in_transit_is_to_be_retried_soon() -> None:
    problem = refusal(tenant(moving="https://there.example"))

    assert problem is not None
    assert (problem.code, problem.headers) == ("Unavailable", {"Retry-After": "1"})


@pytest.mark.parametrize(("place", "headers"), [
    ("https://there.example", {"Location": "https://there.example"}),
    ("http://there.example", {"Location": "http://there.example"}),
    ("postgresql://there/db", {}),  # A store is not an address for a client.
])
def test_a_request_for_a_moved_tenant_names_its_new_address(place: str, headers: dict[str, str]) -> None:
    problem = refusal(tenant(moved_to=place))

    assert problem is not None
    assert problem.code == "MisdirectedRequest"
    assert problem.headers == headers


async def put(ledger: Ledger, *tenants: TenantRecord) -> None:
    await ledger.commit(WriteBatch([Put(one) for one in tenants]))


@pytest.mark.anyio
@pytest.mark.req("K-1")
async def test_a_tenant_that_was_moved_back_is_open_without_another_look() -> None:
    ledger = MemoryLedger()
    places = TenantPlaces(ledger)
    await put(ledger, tenant(moved_to="https://there.example"))
    await places.load()
    assert (places.closed, places.is_closed("t1")) == ({"t1"}, True)
    with pytest.raises(Problem, match=r"there\.example"):
        await places.check_open("t1")

    await put(ledger, tenant())
    await places.check_open("t1")

    assert not places.is_closed("t1")


@pytest.mark.anyio
@pytest.mark.req("K-1")
async def test_the_runners_of_a_tenant_that_was_moved_here_know_its_former_gateway() -> None:
    ledger = MemoryLedger()
    places = TenantPlaces(ledger)
    await put(ledger, tenant(known_as="gw_former"))

    await places.load()

    assert (places.gateway_id("t1"), places.gateway_id("t2")) == ("gw_former", None)
