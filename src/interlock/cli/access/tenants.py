"""`interlock tenants`: the tenants of a gateway (K-1)."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.columns import Layout
from interlock.cli.display.terminal import one_line, print_sentence, say
from interlock.cli.display.values import ago
from interlock.cli.options import Json
from interlock.cli.short_ids import checked_name
from interlock.cli.verb_answer import ListTable, print_answer
from interlock.protocol.access import Tenant
from interlock.protocol.answers import TenantList
from interlock.protocol.api.access import LIST_TENANTS
from interlock.sdk.requests.access import make_tenant, restore_tenant, suspend_tenant
from interlock.sdk.requests.base import read

TENANTS = ListTable[TenantList](
    header=("TENANT", "NAME", "STATE", "CREATED"),
    rows=lambda answer: [[one.tenant_id, one.name, _state(one), ago(one.created_at)] for one in answer.tenants],
    layout=Layout(text=("NAME",), drop=("CREATED",)))
Id = Annotated[str, Parameter(name="TENANT", help="The tenant's id: a-z, 0-9 and -.")]


def tenants(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List tenants."""
    return print_answer(where, read(LIST_TENANTS), TENANTS.show, json=json)


def create(
    tenant: Id,
    /,
    *,
    name: Annotated[str, Parameter(help="A name for people.")] = "",
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Create a tenant."""
    def show(made: Tenant) -> None:
        print_sentence(f"{made.tenant_id} is made")
        say(f"its first key: interlock keys create WHO --role admin --tenant {made.tenant_id}")

    return print_answer(where, make_tenant(tenant, name=name), show, json=json)


def suspend(tenant: Id, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """Suspend a tenant: all its credentials are refused."""
    checked_name("tenant", tenant, "interlock tenants")
    return print_answer(where, suspend_tenant(tenant), lambda one: print_sentence(f"{one.tenant_id} is suspended"),
                        json=json)


def restore(tenant: Id, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """End a tenant's suspension."""
    checked_name("tenant", tenant, "interlock tenants")
    return print_answer(where, restore_tenant(tenant), lambda one: print_sentence(f"{one.tenant_id} is restored"),
                        json=json)


def _state(tenant: Tenant) -> str:
    if tenant.moved_to is not None:
        return f"moved to {one_line(tenant.moved_to)}"
    return "suspended" if tenant.suspended else "good"
