"""The verifier for third parties: alone in its process, and with the results of `interlock audit verify` (U-5)."""

from __future__ import annotations

import importlib.util
import os
import random
import re
import subprocess
import sys
import threading
import time
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
from interlock.command.audit.audit_lines import flipped_bit
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
    for turn in range(5 * len(MUTATIONS)):
        records = make_log(dice, dice.randrange(2, 14))
        assert its_opinion(lines_of(records, signed(records))) == (None, None)
        mutant: Mutant = MUTATIONS[turn % len(MUTATIONS)](dice, records)
        found = its_opinion(mutant.lines)
        assert found == our_opinion(mutant.lines), mutant.kind
        kinds.add(found[0])
    assert len(kinds) >= 9


@pytest.mark.req("U-4", "U-5")
def test_an_unsigned_record_does_not_excuse_missing_data() -> None:
    """An editor of an export can write any record after its checkpoint."""
    dice = random.Random(3)
    for _ in range(20):
        lines = excuse(dice, make_log(dice, dice.randrange(2, 14))).lines
        found = its_opinion(lines)
        assert found == our_opinion(lines)
        assert found[0] == "personal data missing"
        assert is_whole(lines, lines[-1], PUBLIC) is None


@pytest.mark.req("U-3", "U-5")
def test_a_kept_checkpoint_distinguishes_an_older_state_a_fork_and_another_log() -> None:
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

    def verdict(written: list[bytes]) -> tuple[int, str]:
        log.write_bytes(b"".join(written))
        start = f"import sys, runpy; sys.path.append({str(alone)!r}); sys.argv = ['verify', {str(log)!r}, {str(key)!r}]"
        run = subprocess.run([sys.executable, "-I", "-S", "-c", f"{start}; runpy.run_path({str(script)!r}, "
                              "run_name='__main__')"], capture_output=True, text=True, timeout=60, check=False)
        assert run.stderr == ""
        return run.returncode, run.stdout

    status, text = verdict(lines)
    assert (status, text.split(",")[0]) == (0, "ok: 40 records")
    assert "10 not yet signed" in text
    assert text.endswith(": interlock.audit/gw_1/t1\n"), "whose log it is, for another's would be whole, too"
    assert verdict([*lines[:11], *lines[12:]]) == (1, "not ok at record 12 (removed)\n")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """A log of three records, its key, and a checkpoint of it that was kept elsewhere."""
    records = make_log(random.Random(7), 3)
    found = {name: tmp_path / name for name in ("log", "key", "kept")}
    found["log"].write_bytes(b"".join(lines_of(records, signed(records))))
    found["key"].write_bytes(PUBLIC.public_bytes(serialization.Encoding.PEM,
                                                 serialization.PublicFormat.SubjectPublicKeyInfo))
    found["kept"].write_bytes(checkpoint_line(signed(records, 2)))
    return found


def status_of(monkeypatch: pytest.MonkeyPatch, files: dict[str, Path], *options: str) -> int:
    monkeypatch.setattr(sys, "argv", ["verify", *options, *map(str, files.values())])
    return STRANGER.main()


@pytest.mark.req("U-5", "Y-6")
@pytest.mark.parametrize("place", ["log", "key", "kept"])
@pytest.mark.parametrize("given", ["/dev/zero", "/dev/null", "link to a device", "directory", "nothing"])
def test_what_is_no_file_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
                                         files: dict[str, Path], tmp_path: Path, place: str, given: str) -> None:
    files[place] = Path(given) if given.startswith("/dev") else tmp_path / given
    if given == "link to a device":
        files[place].symlink_to("/dev/zero")
    elif given == "directory":
        files[place].mkdir()
    assert status_of(monkeypatch, files) == 2
    assert re.fullmatch("cannot be read: .+\n", capsys.readouterr().err)


@pytest.mark.req("U-5")
def test_a_log_may_come_through_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
                                       files: dict[str, Path], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    feeding = threading.Thread(target=pipe.write_bytes, args=(files["log"].read_bytes(),))
    feeding.start()
    assert status_of(monkeypatch, {**files, "log": pipe}) == 0
    feeding.join()
    assert capsys.readouterr().out.startswith("ok: 3 records")


@pytest.mark.req("U-5", "Y-6")
@pytest.mark.parametrize("place", ["key", "kept", "proof"])
def test_a_small_file_that_is_large_is_not_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
                                                files: dict[str, Path], place: str) -> None:
    name = "log" if place == "proof" else place
    with files[name].open("ab") as file:
        file.truncate(64 << 30)
    assert status_of(monkeypatch, files, *(["--proof"] if place == "proof" else [])) == 2
    assert "is larger than" in capsys.readouterr().err


@pytest.mark.req("U-5")
@pytest.mark.parametrize("end", [b"}\n", b"}} \n", b"}}"])
def test_a_line_that_is_made_to_be_slow_is_not(end: bytes) -> None:
    start = b'{"seq":1,"hash":"' + b"0" * 64 + b'","personal":{'
    line = start + b'},"record":{' * ((4_096 - len(start) - len(end)) // 12) + end
    began = time.process_time()
    assert STRANGER.changed(line, 1) == "record changed"
    assert flipped_bit(line, 1) is None
    assert time.process_time() - began < 5, "it took most of a minute"
