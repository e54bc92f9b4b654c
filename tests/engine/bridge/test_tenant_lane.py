"""The lane of requests that concern no session has a name that no session has, and its tenant in it."""

from __future__ import annotations

from interlock.engine.bridge.tenant_lane import is_tenant_lane, tenant_lane_id, tenant_lane_state


def test_a_tenants_lane_is_recognised_by_its_name() -> None:
    assert is_tenant_lane(tenant_lane_id("t1"))
    assert not is_tenant_lane("01JAAAAAAAAAAAAAAAAAAAAAAA")
    assert tenant_lane_id("t1") != tenant_lane_id("t2")


def test_its_state_is_built_from_its_name_and_its_agent_requests_permission() -> None:
    state = tenant_lane_state(tenant_lane_id("t1"), 7)

    assert (state.tenant_id, state.session_id, state.created_ms) == ("t1", tenant_lane_id("t1"), 7)
    assert (state.permission, state.opening, state.session_key) == ("asks", "closed", "")
