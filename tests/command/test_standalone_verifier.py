"""The verifier for strangers: alone in its process, and of one mind with `interlock audit verify` (U-5)."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import cryptography
import pytest
from cryptography.hazmat.primitives import serialization
from tests.command.tampering import KEY, MUTATIONS, Mutant, lines_of, make_log, signed

from interlock.command.audit_check import verify

SCRIPT = Path(__file__).resolve().parents[2] / "verifier" / "interlock_audit_verify.py"
PUBLIC = KEY.public_key()


def load() -> Any:
    spec = importlib.util.spec_from_file_location("interlock_audit_verify", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STRANGER = load()


def its_opinion(lines: list[bytes]) -> tuple[str | None, int | None]:
    try:
        STRANGER.check(lines, PUBLIC)
    except STRANGER.Bad as bad:
        return bad.args
    return (None, None)


def our_opinion(lines: list[bytes]) -> tuple[str | None, int | None]:
    report = verify(lines, PUBLIC)
    return (str(report.kind) if report.kind is not None else None, report.seq)


@pytest.mark.req("U-5")
def test_both_verifiers_find_the_same_first_bad_record_and_the_same_kind() -> None:
    dice = random.Random(7)
    kinds: set[str | None] = set()
    for turn in range(200):
        records = make_log(dice, dice.randrange(2, 14))
        assert its_opinion(lines_of(records, signed(records))) == (None, None)
        mutant: Mutant = MUTATIONS[turn % len(MUTATIONS)](dice, records)
        found = its_opinion(mutant.lines)
        assert found == our_opinion(mutant.lines), mutant.kind
        kinds.add(found[0])
    assert len(kinds) >= 9


@pytest.mark.req("U-5")
def test_it_runs_alone_with_nothing_but_cryptography(tmp_path: Path) -> None:
    """In a process of its own, isolated, which sees the standard library and that one package by a link."""
    alone = tmp_path / "packages"
    alone.mkdir()
    installed = Path(cryptography.__file__).parents[1]
    for name in [entry.name for entry in installed.iterdir()]:
        if name in ("cryptography", "cffi") or name.startswith("_cffi_backend"):
            (alone / name).symlink_to(installed / name)
    script = tmp_path / "verify.py"
    script.write_text(SCRIPT.read_text())
    key = tmp_path / "gateway.pub"
    key.write_bytes(PUBLIC.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    records = make_log(random.Random(1), 40)
    lines = lines_of(records, signed(records, 30))
    log = tmp_path / "audit.ndjson"

    def said(written: list[bytes]) -> tuple[int, str]:
        log.write_bytes(b"".join(written))
        start = f"import sys, runpy; sys.path.append({str(alone)!r}); sys.argv = ['verify', {str(log)!r}, {str(key)!r}]"
        run = subprocess.run([sys.executable, "-I", "-S", "-c", f"{start}; runpy.run_path({str(script)!r}, "
                              "run_name='__main__')"], capture_output=True, text=True, timeout=60, check=False)
        assert run.stderr == ""
        return run.returncode, run.stdout

    status, text = said(lines)
    assert (status, text.split(",")[0]) == (0, "ok: 40 records")
    assert "10 not yet signed" in text
    assert said([*lines[:11], *lines[12:]]) == (1, "not ok at record 12 (removed)\n")
