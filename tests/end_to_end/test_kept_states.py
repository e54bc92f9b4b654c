"""State directories of versions before this one: opened, read, verified and worked on (Y-15)."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from end_to_end.tasks import SubmittedTask, submit
from interlock.backends.sqlite.connect import open_writer
from interlock.backends.sqlite.ledger import LEDGER_NAME
from interlock.gateway.audit.audit_state import verify_ledger_file
from proof.processes.skewed_gateway import JUMP_NAME
from proof.processes.stack import Stack
from proof.recovery.kept_state import bring_back

pytestmark = pytest.mark.req("Y-15")
SAMPLES = sorted(path for path in (Path(__file__).resolve().parents[1] / "kept_states").iterdir() if path.is_dir())


@pytest.fixture(params=SAMPLES, ids=lambda path: path.name)
def sample(request: pytest.FixtureRequest) -> Path:
    """One kept sample."""
    return Path(request.param)


def test_a_ledger_of_an_earlier_version_opens_and_its_log_verifies(sample: Path, tmp_path: Path) -> None:
    bring_back(sample, tmp_path)
    open_writer(tmp_path / LEDGER_NAME).close()
    report = verify_ledger_file(tmp_path)
    assert report.ok, report.message
    assert report.records > 20


@pytest.mark.long
def test_a_gateway_and_a_runner_continue_with_an_earlier_state(sample: Path, tmp_path: Path) -> None:
    place = tmp_path / "stack"
    place.mkdir()
    stack = Stack(place, on_file=True)
    own, kept = ((state / "interlock.toml").read_text() for state in (stack.state, sample))
    config = own + kept.partition("\n\n")[2]  # Its own section of the gateway, which names a port that is free.
    shutil.rmtree(stack.state)
    bring_back(sample, stack.state)
    (stack.state / "interlock.toml").write_text(config)
    # The gateway's machine has the clock of then: the approval that waits has an end.
    stack.entry["gateway"] = ["proof.processes.skewed_gateway"]
    (stack.state / JUMP_NAME).write_text(str(last_ms(stack.state) - time.time_ns() // 1_000_000))
    try:
        stack.up()
        commands = stack.pages("/v1/commands", "items")
        assert Counter(one["state"] for one in commands) == {"succeeded": 5, "pending_approval": 1}
        first = min(commands, key=lambda one: str(one["id"]))
        assert "hello" in str(SubmittedTask(stack, first).frames())
        assert len(stack.pages("/v1/approvals", "items")) >= 3
        waiting = next(SubmittedTask(stack, one) for one in commands if one["state"] == "pending_approval")
        assert waiting.vote("deny").status_code == 200
        assert waiting.ended()["state"] == "rejected"
        assert submit(stack, "shell", "echo again", workspace=stack.workspace).ended()["state"] == "succeeded"
    finally:
        stack.down()
    assert stack.audit_ok()[0], stack.audit_ok()


def test_a_sample_is_never_overwritten(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "proof.recovery.kept_state", "write", str(tmp_path)],
                          capture_output=True, text=True, cwd=Path(__file__).resolve().parents[2], check=False)
    assert done.returncode == 1
    assert "never changed" in done.stderr


@pytest.mark.long
def test_a_program_does_not_change_the_state_of_a_newer_version(sample: Path, tmp_path: Path) -> None:
    bring_back(sample, tmp_path)
    open_writer(tmp_path / LEDGER_NAME).close()
    with closing(sqlite3.connect(tmp_path / LEDGER_NAME)) as ledger:
        (version,) = ledger.execute("PRAGMA user_version").fetchone()
        ledger.execute(f"PRAGMA user_version = {version + 1}")
    before = contents(tmp_path)
    for verb in ("gateway", "up"):
        ended = subprocess.run([sys.executable, "-m", "interlock", verb, "--state", str(tmp_path), "--port", "0"],
                               stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert ended.returncode != 0
        assert f"has schema {version + 1}, and this program knows {version}: use the newer program" in ended.stderr
        assert "Traceback" not in ended.stderr
    assert contents(tmp_path) == before


def last_ms(state: Path) -> int:
    """When something was changed last in a state directory, in milliseconds since the epoch."""
    with closing(sqlite3.connect(state / LEDGER_NAME)) as ledger:
        (found,) = ledger.execute("SELECT max(updated_ms) FROM session").fetchone()
    return int(found)


def contents(state: Path) -> dict[Path, bytes]:
    """Every file of a state directory but logs and locks, which name the process that looked."""
    return {path: path.read_bytes() for path in sorted(state.rglob("*"))
            if path.is_file() and path.suffix not in (".log", ".lock")}
