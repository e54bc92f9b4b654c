"""`interlock backup` and `interlock restore`: write a state directory to one file, and restore it."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from interlock.app.state_backup import BackupRefused, BackupReport, read_backup, restore_backup, write_backup
from interlock.cli.config.place import NOWHERE_ON_HOST, HereOnHost
from interlock.cli.display.terminal import print_json, print_sentence, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.options import Json
from interlock.cli.verb_error import Trouble, usage
from interlock.command.audit.audit_report import plural

Archive = Annotated[Path, Parameter(help="The backup's file, such as interlock-2026-01-31.tar.gz.")]


def backup(
    file: Archive,
    /,
    *,
    json: Json = False,
    where: HereOnHost = NOWHERE_ON_HOST,
) -> int:
    """Copy a state directory into one file while its gateway runs, and verify the copy."""
    archive = file.expanduser().absolute()
    return _reported(lambda: write_backup(where.directory(), archive, time.time_ns() // 1_000_000,
                                          version("interlock")), f"backed up into {archive}", archive, json)


def restore(
    file: Archive,
    /,
    *,
    check: Annotated[bool, Parameter(help="Only verify the backup; nothing is restored.")] = False,
    json: Json = False,
    where: HereOnHost = NOWHERE_ON_HOST,
) -> int:
    """Put a backup into a state directory that is absent or empty: all of it or nothing."""
    archive = file.expanduser().absolute()
    if not archive.is_file():
        raise usage(f"There is no file {archive}.", "Name a file that `interlock backup` has written.")
    if check:
        return _reported(lambda: read_backup(archive), f"verified {archive}", archive, json)
    existed = where.state is None or os.path.lexists(where.state.expanduser())
    state = where.made_directory()
    try:
        status = _reported(lambda: restore_backup(archive, state), f"restored into {state}", state, json)
    except Trouble:
        if not existed:
            with suppress(OSError):
                state.rmdir()
        raise
    if not json:
        say("start it with `interlock up`. What came after the backup is not in it; runners that have it say so when "
            "they connect (interlock status)", "dim")
    return status


def _reported(work: Callable[[], BackupReport], done: str, place: Path, json: bool) -> int:
    try:
        report = work()
    except BackupRefused as error:
        raise Trouble("Conflict", str(error)) from None
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise Trouble("Conflict", f"{error.filename or place} cannot be written or read: {error.strerror}. "
                      + ("Free some space or name another place." if is_full else "Name another place.")) from None
    if json:
        print_json(msgspec.json.encode(report))
    else:
        print_sentence(f"{done}: {report.gateway_id} as of {report.made_at}, {plural(report.files, 'file')} of "
                       f"{_size(report.size)}, {plural(report.transcripts, 'transcript')}")
        say(report.message, "green" if report.ok else "red")
    return ExitStatus.DONE if report.ok else ExitStatus.FAILED


def _size(count: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 10_000:
            return f"{count} {unit}"
        count //= 1_000
    return f"{count} GB"
