"""`interlock migrate --tenant`: move one tenant to a cluster that has others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import msgspec

from interlock.app.data_migration.report import MoveRefused, TenantReport
from interlock.app.data_migration.tenant_handover import HandoverOrder, hand_over
from interlock.app.data_migration.tenant_move import Destination, move_tenant
from interlock.app.data_migration.tenant_source import at_work, open_source
from interlock.app.place import SystemClock
from interlock.backends.postgres.database import shown
from interlock.backends.sqlite.lock import AlreadyRunning
from interlock.cli.display.terminal import print_json, print_sentence, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.verb_error import Trouble, usage
from interlock.gateway.audit.signing_key import KEY_NAME, KeyUnusable, load_or_make_key
from interlock.ports.ledger import LedgerError


class MoveRequest(NamedTuple):
    """The request: a tenant, from the state directory or the database `store`, to the database `to`."""

    tenant: str
    state: Path
    store: str | None
    to: str
    to_state: Path | None
    place: str | None
    dry_run: bool


def migrate_tenant(request: MoveRequest, *, json: bool) -> int:
    """Move the tenant, and print what was moved. Raises Trouble."""
    if request.to_state is None or not (request.to_state / KEY_NAME).is_file():
        raise usage("Moving a tenant needs the signing key of the destination's gateways.",
                    f"Name a directory that has their {KEY_NAME} with --to-state.")
    try:
        moved = asyncio.run(_move(request, request.to_state))
    except AlreadyRunning as error:
        raise Trouble("Conflict", str(error)) from None
    except (MoveRefused, LedgerError, KeyUnusable, OSError) as error:
        raise Trouble("LedgerUnusable", str(error)) from None
    if json:
        print_json(msgspec.json.encode(moved))
        return ExitStatus.DONE
    counted = (f"{sum(moved.rows.values())} rows of {sum(map(bool, moved.rows.values()))} tables, "
               f"{moved.audit_records} audit records with the root {moved.audit_root}")
    if request.dry_run:
        print_sentence(f"would move {moved.tenant_id} to {moved.to}: {counted}")
        return ExitStatus.DONE
    print_sentence(f"moved {moved.tenant_id} to {moved.to}: {counted}, checked on both sides")
    if moved.closed_ms is not None:
        closed = f"it was closed for {moved.closed_ms / 1000:.1f} s; " if moved.closed_ms else ""
        say(f"{closed}its runners continue there by themselves: put the new address into their config", "dim")
    else:
        say("the source refuses the tenant from now on and names that place; pair its runners there", "dim")
    if moved.objects:
        say(f"copy the {moved.objects} stored files of it as well: objects are kept apart from the ledger")
    return ExitStatus.DONE


async def _move(request: MoveRequest, to_state: Path) -> TenantReport:
    clock = SystemClock()
    to = Destination(request.to, request.place or shown(request.to), load_or_make_key(to_state))
    if request.store is not None and await at_work(request.store):
        order = HandoverOrder(request.store, request.state, request.tenant, to)
        return await hand_over(order, clock, dry_run=request.dry_run)
    source = await open_source(request.state, request.store, clock)
    try:
        return await move_tenant(source, request.state, request.tenant, to, clock, dry_run=request.dry_run)
    finally:
        await source.close()
