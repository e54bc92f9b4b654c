"""The verifier for third parties: alone in its process, and with the results of `interlock audit verify` (U-5)."""

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
from tests.command.tampering import (
    KEY,
    MUTATIONS,
    Mutant,
    excuse,
    fork,
    lines_of,
    make_log,
    roll_back,
    signed,
)

from interlock.command.audit.audit import checkpoint_line
from interlock.command.audit.audit_check import compare, verify
from interlock.command.audit.audit_quick import is_whole
from interlock.command.audit.note import origin_of, sign_checkpoint

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


def with_kept(lines: list[bytes], kept: bytes) -> tuple[str | None, int | None]:
    try:
        STRANGER.check(lines, PUBLIC, kept)
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


@pytest.mark.req("U-4", "U-5")
def test_an_unsigned_record_excuses_nothing_that_is_gone() -> None:
    """Anyone who edits an export can write any record after its checkpoint."""
    dice = random.Random(3)
    for _ in range(20):
        lines = excuse(dice, make_log(dice, dice.randrange(2, 14))).lines
        found = its_opinion(lines)
        assert found == our_opinion(lines)
        assert found[0] == "personal data missing"
        assert is_whole(lines, lines[-1], PUBLIC) is None


@pytest.mark.req("U-3", "U-5")
def test_a_checkpoint_that_was_kept_tells_an_older_state_a_fork_and_another_log() -> None:
    dice = random.Random(5)
    for make in (roll_back, fork):
        mutant = make(dice, make_log(dice, 9))
        assert mutant.kept is not None
        ours = compare(mutant.lines, mutant.kept, PUBLIC)
        for kept in (checkpoint_line(mutant.kept), mutant.kept.note.encode()):
            assert with_kept(mutant.lines, kept) == (str(ours.kind), ours.seq)
    records = make_log(dice, 9)
    lines = lines_of(records, signed(records))
    assert with_kept(lines, checkpoint_line(signed(records, 4))) == (None, None)
    other = sign_checkpoint(KEY, origin_of("gw_1", "t2"), 4, bytes(32))
    for kept in (checkpoint_line(other), b"", b"\xff\n", b"{}\n"):
        assert with_kept(lines, kept) == ("bad signature", None)


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
    # One whose last ten records, which no one signed yet, erase nothing.
    logs = (make_log(random.Random(seed), 40) for seed in range(1000))
    records = next(log for log in logs if all(b'"action":"redact"' not in one.body for one in log[30:]))
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
    assert text.endswith(": interlock.audit/gw_1/t1\n"), "whose log it is, for another's would be whole, too"
    assert said([*lines[:11], *lines[12:]]) == (1, "not ok at record 12 (removed)\n")
