"""Cursors of a terminal (G-4): bounded, and a damaged file counts as empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.cli.config.place import CURSORS_FILE
from interlock.cli.tasks.cursors import KEPT, Cursors, ShownCursor

pytestmark = pytest.mark.req("G-4")


def test_a_cursor_is_found_by_command_and_by_session(tmp_path: Path) -> None:
    place = ShownCursor(cursor="7", phase="inside", turn_id="t", shown={"b": 3})
    Cursors(tmp_path).keep("s", "cmd_1", place)
    again = Cursors(tmp_path)
    assert (again.command("cmd_1"), again.session("s")) == (place, "7")
    assert (again.command("cmd_2"), again.session("other")) == (None, None)
    assert (tmp_path / CURSORS_FILE).stat().st_mode & 0o777 == 0o600


def test_a_command_without_a_cursor_keeps_the_sessions_last_one(tmp_path: Path) -> None:
    cursors = Cursors(tmp_path)
    cursors.keep("s", None, ShownCursor(cursor="7"))
    cursors.keep("s", "cmd_1", ShownCursor(status_cursor="2"))
    assert cursors.session("s") == "7"
    assert cursors.command("cmd_1") == ShownCursor(status_cursor="2")


def test_the_least_recently_used_cursor_is_removed_first(tmp_path: Path) -> None:
    cursors = Cursors(tmp_path)
    for number in range(KEPT):
        cursors.keep(f"s{number}", f"c{number}", ShownCursor(cursor=str(number)))
    cursors.keep("s0", "c0", ShownCursor(cursor="again"))
    cursors.keep("new", "new", ShownCursor(cursor="x"))
    assert (cursors.session("s0"), cursors.command("c0")) == ("again", ShownCursor(cursor="again"))
    assert (cursors.session("s1"), cursors.command("c1")) == (None, None)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"commands":{"c":7}}', b"\xff"])
def test_an_unreadable_file_loses_no_work(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / CURSORS_FILE).write_bytes(raw)
    cursors = Cursors(tmp_path)
    assert cursors.command("c") is None
    cursors.keep("s", "c", ShownCursor(cursor="1"))
    assert cursors.session("s") == "1"


def test_an_unwritable_state_directory_is_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    Cursors(tmp_path / "file").keep("s", "c", ShownCursor(cursor="1"))
