"""`interlock doctor` reports the library's own distribution beside the whole one (Y-14)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock import __version__
from interlock.cli.doctor import distributions

pytestmark = pytest.mark.req("Y-14")


def test_two_owners_of_the_same_files_are_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(distributions()) == []
    metadata = tmp_path / "interlock_sdk-0.0.9.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.4\nName: interlock-sdk\nVersion: 0.0.9\n")
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = distributions()
    assert not found.ok
    assert found.found.startswith(f"interlock-sdk 0.0.9 is installed over files of interlock {__version__}")
    assert "Remove interlock-sdk" in found.remedy
