"""Methods of the ledger's rows: sums of usage, roles as the audit log names them, tenants that moved."""

from __future__ import annotations

import gc

import msgspec
import pytest

from interlock.protocol.records import USAGE_FIGURES, CommandRecord, Principal, TenantRecord, UsageRecord
from interlock.protocol.resources import Actor, Command, Target

USAGE = UsageRecord(tenant_id="t", day="2026-11-25", agent_id="shell", model="m", session_id="s", person="user:ann",
                    **{name: number for number, name in enumerate(USAGE_FIGURES, start=1)})


@pytest.mark.req("J-13")
def test_figures_of_usage_add_up_and_their_key_stays() -> None:
    other = msgspec.structs.replace(USAGE, day="2026-11-26", turns=10)
    both = USAGE.plus(other)
    assert (both.turns, both.cost_micros) == (11, 14)
    assert [getattr(both, name) for name in USAGE_FIGURES[1:]] == [
        2 * getattr(USAGE, name) for name in USAGE_FIGURES[1:]]
    assert both.day == USAGE.day
    assert USAGE.turns == 1


def test_every_field_but_the_figures_is_the_key_of_a_usage_record() -> None:
    place = [name for name in UsageRecord.__struct_fields__ if name not in USAGE_FIGURES]
    assert UsageRecord.__struct_fields__ == (*place, *USAGE_FIGURES)
    assert all(isinstance(getattr(USAGE, name), int) for name in USAGE_FIGURES)


@pytest.mark.req("K-1")
def test_a_principal_with_several_roles_is_one_line_in_the_audit_log() -> None:
    principal = Principal(tenant_id="t", actor=Actor(type="agent", id="bot"), role="approver+operator", key_id="k")
    assert principal.roles == {"approver", "operator"}
    assert principal.who == {"id": "agent:bot", "role": "approver+operator"}


@pytest.mark.parametrize(("moved_to", "sentence"), [
    (None, ""), ("https://b.example", "The tenant t was moved to https://b.example.")])
def test_a_moved_tenant_has_its_new_address(moved_to: str | None, sentence: str) -> None:
    assert TenantRecord(tenant_id="t", name="", created_ms=0, moved_to=moved_to).moved == sentence


def test_waiting_commands_are_not_tracked_by_the_garbage_collector() -> None:
    """Each look at the old objects would grow with the queues, which hold no cycle."""
    command = Command(id="cmd_1", created_at="", updated_at="", tenant_id="t", actor=Actor(type="user", id="ann"),
                      type="execute", target=Target(agent_id="shell"), state="queued", timeout_ms=1)
    record = CommandRecord(command=command, session_id="s", created_ms=0)
    assert [type(one).__name__ for one in (record, command, command.target, command.actor) if gc.is_tracked(one)] == []
