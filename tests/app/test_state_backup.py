"""A state directory as one file and back: complete or refused after any damage to the file."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from interlock.app import state_backup
from interlock.app.scratch_directory import IN_USE
from interlock.app.state_backup import (
    MANIFEST,
    BackedUpFile,
    BackupEntry,
    BackupManifest,
    BackupRefused,
    read_backup,
    restore_backup,
    write_backup,
)
from interlock.backends.memory.clock import ManualClock
from interlock.backends.sqlite.database import SqliteDatabase
from interlock.backends.sqlite.ledger import open_ledger
from interlock.gateway.audit.signing_key import load_or_make_key

pytestmark = [pytest.mark.anyio, pytest.mark.req("Y-15")]
NOW_MS = 1_800_000_000_000
TRANSCRIPT = "agents/shell/sessions/s1.jsonl"


async def make_state(state: Path) -> None:
    """Make a state directory with an empty ledger and its keys."""
    state.mkdir(mode=0o700)
    ledger = await open_ledger(state / "ledger.db", ManualClock(NOW_MS))
    await ledger.close()
    load_or_make_key(state)


@pytest.fixture
async def state(anyio_backend: str, tmp_path: Path) -> Path:
    """A state directory with a ledger, its keys, and what a gateway and its runner leave beside them."""
    state = tmp_path / "state"
    await make_state(state)
    for name, text in {"owner.key": "ilk_x", "runner/token": "ilr_x", TRANSCRIPT: '{"type":"session"}\n',
                       "objects/ab/abcd": "bytes of a file", "cursors.json": "{}", "gateway.lock": "",
                       "runner/outbox.db": "left out", "agents/shell/sessions/.s1.written": "left out"}.items():
        (state / name).parent.mkdir(parents=True, exist_ok=True)
        (state / name).write_text(text)
    return state


@pytest.fixture
def archive(state: Path, tmp_path: Path) -> Path:
    written = tmp_path / "backup.tar.gz"
    write_backup(state, written, NOW_MS, "0.1.0")
    return written


def files_of(state: Path) -> dict[str, bytes]:
    return {path.relative_to(state).as_posix(): path.read_bytes() for path in state.rglob("*") if path.is_file()}


def test_the_backup_restores_the_essential_files_privately_and_no_others(
    state: Path, archive: Path, tmp_path: Path
) -> None:
    report = restore_backup(archive, tmp_path / "restored")
    assert (report.ok, report.made_at, report.transcripts) == (True, "2027-01-15T08:00:00.000Z", 1)
    before, after = files_of(state), files_of(tmp_path / "restored")
    assert set(after) == {"gateway.key", "gateway.pub", "owner.key", "runner/token", "ledger.db", TRANSCRIPT,
                          "objects/ab/abcd"}
    assert {name: after[name] for name in after if name != "ledger.db"} == {
        name: before[name] for name in after if name != "ledger.db"}
    for path in (tmp_path / "restored").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert archive.stat().st_mode & 0o777 == 0o600


async def test_the_restored_ledger_belongs_to_the_same_gateway(archive: Path, tmp_path: Path) -> None:
    report = restore_backup(archive, tmp_path / "restored")
    ledger = await open_ledger(tmp_path / "restored/ledger.db", ManualClock(NOW_MS))
    assert await ledger.gateway_id() == report.gateway_id
    await ledger.close()


def test_a_file_system_without_links_and_modes_holds_a_backup(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory stick with FAT or exFAT."""
    def refuse(*_of: object, **_how: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    for name in ("link", "chmod", "fchmod"):
        monkeypatch.setattr(os, name, refuse)
    archive = tmp_path / "stick" / "interlock.tar.gz"
    archive.parent.mkdir()
    assert write_backup(state, archive, NOW_MS, "1").ok
    assert read_backup(archive).ok
    assert [path.name for path in archive.parent.iterdir()] == [archive.name]
    with pytest.raises(BackupRefused, match="replaces nothing"):
        write_backup(state, archive, NOW_MS, "1")


def test_a_restore_replaces_no_file_and_leaves_none_behind(state: Path, archive: Path, tmp_path: Path) -> None:
    with pytest.raises(BackupRefused, match="replaces nothing"):
        write_backup(state, archive, NOW_MS, "0.1.0")
    with pytest.raises(BackupRefused, match="replaces nothing"):
        restore_backup(archive, state)
    with pytest.raises(BackupRefused, match="no directory"):
        write_backup(state, tmp_path / "absent/backup.tar.gz", NOW_MS, "0.1.0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.tar.gz", "state"]


def test_files_of_a_killed_restore_are_removed(state: Path, archive: Path, tmp_path: Path) -> None:
    for left in (".interlock-restore-abcd", ".interlock-backup-abcd"):
        (tmp_path / left / "state").mkdir(parents=True)
        (tmp_path / left / IN_USE).touch()
    restore_backup(archive, tmp_path / "restored")
    write_backup(state, tmp_path / "second.tar.gz", NOW_MS, "0.1.0")
    assert [path.name for path in tmp_path.glob(".interlock-*")] == []


def test_an_empty_directory_is_filled(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "restored").mkdir()
    assert restore_backup(archive, tmp_path / "restored").ok


def test_a_directory_without_a_ledger_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(BackupRefused, match="pg_dump"):
        write_backup(tmp_path, tmp_path / "backup.tar.gz", NOW_MS, "0.1.0")


def cut(body: bytes, place: int) -> bytes:
    return body[:place]


def flip(body: bytes, place: int) -> bytes:
    return body[:place] + bytes([body[place] ^ 0x10]) + body[place + 1:]


@pytest.mark.parametrize("damage", [cut, flip])
def test_a_damaged_backup_is_refused_and_restores_nothing(
    archive: Path, tmp_path: Path, damage: Callable[[bytes, int], bytes]
) -> None:
    whole, expected = archive.read_bytes(), files_of_backup(archive)
    refused = 0
    for place in range(0, len(whole), max(1, len(whole) // 60)):
        archive.write_bytes(damage(whole, place))
        target = tmp_path / "restored"
        try:
            restore_backup(archive, target)
        except BackupRefused:
            refused += 1
            assert not target.exists()
        else:  # A bit without meaning, such as a header's time or padding: then everything is unchanged.
            assert {name: hashlib.sha256(body).hexdigest() for name, body in files_of(target).items()} == expected
            for path in sorted(target.rglob("*"), reverse=True):
                path.unlink() if path.is_file() else path.rmdir()
            target.rmdir()
    assert refused >= 40
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.tar.gz", "state"]


def files_of_backup(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as tar:
        listed = tar.extractfile(MANIFEST)
        assert listed is not None
        return {one.path: one.sha256 for one in msgspec.json.decode(listed.read(), type=BackupManifest).files}


def made(archive: Path, listed: list[str], members: list[tarfile.TarInfo | tuple[str, bytes]], form: int = 1,
         *, ledger: bool = True) -> Path:
    """Write an archive by hand; what is listed has the digest of its name's bytes, also the `ledger`."""
    if ledger:
        listed, members = ["ledger.db", *listed], [("ledger.db", b"ledger.db"), *members]
    manifest = BackupManifest(format=form, made_at="", version="9.9", gateway_id="gw_x", files=[
        BackedUpFile(path, len(path), hashlib.sha256(path.encode()).hexdigest()) for path in listed])
    with tarfile.open(archive, "w:gz") as tar:
        for member in ((MANIFEST, msgspec.json.encode(manifest)), *members):
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                tar.addfile(info, io.BytesIO(member[1]))
    return archive


def link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


@pytest.mark.parametrize(("listed", "members"), [
    (["../outside"], [("../outside", b"../outside")]),
    (["/tmp/outside"], [("/tmp/outside", b"/tmp/outside")]),
    (["a"], [("a", b"b")]),
    (["a"], []),
    ([], [("b", b"b")]),
    (["a"], [("a", b"a"), ("a", b"a")]),
    (["a"], [link("a", "/etc/passwd")]),
    (["a"], [link("a", "b", tarfile.LNKTYPE)]),
    (["a", "a/b"], [("a", b"a"), ("a/b", b"a/b")]),
])
def test_a_forged_backup_writes_nothing_outside_its_directory(
    tmp_path: Path, listed: list[str], members: list[tarfile.TarInfo | tuple[str, bytes]]
) -> None:
    archive = made(tmp_path / "forged.tar.gz", listed, members)
    with pytest.raises(BackupRefused):
        restore_backup(archive, tmp_path / "restored")
    assert [path.name for path in tmp_path.iterdir()] == ["forged.tar.gz"]


def test_a_list_without_a_ledger_is_refused_and_none_is_made_up(tmp_path: Path) -> None:
    archive = made(tmp_path / "forged.tar.gz", ["a"], [("a", b"a")], ledger=False)
    with pytest.raises(BackupRefused, match=r"does not name ledger\.db"):
        restore_backup(archive, tmp_path / "restored")
    assert [path.name for path in tmp_path.iterdir()] == ["forged.tar.gz"]


def header(kind: bytes, **more: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo("b")
    info.type, info.size, info.pax_headers = kind, 0, more
    return info


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME,
                                  tarfile.GNUTYPE_LONGLINK])
def test_a_header_without_a_limit_is_refused_before_it_is_read(tmp_path: Path, kind: bytes) -> None:
    archive = tmp_path / "forged.tar.gz"
    forged = header(kind)
    forged.size = 1 << 40
    archive.write_bytes(gzip.compress(forged.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)))
    with pytest.raises(BackupRefused, match="a header of 1099511627776 bytes"):
        restore_backup(archive, tmp_path / "restored")


def test_a_header_of_64_kib_is_read_and_a_longer_one_refused() -> None:
    longest = header(tarfile.XHDTYPE)
    longest.size = 65_536
    assert BackupEntry.frombuf(longest.tobuf(), "utf-8", "strict").size == 65_536
    longest.size += 1
    with pytest.raises(tarfile.ReadError, match="a header of 65537 bytes"):
        BackupEntry.frombuf(longest.tobuf(), "utf-8", "strict")


@pytest.mark.parametrize("forged", [
    header(tarfile.GNUTYPE_SPARSE),
    header(tarfile.REGTYPE, **{"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}),
])
def test_a_sparse_file_is_refused(tmp_path: Path, forged: tarfile.TarInfo) -> None:
    archive = made(tmp_path / "forged.tar.gz", ["b"], [forged, ("c", b"0\n")])
    with pytest.raises(BackupRefused, match="a sparse file"):
        restore_backup(archive, tmp_path / "restored")


def test_headers_that_follow_each_other_without_end_are_refused(tmp_path: Path) -> None:
    archive = tmp_path / "forged.tar.gz"
    archive.write_bytes(gzip.compress(header(tarfile.XHDTYPE).tobuf(tarfile.USTAR_FORMAT) * 5_000))
    with pytest.raises(BackupRefused, match="is damaged"):
        restore_backup(archive, tmp_path / "restored")


def test_a_newer_format_and_a_foreign_file_are_distinguished(tmp_path: Path) -> None:
    with pytest.raises(BackupRefused, match=r"written by Interlock 9\.9"):
        read_backup(made(tmp_path / "newer.tar.gz", [], [], form=2))
    other = tmp_path / "other.tar.gz"
    with tarfile.open(other, "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("README"))
    with pytest.raises(BackupRefused, match="is not a backup"):
        read_backup(other)


def test_a_damaged_ledger_is_backed_up_with_a_warning(state: Path, tmp_path: Path) -> None:
    (state / "gateway.pub").write_text("no key")
    report = write_backup(state, tmp_path / "backup.tar.gz", NOW_MS, "0.1.0")
    assert not report.ok
    assert "gateway.pub" in report.message
    assert str(tmp_path) not in report.message
    assert (tmp_path / "backup.tar.gz").is_file()


def test_an_unreadable_ledger_leaves_no_file(state: Path, tmp_path: Path) -> None:
    with (state / "ledger.db").open("r+b") as file:
        file.truncate(os.fstat(file.fileno()).st_size // 2)
        file.seek(0)
        file.write(b"no database here")
    with pytest.raises(BackupRefused):
        write_backup(state, tmp_path / "backup.tar.gz", NOW_MS, "0.1.0")
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_names_in_a_restored_directory_are_durable_before_it_gets_its_own(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[int]()
    rename, fsync = Path.rename, os.fsync

    def note(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def rename_synced(source: Path, target: Path) -> Path:
        assert {path.stat().st_ino for path in (source, *source.rglob("*"))} <= {*synced}
        return rename(source, target)

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(Path, "rename", rename_synced)
    restore_backup(archive, tmp_path / "restored")
    assert synced[-1] == tmp_path.stat().st_ino


def test_a_full_disk_is_named_as_such_and_not_the_ledger(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = state_backup._database  # pyright: ignore[reportPrivateUsage]

    def on_full_disk(path: Path) -> SqliteDatabase:
        opened = database(path)
        opened.pragma("max_page_count", 1)
        return opened

    monkeypatch.setattr(state_backup, "_database", on_full_disk)
    with pytest.raises(OSError, match="No space left") as refused:
        write_backup(state, tmp_path / "backup.tar.gz", NOW_MS, "0.1.0")
    assert refused.value.errno == errno.ENOSPC
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
