"""`interlock audit export` and `audit verify`: the log as a file, and the proof that nobody changed it (U-5)."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import httpx2
import msgspec
from cyclopts import Parameter

from interlock.cli.exit_status import Exit
from interlock.cli.gateway_link import GatewayLink, unreachable
from interlock.cli.place import NOWHERE, PUBLIC_KEY_FILE, Here, Where
from interlock.cli.terminal import is_terminal, print_json, result, say
from interlock.cli.trouble import Trouble, usage
from interlock.cli.values import count


def export(
    file: Path | None = None,
    *,
    force: Annotated[bool, Parameter(help="Replace a file that is there.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Write the audit log: a line for each record, then the checkpoint.

    Parameters
    ----------
    file
        Where to; without it, standard output.
    """
    if file is not None and file.exists() and not force:
        raise usage(f"{file} is there already.", "Name another file, or replace it with --force.")
    if file is not None and not file.absolute().parent.is_dir():
        raise usage(f"There is no directory {file.absolute().parent}.", "Make it first.")
    return asyncio.run(_export(file, where))


def verify(
    file: Path | None = None,
    *,
    key: Annotated[Path | None, Parameter(help="The gateway's public key (default: the state directory's).")] = None,
    json: Annotated[bool, Parameter(help="Print the report as one JSON document.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Check an audit log offline; exit status 1 when it was changed.

    Parameters
    ----------
    file
        An exported log; without it, the log of the state directory itself.
    """
    report = _verify_file(file, key, where) if file is not None else _verify_state(where, key)
    if json:
        print_json(msgspec.json.encode(report))
    elif report.ok:
        result(f"ok: {report.message}")
    else:
        place = f" at record {report.seq}" if report.seq is not None else ""
        kind = f" ({report.kind})" if report.kind is not None else ""
        result(f"not ok{place}{kind}: {report.message}")
    return Exit.DONE if report.ok else Exit.FAILED


async def _export(file: Path | None, where: Where) -> int:
    async with GatewayLink(where) as link:
        part = file.with_name(file.name + ".part") if file is not None else None
        lines = 0
        try:
            sink: Any = part.open("wb") if part is not None else sys.stdout.buffer
            try:
                async for chunk in link.download("/v1/audit/export"):
                    sink.write(chunk)
                    lines += chunk.count(b"\n")
                sink.flush()
                if part is not None:
                    os.fsync(sink.fileno())
            finally:
                if part is not None:
                    sink.close()
            if part is not None and file is not None:
                part.replace(file)
        except httpx2.TransportError as error:
            raise unreachable(link.address, error) from None
        except BrokenPipeError:
            raise
        except OSError as error:
            raise usage(f"{file} cannot be written: {error.strerror}.", "Name another file.") from None
        finally:
            if part is not None:
                with suppress(OSError):
                    part.unlink(missing_ok=True)
    if file is not None:
        say(f"{count(max(0, lines - 1), 'record')} in {file}; check it with: interlock audit verify {file}", "dim")
    elif is_terminal(sys.stdout):
        say("keep it with: interlock audit export FILE", "dim")
    return Exit.DONE


def _verify_file(file: Path, key: Path | None, where: Where) -> Any:
    from interlock.command.audit_check import verify as verify_lines
    from interlock.gateway.signing import KeyUnusable, load_public_key

    path = key or where.directory() / PUBLIC_KEY_FILE
    public = None
    if key is not None or path.exists():
        try:
            public = load_public_key(path)
        except KeyUnusable as error:
            raise usage(str(error), "Name the gateway's public key with --key.") from None
    try:
        with file.open("rb") as lines:
            return verify_lines(lines, public)
    except OSError as error:
        raise usage(f"{file} cannot be read: {error.strerror}.", "Name an exported log.") from None


def _verify_state(where: Where, key: Path | None) -> Any:
    from interlock.gateway.audit_state import verify_ledger_file
    from interlock.gateway.signing import KeyUnusable
    from interlock.ports.ledger import LedgerError

    if key is not None:
        raise usage("--key belongs to a file.", "Name the exported log, too.")
    state = where.directory()
    try:
        (state / PUBLIC_KEY_FILE).stat()
    except FileNotFoundError:
        raise Trouble("NotFound", f"There is no audit log in {state}.",
                      "Name an exported file, or the state directory with --state.") from None
    except OSError as error:  # Another user's directory, for one.
        raise usage(f"{state} cannot be read: {error.strerror}.",
                    "Verify as the user of the gateway, or name an exported file.") from None
    try:
        return verify_ledger_file(state)
    except KeyUnusable as error:
        raise usage(str(error)) from None
    except LedgerError as error:
        raise Trouble("Unreadable", str(error), "Check the state directory with: interlock doctor") from None
