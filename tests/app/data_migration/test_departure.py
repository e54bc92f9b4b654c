"""The mark on a directory whose ledger is in a database: a gateway on it is refused, with the place of the ledger."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.app.data_migration.departure import DRAFT, MARK_NAME, READY, mark, unmark, why_not_here
from interlock.backends.sqlite.ledger import LEDGER_NAME

DATABASE = "postgresql://db.example/interlock"


def test_a_directory_without_a_departure_may_be_used(tmp_path: Path) -> None:
    assert why_not_here(tmp_path) is None
    (tmp_path / LEDGER_NAME).touch()
    assert why_not_here(tmp_path) is None


def test_a_moved_ledger_is_found_by_its_mark(tmp_path: Path) -> None:
    mark(tmp_path, DATABASE, "moved")
    sentence = why_not_here(tmp_path)

    assert sentence is not None
    assert f'store = "{DATABASE}"' in sentence
    assert (tmp_path / MARK_NAME).stat().st_mode & 0o777 == 0o600
    unmark(tmp_path)
    unmark(tmp_path)
    assert why_not_here(tmp_path) is None


def test_an_unfinished_move_must_be_finished_or_undone(tmp_path: Path) -> None:
    (tmp_path / LEDGER_NAME).touch()
    mark(tmp_path, DATABASE, "committing")
    sentence = why_not_here(tmp_path)

    assert sentence is not None
    assert "did not finish" in sentence
    mark(tmp_path, DATABASE, "moved")  # The ledger that is there is another one, which came afterwards.
    assert why_not_here(tmp_path) is None


def test_a_damaged_mark_and_an_old_moved_file_still_report_the_move(tmp_path: Path) -> None:
    (tmp_path / MARK_NAME).write_bytes(b"half")
    assert "moved to a database" in str(why_not_here(tmp_path))
    unmark(tmp_path)
    (tmp_path / f"{LEDGER_NAME}.moved-20260101").touch()
    assert "the address of that database" in str(why_not_here(tmp_path))


def test_a_ledger_that_is_not_in_its_place_yet_is_not_replaced_by_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / DRAFT).mkdir()
    assert why_not_here(tmp_path) is None  # The database still has all of it.
    (tmp_path / DRAFT / READY).touch()
    assert "run `interlock migrate --from`" in str(why_not_here(tmp_path))
    (tmp_path / LEDGER_NAME).touch()
    assert why_not_here(tmp_path) is None  # Only the draft was not removed.


def test_a_mark_is_durable_before_what_relies_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = list[int]()

    def note(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", note)
    mark(tmp_path, DATABASE, "committing")
    assert synced == [(tmp_path / MARK_NAME).stat().st_ino, tmp_path.stat().st_ino]
