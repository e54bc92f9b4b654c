"""`interlock audit export` and `audit verify`: write the log to a file, and verify that it was not changed (U-5)."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from interlock.app.scratch_directory import EXPORT_PREFIX, scratch_directory
from interlock.cli.audit.audit_proof import verify_proof
from interlock.cli.config.place import NOWHERE, PUBLIC_KEY_FILE, Here, Where
from interlock.cli.display.progress import agreed, so_far
from interlock.cli.display.terminal import is_terminal, print_json, print_sentence, say, transient
from interlock.cli.display.values import count
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import GatewayLink, ask_gateway
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.api.audit import EXPORT_AUDIT
from interlock.protocol.extras import install
from interlock.sdk.requests import audit

ERASED_AT_ONCE = 500
"""Maximum number of records that one request names."""
MAX_LAST_LINE = 16_384
"""The checkpoint's line is not longer."""


def export(
    file: Path | None = None,
    *,
    force: Annotated[bool, Parameter(help="Replace an existing file.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Write the audit log: a line for each record, then the checkpoint.

    Parameters
    ----------
    file
        The file to write (default: standard output).
    """
    if file is not None and file.exists() and not file.is_file():
        raise usage(f"{file} is not a file.", "Name a file, or leave it out for standard output.")
    if file is not None and file.exists() and not force:
        raise usage(f"{file} is there already.", "Name another file, or replace it with --force.")
    if file is not None and not file.absolute().parent.is_dir():
        raise usage(f"There is no directory {file.absolute().parent}.", "Make it first.")
    return asyncio.run(_export(file, where))


def verify(
    file: Path | None = None,
    *,
    key: Annotated[Path | None, Parameter(help="The gateway's public key (default: the state directory's).")] = None,
    checkpoint: Annotated[Path | None, Parameter(
        help="A checkpoint of this log from elsewhere, such as a witness's; the log must continue it.")] = None,
    database: Annotated[bool, Parameter(help="Check the state directory's database (as without FILE).")] = False,
    proof: Annotated[Path | None, Parameter(
        help="Check a proof of one command's records, as written by `interlock ci --proof`, instead of a log.")] = None,
    json: Annotated[bool, Parameter(help="Print the report as one JSON document.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Check an audit log offline; exit status 1 when it was changed.

    Without a file, the rows of keys, rules, tenants, runners, live commands and approvals are compared with the log,
    too: each that has no record, or is another than its record says, is named.

    Parameters
    ----------
    file
        An exported log; without it, the log of the state directory itself.
    """
    if proof is not None:
        if file is not None or database or checkpoint is not None:
            raise usage("--proof names the file to check.", "Leave the log, --database and --checkpoint out.")
        return verify_proof(proof, key, where, json=json)
    if file is not None and database:
        raise usage("--database checks the state directory, and a file was named.", "Name one of the two.")
    if file is None and checkpoint is not None:
        raise usage("--checkpoint belongs to a file.", "Name the exported log, too.")
    report = _verify_file(file, key, checkpoint, where) if file is not None else _verify_state(where, key)
    if json:
        print_json(msgspec.json.encode(report))
    elif report.ok:
        print_sentence(f"ok: {report.message}")
    else:
        place = f" at record {report.seq}" if report.seq is not None else ""
        kind = f" ({report.kind})" if report.kind is not None else ""
        print_sentence(f"not ok{place}{kind}: {report.message}")
        for sentence in report.rows:
            print_sentence(f"  {sentence}")
    return ExitStatus.DONE if report.ok else ExitStatus.FAILED


def erase(
    *records: int,
    who: Annotated[str | None, Parameter(help="Erase the personal data of all records of this actor, such as "
                                              "user:ann.")] = None,
    yes: Annotated[bool, Parameter(name=["--yes", "-y"], help="Do not ask for confirmation.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Erase personal data (comments, reasons, addresses) that the audit log only commits to; it cannot be undone.

    Parameters
    ----------
    records
        Numbers of records.
    """
    if bool(records) == bool(who):
        raise usage("Name either records or --who.", "For one: interlock audit erase --who user:ann")
    if not yes:
        if not is_terminal(sys.stdin):
            raise usage("Erasing cannot be undone.", "Say --yes.")
        meant = f"all records of {who}" if who else count(len(records), "record")
        say(f"Erase the personal data of {meant}, for good?")
        if not agreed():
            say("nothing was erased")
            return ExitStatus.FAILED
    erased = ask_gateway(where, lambda link: _erase(link, records, who))
    print_sentence(f"personal data of {count(erased, 'record')} erased")
    return ExitStatus.DONE


async def _erase(link: GatewayLink, records: tuple[int, ...], who: str | None) -> int:
    """Erase in as many requests as necessary; returns how many records had personal data. Raises Trouble."""
    erased = 0
    for first in range(0, max(1, len(records)), ERASED_AT_ONCE):
        has_more = True
        while has_more:
            named = None if who else records[first : first + ERASED_AT_ONCE]
            answer = await link.ask(audit.erase(records=named, who=who))
            erased, has_more = erased + len(answer.erased), answer.has_more and bool(answer.erased)
    return erased


def _end_of(file: Path) -> bytes:
    """Read the end of a file, or all of a short one."""
    with file.open("rb") as end:
        end.seek(max(0, file.stat().st_size - MAX_LAST_LINE))
        return end.read()


def _last_line(file: Path) -> bytes:
    """Read the line that should be the checkpoint."""
    return (_end_of(file).splitlines(keepends=True) or [b""])[-1]


def _kept(checkpoint: Path) -> tuple[Any]:
    """Read a checkpoint, as a note or as a line of a sink. Raises OSError, Trouble."""
    from interlock.command.audit.audit_lines import parse_checkpoint_line
    from interlock.command.audit.note import NotANote, parse_checkpoint

    if checkpoint.exists() and not checkpoint.is_file():
        raise usage(f"{checkpoint} is not a file.", "Name a file with a checkpoint.")
    raw = _end_of(checkpoint)
    lines = raw.splitlines(keepends=True)
    found = parse_checkpoint_line(lines[-1]) if lines else None
    try:
        return (found or parse_checkpoint(raw.decode()),)
    except (NotANote, UnicodeError) as error:
        raise usage(f"{checkpoint} is not a checkpoint: {error}") from None


def _aside(file: Path | None) -> AbstractContextManager[Path | None]:
    """Return a directory beside the file, of this export alone: two exports into one file do not write into each
    other."""
    return nullcontext() if file is None else scratch_directory(file.absolute().parent, EXPORT_PREFIX)


async def _export(file: Path | None, where: Where) -> int:
    async with GatewayLink(where) as link:
        lines = 0
        try:
            with _aside(file) as place:
                part = place / "log" if place is not None else None
                sink: Any = part.open("wb") if part is not None else sys.stdout.buffer
                try:
                    async for chunk in link.download(EXPORT_AUDIT.at()):
                        if part is None:
                            transient(None)
                        sink.write(chunk)
                        lines += chunk.count(b"\n")
                        so_far(count(lines, "record"))
                    sink.flush()
                    if part is not None:
                        os.fsync(sink.fileno())
                finally:
                    if part is not None:
                        sink.close()
                if part is not None and file is not None:
                    part.replace(file)
        except BrokenPipeError:
            raise
        except OSError as error:
            if file is None:
                raise  # Standard output: the caller reports it.
            raise usage(f"{file} cannot be written: {error.strerror}.", "Name another file.") from None
    if file is not None:
        say(f"{count(max(0, lines - 1), 'record')} in {file}; check it with: interlock audit verify {file}", "dim")
    elif is_terminal(sys.stdout):
        say("keep it with: interlock audit export FILE", "dim")
    return ExitStatus.DONE


def _verify_file(file: Path, key: Path | None, checkpoint: Path | None, where: Where) -> Any:
    from interlock.command.audit.audit_check import compare
    from interlock.command.audit.audit_check import verify as verify_lines
    from interlock.command.audit.audit_quick import is_whole
    from interlock.gateway.audit.signing_key import KeyUnusable, load_public_key

    path = key or where.directory() / PUBLIC_KEY_FILE
    public = None
    if key is not None or path.exists():
        try:
            public = load_public_key(path)
        except KeyUnusable as error:
            raise usage(str(error), "Name the gateway's public key with --key.") from None
    if file.exists() and not file.is_file():
        raise usage(f"{file} is not a file, and a log is read more than once.", "Write it to a file first.")
    try:
        kept = _kept(checkpoint) if checkpoint is not None else None
        with file.open("rb") as lines:
            if public is not None and (whole := is_whole(lines, _last_line(file), public, kept or ())) is not None:
                return whole
            lines.seek(0)
            return compare(lines, kept[0], public) if kept else verify_lines(lines, public)
    except OSError as error:
        raise usage(f"{file} cannot be read: {error.strerror}.", "Name an exported log.") from None


def _verify_state(where: Where, key: Path | None) -> Any:
    from interlock.app.data_migration.departure import why_not_here
    from interlock.app.own_database import has_own_database, own_database, state_of_gateway
    from interlock.app.own_servers import ServerMissing
    from interlock.backends.sqlite.ledger import LEDGER_NAME
    from interlock.cli.config.loaded_config import load_config
    from interlock.gateway.audit.audit_state import verify_ledger_file
    from interlock.gateway.audit.signing_key import KeyUnusable
    from interlock.ports.ledger import LedgerError

    if key is not None:
        raise usage("--key belongs to a file.", "Name the exported log, too.")
    state = state_of_gateway(where.directory())
    try:
        (state / PUBLIC_KEY_FILE).stat()
    except FileNotFoundError:
        raise Trouble("NotFound", f"There is no audit log in {state}.",
                      "Name an exported file, or the state directory with --state.") from None
    except OSError as error:  # For example another user's directory.
        raise usage(f"{state} cannot be read: {error.strerror}.",
                    "Verify as the user of the gateway, or name an exported file.") from None
    try:
        store = load_config(where).cluster.store
        if store is None and not (state / LEDGER_NAME).exists() and has_own_database(state):
            with own_database(state) as own:
                return verify_ledger_file(state, own)
        if store is None and (moved := why_not_here(state)) is not None:
            raise Trouble("Unreadable", moved, "Then the log is verified there, against the checkpoints of this "
                          "directory.")
        return verify_ledger_file(state, store)
    except ServerMissing as missing:
        raise Trouble("Unreadable", f"The database of this cluster does not run, and could not be started: {missing}",
                      f"Start it with: interlock up --cluster 1 --state {state}") from None
    except ModuleNotFoundError as error:
        raise usage(f"The PostgreSQL driver is not installed ({error.name}).",
                    f"Install it: {install('cluster')}") from None
    except KeyUnusable as error:
        raise usage(str(error)) from None
    except LedgerError as error:
        raise Trouble("Unreadable", str(error), "Check the state directory with: interlock doctor. A cluster's log is "
                      "exported first, unless [cluster] store names its database.") from None
