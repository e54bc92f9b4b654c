"""The files that the demonstration has its agent read: the same at every run, with the checksums of `cksum`."""

from __future__ import annotations

from pathlib import Path

from interlock.demo import files


def test_checksums_are_those_of_posix() -> None:
    assert (files.cksum(b""), files.cksum(b"123456789")) == (4294967295, 930766865)


def test_files_are_the_same_in_every_run_and_fit_the_output_limit(tmp_path: Path) -> None:
    files.write(tmp_path / "one")
    files.write(tmp_path / "two")
    assert files.expected(tmp_path / "one") == files.expected(tmp_path / "two")
    assert files.seen_chars() < len(files.expected(tmp_path / "one"))
    assert not files.expected(tmp_path / "one").isascii()
