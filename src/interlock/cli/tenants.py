"""`interlock tenants`: what houses there are in this gateway (K-1)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from cyclopts import Parameter

from interlock.cli.columns import Layout
from interlock.cli.exit_status import ExitStatus
from interlock.cli.gateway_link import GatewayLink, decoded
from interlock.cli.place import NOWHERE, Here, Where
from interlock.cli.terminal import one_line, print_json, print_sentence, print_table, say
from interlock.cli.values import ago
from interlock.protocol.access import Tenant
from interlock.protocol.api.access import LIST_TENANTS, MAKE_TENANT, RESTORE_TENANT, SUSPEND_TENANT
from interlock.protocol.api.operation import Operation

Json = Annotated[bool, Parameter(help="Print one JSON document.")]
COLUMNS = Layout(text=("NAME",), drop=("MADE",))
Id = Annotated[str, Parameter(name="TENANT", help="The tenant's id: a-z, 0-9 and -.")]


def tenants(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List tenants."""
    return asyncio.run(_list(where, json=json))


def create(
    tenant: Id,
    /,
    *,
    name: Annotated[str, Parameter(help="A name for people.")] = "",
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Make a tenant."""
    return asyncio.run(_create(tenant, name, where, json=json))


def suspend(tenant: Id, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """Refuse every credential of a tenant."""
    return asyncio.run(_change(tenant, SUSPEND_TENANT, "suspended", where, json=json))


def restore(tenant: Id, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """Accept a tenant's credentials again."""
    return asyncio.run(_change(tenant, RESTORE_TENANT, "restored", where, json=json))


async def _list(where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        raw = await link.get(LIST_TENANTS.at())
    if json:
        print_json(raw)
        return ExitStatus.DONE
    print_table([[one.tenant_id, one.name, _standing(one), ago(one.created_at)]
                 for one in decoded(raw, dict[str, list[Tenant]], LIST_TENANTS.at())["tenants"]],
                ("TENANT", "NAME", "STATE", "MADE"), COLUMNS)
    return ExitStatus.DONE


def _standing(tenant: Tenant) -> str:
    if tenant.moved_to is not None:
        return f"moved to {one_line(tenant.moved_to)}"
    return "suspended" if tenant.suspended else "good"


async def _create(tenant: str, name: str, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        raw = await link.send(MAKE_TENANT.at(), {"tenant_id": tenant, "name": name})
    if json:
        print_json(raw)
    else:
        print_sentence(f"{tenant} is made")
        say(f"its first key: interlock keys create WHO --role admin --tenant {tenant}")
    return ExitStatus.DONE


async def _change(tenant: str, operation: Operation[Any], done: str, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        raw = await link.send(operation.at(tenant), {})
    if json:
        print_json(raw)
    else:
        print_sentence(f"{tenant} is {done}")
    return ExitStatus.DONE
