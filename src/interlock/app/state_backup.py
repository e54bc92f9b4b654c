"""Backup of a state directory to one file while its gateway runs, and its restoration (Y-15).

The order makes the copy consistent. Checkpoints are copied before the ledger, so that none covers more than the copied
ledger has. Transcripts and objects are copied after it: the ledger stores each line until its transcript has it, so a
later transcript lacks nothing. The runner's outbox is left out: agents do not outlive their runner, and a runner
without its outbox reports that when it connects (D-9).
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import IO, Any, Self, cast

import apsw
import msgspec

from interlock.app.data_migration.departure import why_not_here
from interlock.app.scratch_directory import scratch_directory
from interlock.backends.sqlite import queries
from interlock.backends.sqlite.connect import connect
from interlock.backends.sqlite.database import SqliteDatabase
from interlock.backends.sqlite.ledger import LEDGER_NAME
from interlock.command.audit.audit_report import AuditReport
from interlock.durable_files import create_file, name_new, sync_directory, sync_tree
from interlock.gateway.audit.audit_state import verify_ledger_file
from interlock.gateway.audit.signing_key import KeyUnusable
from interlock.ports.ledger import LedgerError
from interlock.protocol.clock import iso

FORMAT = 1
MANIFEST = "backup.json"
"""The archive's first file: the list of the others, by digest."""
BEFORE_LEDGER = ("gateway.key", "gateway.pub", "owner.key", "interlock.toml", "clock.json", "runner/token",
                 "audit/*.checkpoints")
AFTER_LEDGER = ("agents/*/sessions/*", "objects/**/*")
MAX_MANIFEST_BYTES = 256 * 1024 * 1024
"""A longer list of files is not read: some million files."""
MAX_HEADER_BYTES = 64 * 1024
"""Maximum length of an entry's additional header, which is read into memory; the longest path needs far less."""
ADDITIONAL = frozenset({tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME,
                        tarfile.GNUTYPE_LONGLINK})
"""Types of additional headers."""
SPARSE = "it holds a sparse file"
CHUNK_BYTES = 1 << 20
COMPRESSION = 3


class BackupRefused(Exception):
    """Raised if nothing was written; one sentence with the remedy."""


class BackupEntry(tarfile.TarInfo):
    """An entry of an archive. The archive may come from anyone: what tarfile would read into memory without a limit is
    refused before it is read."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Parse a header. Raises tarfile.ReadError for one that no backup has."""
        entry = super().frombuf(buf, encoding, errors)
        if entry.type in ADDITIONAL and entry.size > MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"it has a header of {entry.size} bytes")
        if entry.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError(SPARSE)
        return entry

    def _proc_gnusparse_10(self, *_: object) -> None:
        """Refuse the newer form of a sparse file, whose map is in the file itself."""
        raise tarfile.ReadError(SPARSE)


class BackedUpFile(msgspec.Struct, frozen=True):
    """One file of a backup, by its path in the state directory."""

    path: str
    size: int
    sha256: str


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup holds."""

    format: int
    made_at: str
    version: str
    gateway_id: str
    files: list[BackedUpFile]


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was backed up, read or restored, and whether its ledger and audit log are intact."""

    gateway_id: str
    made_at: str
    files: int
    size: int
    """Bytes of the files, before they are compressed."""
    transcripts: int
    audit_records: int
    ok: bool
    message: str


def write_backup(state: Path, archive: Path, now_ms: int, version: str) -> BackupReport:
    """Write a backup of a state directory, whose gateway may be running, and verify it as it will be restored.

    The archive appears under its name when it is complete. It is also written if the ledger or the audit log is
    damaged: `ok` of the report is False then. Raises BackupRefused, OSError.
    """
    _check_source(state, archive)
    with scratch_directory(archive.parent, ".interlock-backup-") as place:
        copy = place / "state"
        copy.mkdir(mode=0o700)
        _copy(state, copy, BEFORE_LEDGER)
        _copy_ledger(state / LEDGER_NAME, copy / LEDGER_NAME)
        _copy(state, copy, AFTER_LEDGER)
        manifest = BackupManifest(format=FORMAT, made_at=iso(now_ms), version=version,
                                  gateway_id=_gateway_id(copy / LEDGER_NAME), files=[_described(copy, path)
                                                                                      for path in _all_files(copy)])
        written = place / "archive"
        with create_file(written) as file:
            _pack(copy, manifest, file)
            file.flush()
            os.fsync(file.fileno())
        shutil.rmtree(copy)
        report = read_backup(written)
        try:
            name_new(written, archive)
        except FileExistsError:
            raise _exists(archive) from None
    return report


def read_backup(archive: Path) -> BackupReport:
    """Verify a backup: each file by its digest, the ledger's structure, and its audit log. Raises BackupRefused,
    OSError."""
    with scratch_directory(archive.parent, ".interlock-backup-") as place:
        return _unpack(archive, place / "state")


def restore_backup(archive: Path, state: Path) -> BackupReport:
    """Restore a backup to a state directory that is absent or empty, atomically.

    Raises BackupRefused, also if a file of the archive is damaged; OSError.
    """
    if state.is_symlink() or (state.exists() and (not state.is_dir() or any(state.iterdir()))):
        raise BackupRefused(f"There is something at {state} already, and a restored directory replaces nothing. Name "
                            "another with --state, or move it away first.")
    state.parent.mkdir(parents=True, exist_ok=True)
    with scratch_directory(state.parent, ".interlock-restore-") as place:
        copy = place / "state"
        report = _unpack(archive, copy)
        sync_tree(copy)  # Otherwise a power loss could leave a directory that lacks some files.
        if state.is_dir():
            state.rmdir()
        copy.rename(state)
        sync_directory(state.parent)
    return report


def _check_source(state: Path, archive: Path) -> None:
    if (moved := why_not_here(state)) is not None:
        raise BackupRefused(f"{moved} Back up that database with its own means, such as pg_dump.")
    if not (state / LEDGER_NAME).is_file():
        raise BackupRefused(f"There is no ledger at {state / LEDGER_NAME}. Name the state directory of a gateway with "
                            "--state; a ledger in PostgreSQL is backed up with its own means, such as pg_dump.")
    if archive.exists() or archive.is_symlink():
        raise _exists(archive)
    if not archive.parent.is_dir():
        raise BackupRefused(f"There is no directory {archive.parent}. Make it first.")


def _exists(archive: Path) -> BackupRefused:
    return BackupRefused(f"There is a file {archive} already, and a backup replaces nothing. Name another one.")


def _copy(state: Path, copy: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for path in sorted(state.glob(pattern)):
            if path.is_symlink() or not path.is_file() or path.name.startswith("."):
                continue
            target = _place(copy, path.relative_to(state).as_posix())
            try:
                with path.open("rb") as source, create_file(target) as file:
                    shutil.copyfileobj(source, file, CHUNK_BYTES)
            except FileNotFoundError:
                continue  # Replaced or pruned meanwhile.


def _place(copy: Path, path: str) -> Path:
    """Return a file's destination; the directories above it are created, private to the owner."""
    place = copy
    for part in PurePosixPath(path).parts[:-1]:
        place = place / part
        place.mkdir(mode=0o700, exist_ok=True)
    return place / PurePosixPath(path).name


def _copy_ledger(source: Path, target: Path) -> None:
    """Copy the ledger at one instant, while its gateway continues to write."""
    try:
        create_file(target).close()
        with closing(connect(source, read_only=True)) as reading, closing(_database(target)) as writing:
            with cast("Any", writing).backup("main", reading, "main") as backup:
                backup.step(-1)
            writing.pragma("journal_mode", "delete")
    except apsw.FullError:  # Of the copy: nothing is written to the source.
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
    except (apsw.Error, LedgerError) as error:
        raise BackupRefused(f"The ledger {source} cannot be copied: {error}. Look at it with `interlock doctor`."
                            ) from None


def _gateway_id(ledger: Path) -> str:
    try:
        with closing(_database(ledger)) as copied:
            return str(copied.execute(queries.STORE_VALUE, ("gateway_id",)).get)
    except apsw.Error as error:
        raise BackupRefused(f"The ledger cannot be read: {error}. Look at it with `interlock doctor`.") from None


def _database(path: Path) -> SqliteDatabase:
    return cast("SqliteDatabase", apsw.Connection(str(path)))


def _all_files(copy: Path) -> Iterator[str]:
    for path in sorted(copy.rglob("*")):
        if path.is_file():
            yield path.relative_to(copy).as_posix()


def _described(copy: Path, path: str) -> BackedUpFile:
    with (copy / path).open("rb") as file:
        return BackedUpFile(path, os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())


def _pack(copy: Path, manifest: BackupManifest, file: IO[bytes]) -> None:
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=COMPRESSION, format=tarfile.PAX_FORMAT) as tar:
        body = msgspec.json.encode(manifest)
        with tempfile.TemporaryFile() as listed:
            listed.write(body)
            listed.seek(0)
            tar.addfile(_member(MANIFEST, len(body)), listed)
        for one in manifest.files:
            with (copy / one.path).open("rb") as source:
                tar.addfile(_member(one.path, one.size), source)


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    return member


def _unpack(archive: Path, copy: Path) -> BackupReport:
    """Unpack into `copy`, which is created, and verify. Raises BackupRefused."""
    copy.mkdir(mode=0o700)
    try:
        with tarfile.open(archive, mode="r|gz", tarinfo=BackupEntry) as tar:
            members = iter(tar)
            manifest = _manifest(archive, tar, members)
            listed = {one.path: one for one in manifest.files}
            for member in members:
                expected = listed.pop(member.name, None)
                source = tar.extractfile(member) if expected is not None and member.isreg() else None
                if expected is None or source is None:
                    raise _damaged(archive, f"it holds {member.name!r}, which its list does not name")
                _write(copy, expected, source, archive)
    except (tarfile.TarError, EOFError, OSError, ValueError, RecursionError) as error:
        of_archive = (FileExistsError, IsADirectoryError, NotADirectoryError)  # It names one file twice, or as both.
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, of_archive):
            raise
        raise _damaged(archive, str(error) or type(error).__name__) from None
    if listed:
        raise _damaged(archive, f"{next(iter(listed))!r} is missing from it")
    audit = _verified(copy)
    message = audit.message.replace(f"{copy}{os.sep}", "")  # The copy's place is temporary: name what is in it.
    return BackupReport(gateway_id=manifest.gateway_id, made_at=manifest.made_at, files=len(manifest.files),
                        size=sum(one.size for one in manifest.files),
                        transcripts=sum(one.path.endswith(".jsonl") for one in manifest.files),
                        audit_records=audit.records, ok=audit.ok, message=message)


def _manifest(archive: Path, tar: tarfile.TarFile, members: Iterator[tarfile.TarInfo]) -> BackupManifest:
    first = next(members, None)
    source = tar.extractfile(first) if first is not None and first.name == MANIFEST and first.isreg() else None
    if first is None or source is None or first.size > MAX_MANIFEST_BYTES:
        raise BackupRefused(f"{archive} is not a backup of Interlock's: it does not begin with {MANIFEST}.")
    try:
        manifest = msgspec.json.decode(source.read(), type=BackupManifest)
    except msgspec.DecodeError as error:
        raise _damaged(archive, str(error)) from None
    if manifest.format != FORMAT:
        raise BackupRefused(f"{archive} was written by Interlock {manifest.version}, in a form that this version does "
                            "not read. Restore it with that version or a newer one.")
    for one in manifest.files:
        parts = PurePosixPath(one.path).parts
        if not parts or one.path.startswith("/") or ".." in parts or "\0" in one.path:
            raise _damaged(archive, f"its list names {one.path!r}")
    if all(one.path != LEDGER_NAME for one in manifest.files):
        raise _damaged(archive, f"its list does not name {LEDGER_NAME}")
    return manifest


def _write(copy: Path, expected: BackedUpFile, source: IO[bytes], archive: Path) -> None:
    target = _place(copy, expected.path)
    digest = hashlib.sha256()
    with create_file(target) as file:
        while chunk := source.read(CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    if digest.hexdigest() != expected.sha256:
        raise _damaged(archive, f"{expected.path!r} has another digest than in its list")


def _damaged(archive: Path, why: str) -> BackupRefused:
    return BackupRefused(f"The backup {archive} is damaged: {why}. Nothing was restored; take another copy of it.")


def _verified(copy: Path) -> AuditReport:
    """Check the ledger's structure and the audit log of an unpacked backup; what is found is reported, not raised."""
    ledger = copy / LEDGER_NAME
    try:
        with closing(_database(ledger)) as copied:
            found = str(copied.pragma("integrity_check", 1))
        if found != "ok":
            return AuditReport(ok=False, tenant_id=None, records=0, message=f"the ledger is damaged: {found}")
        return verify_ledger_file(copy)
    except (apsw.Error, LedgerError, KeyUnusable) as error:
        return AuditReport(ok=False, tenant_id=None, records=0, message=f"the ledger cannot be checked: {error}")
    finally:
        for suffix in ("-wal", "-shm"):
            ledger.with_name(ledger.name + suffix).unlink(missing_ok=True)
