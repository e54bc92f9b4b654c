"""`interlock migrate`: move a ledger from one machine's files to PostgreSQL, or back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from interlock.cli.config.place import NOWHERE_ON_HOST, OWNER_KEY_FILE, HereOnHost, writable
from interlock.cli.display.terminal import print_json, print_sentence, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.options import Json
from interlock.cli.verb_error import Trouble, usage
from interlock.config import FILE_NAME
from interlock.protocol.extras import install


def migrate(
    *,
    to: Annotated[str | None, Parameter(help="An empty PostgreSQL database: postgresql://user@host/name; "
                                             "with --tenant, the database of the destination cluster.")] = None,
    from_: Annotated[str | None, Parameter(name="--from", help="The database of stopped gateways, if the "
                                                               "ledger is not in the state directory. With --tenant: "
                                                               "the database that has the tenant.")] = None,
    tenant: Annotated[str | None, Parameter(help="Move only this tenant: online if gateways run on --from, "
                                                 "otherwise it must be suspended.")] = None,
    to_state: Annotated[Path | None, Parameter(help="With --tenant: a directory with the destination's gateway.key."
                                               )] = None,
    at: Annotated[str | None, Parameter(help="With --tenant: the destination's address, which the source "
                                             "reports to clients and runners (default: the database's).")] = None,
    dry_run: Annotated[bool, Parameter(help="With --tenant: print what would move, and change nothing.")] = False,
    json: Json = False,
    where: HereOnHost = NOWHERE_ON_HOST,
) -> int:
    """Move a ledger, its transcripts and its audit log between the state directory and PostgreSQL: all or nothing."""
    if tenant is None and (to_state is not None or at is not None or dry_run):
        raise usage("--to-state, --at and --dry-run belong to --tenant.")
    if tenant is not None and to is None:
        raise usage("Name with --to the database of the cluster that takes the tenant.")
    if tenant is None and (to is None) == (from_ is None):
        raise usage("Name either --to or --from.", "For one: interlock migrate --to postgresql://me@db/interlock")
    try:
        from interlock.app.data_migration.into_files import move_into_files
        from interlock.app.data_migration.into_postgres import move_into_postgres
        from interlock.cli.storage.migrate_tenant import MoveRequest, migrate_tenant
    except ModuleNotFoundError as error:
        raise usage(f"The PostgreSQL driver is not installed ({error.name}).",
                    f"Install it: {install('cluster')}") from None
    from interlock.app.data_migration.report import MoveRefused
    from interlock.app.place import SystemClock
    from interlock.backends.sqlite.lock import AlreadyRunning
    from interlock.log import configure
    from interlock.ports.ledger import LedgerError

    configure()  # Standard output has only the report, as a JSON document if requested.
    state = where.made_directory() if from_ is not None else where.directory()
    if tenant is not None and to is not None:
        return migrate_tenant(MoveRequest(tenant, state, from_, to, to_state, at, dry_run), json=json)
    writable(state)
    move = move_into_postgres(state, to, SystemClock()) if to is not None else \
        move_into_files(state, from_ or "", SystemClock())
    try:
        moved = asyncio.run(move)
    except AlreadyRunning as error:
        raise Trouble("Conflict", str(error)) from None
    except (MoveRefused, LedgerError, OSError) as error:
        raise Trouble("LedgerUnusable", str(error)) from None
    if json:
        print_json(msgspec.json.encode(moved))
        return ExitStatus.DONE
    if moved.already:
        print_sentence(f"everything of the ledger at {moved.left} is in {state} already: nothing is left to move")
        return ExitStatus.DONE
    rows = sum(moved.rows.values())
    print_sentence(f"moved {moved.gateway_id}: {rows} rows of {len(moved.rows)} tables, {moved.transcripts} "
                   f"transcripts of {moved.transcript_lines} lines; {moved.audit_records} audit records checked "
                   "on both sides")
    say(f"the old ledger is at {moved.left}, and nothing works on it any more", "dim")
    if to is not None:
        from interlock.backends.postgres.database import shown

        say(f'set store = "{shown(to)}" (and its password and options) below [cluster] in '
            f"{state / FILE_NAME}, then start the gateways: keys, checkpoints and config stay in this directory")
    elif missing := _missing_beside(state):
        say(f"before a gateway starts on {state}, copy there from a state directory of the old gateways what they have "
            f"of {', '.join(missing)}; without their key and checkpoints the audit log does not verify", "bold")
    return ExitStatus.DONE


def _missing_beside(state: Path) -> list[str]:
    """Return the files that a state directory lacks and that gateways need there even if the ledger is a database: a
    move of the ledger does not move them."""
    from interlock.app.objects import OBJECTS_NAME
    from interlock.gateway.audit.audit_state import CHECKPOINTS_NAME
    from interlock.gateway.audit.signing_key import KEY_NAME, PUBLIC_NAME

    kept = (KEY_NAME, PUBLIC_NAME, OWNER_KEY_FILE, CHECKPOINTS_NAME, OBJECTS_NAME, FILE_NAME)
    return [name for name in kept if not (state / name).exists()]
