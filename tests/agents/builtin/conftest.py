"""A workspace of odd files for the builtin agent's tools."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def odd_workspace(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\ntwo\n")
    (work / "binary").write_bytes(b"\0\1\2")
    (work / "latin").write_bytes("é".encode("latin-1"))
    (work / "long").write_text("x" * 100_000)
    (work / "many").write_text("line\n" * 5_000)
    (work / "inner").mkdir()
    os.mkfifo(work / "pipe")
    (work / "loop").symlink_to("loop")
    (work / "inside").symlink_to("a.txt")
    (work / "outside").symlink_to(tmp_path)
    return work
