"""`interlock backup` and `interlock restore`: what they print, and the remedy that each refusal names (Y-15)."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from app.test_state_backup import make_state
from interlock.app import state_backup
from interlock.cli.config.place import OnHost
from interlock.cli.exit_status import ExitStatus
from interlock.cli.storage.backup import backup, restore
from interlock.cli.verb_error import Trouble

pytestmark = [pytest.mark.anyio, pytest.mark.req("Y-15")]


@pytest.fixture
async def gateway(anyio_backend: str, tmp_path: Path) -> OnHost:
    """A gateway's state directory with an empty ledger."""
    await make_state(tmp_path / "state")
    return OnHost(tmp_path / "state")


def test_a_backup_is_verified_and_restored_and_each_step_prints_its_content(
    gateway: OnHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "backup.tar.gz"
    assert backup(archive, where=gateway) == ExitStatus.DONE
    assert restore(archive, check=True) == ExitStatus.DONE
    assert restore(archive, where=OnHost(tmp_path / "restored")) == ExitStatus.DONE
    printed = " ".join("".join(capsys.readouterr()).split())
    for done in (f"backed up into {archive}: ", f"verified {archive}: ", f"restored into {tmp_path / 'restored'}: "):
        assert done in printed
    assert printed.count("start it with `interlock up`") == 1
    assert (tmp_path / "restored" / "ledger.db").is_file()


@pytest.mark.req("G-7")
def test_a_path_with_controls_and_a_line_break_makes_no_second_line(
    gateway: OnHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "a\nok: b\x1b[2J\u202egnp.tar.gz"
    backup(archive, where=gateway)
    restore(archive, check=True)
    out, err = capsys.readouterr()
    shown = f"{tmp_path}/a\\nok: b\\x1b[2J\\u202egnp.tar.gz: "
    first, second = out.splitlines()
    assert first.startswith(f"backed up into {shown}")
    assert second.startswith(f"verified {shown}")
    assert len(err.splitlines()) == 2


def test_json_has_the_report_and_nothing_else(
    gateway: OnHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert backup(tmp_path / "backup.tar.gz", json=True, where=gateway) == ExitStatus.DONE
    out, err = capsys.readouterr()
    assert msgspec.json.decode(out)["ok"] is True
    assert not err


def test_a_second_backup_does_not_replace_the_first(gateway: OnHost, tmp_path: Path) -> None:
    backup(tmp_path / "backup.tar.gz", where=gateway)
    with pytest.raises(Trouble, match="a backup replaces nothing"):
        backup(tmp_path / "backup.tar.gz", where=gateway)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(Trouble, match="There is no file") as refused:
        restore(tmp_path / "absent.tar.gz", where=OnHost(tmp_path / "restored"))
    assert refused.value.code == "Usage"


@pytest.mark.parametrize(("code", "remedy"), [
    (errno.ENOSPC, "Free some space or name another place."),
    (errno.ENAMETOOLONG, f"{os.strerror(errno.ENAMETOOLONG)}. Name another place."),
])
def test_only_a_full_disk_is_to_be_freed(
    gateway: OnHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, remedy: str
) -> None:
    def fsync(_descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(state_backup, "os", SimpleNamespace(**{**vars(os), "fsync": fsync}))
    with pytest.raises(Trouble) as refused:
        backup(tmp_path / "backup.tar.gz", where=gateway)
    assert str(refused.value).endswith(remedy)


def test_a_failure_without_a_file_names_the_backup(
    gateway: OnHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(state_backup, "os", SimpleNamespace(**{**vars(os), "fsync": full}))
    with pytest.raises(Trouble, match=r"backup\.tar\.gz cannot be written or read: No space left"):
        backup(tmp_path / "backup.tar.gz", where=gateway)


def test_a_refused_restore_leaves_no_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "archive").touch()
    (tmp_path / "prepared").mkdir()
    for name in ("absent", "prepared"):
        with pytest.raises(Trouble, match="is damaged"):
            restore(tmp_path / "archive", where=OnHost(tmp_path / name))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "prepared"]


def test_a_backup_of_a_mistyped_directory_does_not_make_it(tmp_path: Path) -> None:
    with pytest.raises(Trouble, match=r"The state directory .* does not exist"):
        backup(tmp_path / "backup.tar.gz", where=OnHost(tmp_path / "mistyped"))
    assert list(tmp_path.iterdir()) == []
