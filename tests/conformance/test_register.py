"""The register of requirements: read in its order, with a reason for each that is not carried, or reported as
missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.conformance import register
from interlock.conformance.register import RegisterMissing, requirements


def test_every_clause_is_read_once_and_one_without_a_test_has_a_reason() -> None:
    found = requirements()

    assert len({one.id for one in found}) == len(found) > 100
    assert {one.id for one in found if one.status != "carried" and not one.reason} == set()
    assert {one.id for one in found if one.status == "carried" and one.reason} == set()


def test_an_installed_package_reads_its_own_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "requirements.toml").write_text(
        '[Z-99]\nsource = "rawp"\nstatus = "partial"\nclause = "c"\nreason = "r"\n'
        '[A-1]\nsource = "hold"\nstatus = "carried"\nclause = "d"\n')
    monkeypatch.setattr(register, "SOURCE", tmp_path / "absent.toml")
    monkeypatch.setattr(register, "PACKAGED", tmp_path / "requirements.toml")

    assert [(one.id, one.status, one.reason) for one in requirements()] == [
        ("Z-99", "partial", "r"), ("A-1", "carried", None)]


def test_a_package_without_its_register_reports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SOURCE", "PACKAGED"):
        monkeypatch.setattr(register, name, tmp_path / "absent.toml")

    with pytest.raises(RegisterMissing, match="is not there"):
        requirements()
