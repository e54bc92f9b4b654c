"""The list of sessions and its filters (J-11)."""

from __future__ import annotations

import pytest

from gateway.rest.test_routes import refused
from small_gateway.running import Gateway

pytestmark = pytest.mark.anyio


async def ids(gateway: Gateway, **query: str) -> list[str]:
    page = (await gateway.http.get("/v1/sessions", params=query)).json()
    assert page["has_more"] is (page["next_cursor"] is not None)
    return [one["session_id"] for one in page["items"]]


@pytest.mark.req("J-11", "N-3")
async def test_sessions_are_found_by_their_fields_and_pending_approvals(gateway: Gateway) -> None:
    await gateway.desk.add_session("s1", updated_ms=30)
    await gateway.desk.add_session("s2", updated_ms=20, agent_id="Goose", state="closed", runner_id="r2")
    await gateway.desk.add_session("s3", updated_ms=10, workspace="/srv/Other", session_key="agent:shell:dm:ann")
    await gateway.desk.add_approval("apr_1", session_id="s3")
    await gateway.desk.add_approval("apr_2", session_id="s3")
    await gateway.desk.add_approval("apr_3", session_id="s2", state="denied")
    assert await ids(gateway) == ["s1", "s2", "s3"]
    assert await ids(gateway, state="closed") == await ids(gateway, agent="Goose") == ["s2"]
    assert await ids(gateway, runner="r2") == ["s2"]
    assert await ids(gateway, workspace="/srv/Other") == await ids(gateway, key="agent:shell:dm:ann") == ["s3"]
    assert await ids(gateway, waiting="true") == ["s3"]
    assert await ids(gateway, waiting="true", state="closed") == []
    assert await ids(gateway, q="GOOSE") == ["s2"]
    assert await ids(gateway, q="dm:ann") == ["s3"]
    assert await ids(gateway, q="nowhere") == []
    listed = (await gateway.http.get("/v1/sessions")).json()["items"]
    assert [one["waiting"] for one in listed] == [0, 0, 2]
    assert (await gateway.http.get("/v1/sessions/s3")).json()["waiting"] == 2
    refused(await gateway.http.get("/v1/sessions", params={"waiting": "perhaps"}), "InvalidPayload")


@pytest.mark.req("N-3")
async def test_a_filtered_list_is_paged_like_any_other(gateway: Gateway) -> None:
    for number in range(6):
        await gateway.desk.add_session(f"s{number}", updated_ms=number, agent_id="a" if number % 2 else "b")
    for query in ({"agent": "a"}, {"q": "s", "agent": "a"}):
        first = (await gateway.http.get("/v1/sessions", params={**query, "limit": "2"})).json()
        rest = (await gateway.http.get("/v1/sessions", params={**query, "cursor": first["next_cursor"]})).json()
        assert [one["session_id"] for one in [*first["items"], *rest["items"]]] == ["s5", "s3", "s1"]
        assert rest["has_more"] is False
