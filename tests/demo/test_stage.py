"""The demonstration itself, with real processes: plain, sabotaged in each way, interrupted, and with a real agent."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from agents.third_party import ThirdParty
from interlock.demo.sabotage import SABOTAGES
from proof.processes.fork_server import ForkServer

LIMIT_S = 60.0
"""Above the demonstration's own limit, which must strike first."""
FIGURES = {"command_state", "frames_made", "frames_applied", "frames_lost", "history_frames", "approvals", "text_equal",
           "audit_records", "audit_ok"}
BOTH_DOORS = [{"door": "command", "decision": "grant"}, {"door": "tool", "decision": "grant"}]


@pytest.fixture
def demo_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory of the test's own, to see what is left in it; and variables that must not matter."""
    directory = tmp_path / "room"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("INTERLOCK_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("INTERLOCK_KEY", "not-the-key")
    monkeypatch.setenv("INTERLOCK_STATE", str(tmp_path / "state"))
    return directory


def demo(fork_server: ForkServer, *options: str) -> tuple[int, dict[str, Any], str]:
    """Run `interlock demo --json …`; return status, document and standard error."""
    done = fork_server.run(["demo", "--json", *options], Path.cwd(), timeout=LIMIT_S)
    return done.returncode, json.loads(done.stdout), done.stderr


def processes_of(directory: Path) -> list[int]:
    """Processes that name the directory or run in it, if the system shows this."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes() + os.readlink(process / "cwd").encode()
        except OSError:
            continue
        if bytes(directory) in words:
            found.append(int(process.name))
    return found


@pytest.mark.req("D-1", "D-2", "P-1", "P-2", "U-2")
def test_nothing_is_lost_and_every_claim_holds(fork_server: ForkServer, demo_directory: Path) -> None:
    status, figures, printed = demo(fork_server)

    assert (status, printed) == (0, "")
    assert set(figures) == FIGURES
    assert figures["command_state"] == "succeeded"
    assert figures["frames_made"] == figures["frames_applied"] > 20
    assert figures["frames_lost"] == 0
    assert figures["history_frames"] >= 3
    assert figures["approvals"] == BOTH_DOORS
    assert figures["text_equal"] is True
    assert figures["audit_ok"] is True
    assert figures["audit_records"] > 10
    assert list(demo_directory.iterdir()) == []
    assert processes_of(demo_directory) == []


def test_the_demo_describes_what_happens(demo_directory: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "interlock", "demo"], capture_output=True, text=True, timeout=LIMIT_S,
                          check=False)

    assert (done.returncode, done.stderr) == (0, "")
    for part in ("held by a rule", "until a person allows it", "reset (RST)", "attached again", "0 lost",
                 "exactly", "audit log verifies", "cleaned up"):
        assert part in done.stdout
    assert list(demo_directory.iterdir()) == []


NOTICED = {
    "drop-frame": ("frames_lost", 1, "The runner made"),
    "double-frame": ("text_equal", False, "The viewer's text"),
    "flip-audit": ("audit_ok", False, "audit log in the database was changed at record"),
    "auto-allow": ("approvals", [{"door": "command", "decision": "grant"}, {"door": "tool", "decision": "void"}],
                   "A tool ran that no one had allowed: sh ./read-aloud"),
}


@pytest.mark.parametrize("sabotage", SABOTAGES)
@pytest.mark.req("E-3", "D-1", "P-2", "U-2")
def test_each_sabotage_is_detected(fork_server: ForkServer, demo_directory: Path, sabotage: str) -> None:
    status, figures, printed = demo(fork_server, "--sabotage", sabotage)

    figure, value, sentence = NOTICED[sabotage]
    assert status == 1
    assert figures[figure] == value
    assert any(sentence in noticed for noticed in figures["noticed"])
    assert f"noticed: {figures['noticed'][0]}" in printed
    assert list(demo_directory.iterdir()) == []
    assert processes_of(demo_directory) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_nothing(demo_directory: Path, number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-u", "-m", "interlock", "demo"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "until a person allows it" in line:
                process.send_signal(number)
                break
        _, printed = process.communicate(timeout=LIMIT_S)

    assert process.returncode == 130
    assert "interrupted" in printed
    assert "Traceback" not in printed
    assert list(demo_directory.iterdir()) == []
    assert processes_of(demo_directory) == []


def test_a_killed_demo_leaves_no_process(demo_directory: Path) -> None:
    command = [sys.executable, "-u", "-m", "interlock", "demo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "until a person allows it" in line:
                watched = [os.pidfd_open(pid) for pid in processes_of(demo_directory)]
                process.kill()
                break
    assert len(watched) >= 3
    for one in watched:
        assert select.select([one], [], [], LIMIT_S)[0], "a process outlived the demonstration"
        os.close(one)


def test_an_unknown_sabotage_or_agent_gives_a_sentence(fork_server: ForkServer, demo_directory: Path) -> None:
    for option, value in (("--sabotage", "rain"), ("--agent", "nobody")):
        done = fork_server.run(["demo", option, value], demo_directory, timeout=LIMIT_S)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error[Usage]: There is no ")


@pytest.mark.req("A-7", "D-2", "P-2")
def test_a_real_agent_plays_the_same_role(
    goose: ThirdParty, demo_directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from interlock.demo import stage

    state = Path(os.environ["INTERLOCK_STATE"])
    state.mkdir(mode=0o700)
    env = ", ".join(f"{name} = {json.dumps(value)}" for name, value in goose.env.items())
    (state / "interlock.toml").write_text(
        f'[agents.goose]\nadapter = "acp"\ncommand = {json.dumps(str(goose.command))}\nargs = ["acp"]\n'
        f"env = {{ {env} }}\n")

    status = stage.run("goose", True, None, prompt="Look at the files. [[tool:cat birds.txt]]")

    captured = capfd.readouterr()
    assert (status, captured.err) == (0, "")
    figures = json.loads(captured.out)
    assert figures["command_state"] == "succeeded"
    assert figures["frames_made"] == figures["frames_applied"]
    assert (figures["frames_lost"], figures["text_equal"], figures["audit_ok"]) == (0, True, True)
    assert figures["approvals"] == BOTH_DOORS
    assert list(demo_directory.glob("interlock-demo-*")) == []
