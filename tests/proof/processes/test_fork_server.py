"""What is forked out of a warm process is to its caller what a new interpreter would have been."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.exit_status import ExitStatus
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a file that is not an audit log."""
    (tmp_path / "log").write_text("no log\n")
    return tmp_path


def environment(place: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(place), "COLUMNS": "77", "INTERLOCK_STATE": "here/state"}


@pytest.mark.parametrize(("words", "stdin"), [
    (["--version"], None), (["--help"], None), (["statsu"], None), (["config", "path"], None), (["status"], None),
    (["config", "show", "--json"], None), (["audit", "verify", "log"], None), (["conformance", "--json"], None),
    (["acp"], "not json\n" * 20_000),
], ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "")
def test_a_verb_behaves_as_in_a_new_interpreter(
    fork_server: ForkServer, place: Path, words: list[str], stdin: str | None
) -> None:
    forked = fork_server.run(words, place, stdin=stdin, environment=environment(place))
    given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    new = subprocess.run([sys.executable, "-m", "interlock", *words], cwd=place, env=environment(place), text=True,
                         capture_output=True, check=False, timeout=60, **given)
    assert (forked.returncode, forked.stdout, forked.stderr) == (new.returncode, new.stdout, new.stderr)
    assert forked.stdout or forked.stderr


def test_a_verb_has_no_effect_on_the_next(fork_server: ForkServer, place: Path) -> None:
    (place / "other").mkdir()
    first = fork_server.run(["config", "path"], place / "other", environment=environment(place))
    second = fork_server.run(["config", "path"], place,
                             environment={**environment(place), "INTERLOCK_STATE": "elsewhere"})
    assert first.stdout.strip() == str(place / "other/here/state/interlock.toml")
    assert second.stdout.strip() == str(place / "elsewhere/interlock.toml")


def test_verbs_of_several_threads_each_get_their_own_output(fork_server: ForkServer, place: Path) -> None:
    def ask(name: str) -> str:
        return fork_server.run(["config", "path"], place,
                               environment={**environment(place), "INTERLOCK_STATE": name}).stdout

    names = [f"state-{number}" for number in range(12)]
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(ask, names))
    assert found == [f"{place / name}/interlock.toml\n" for name in names]


def test_a_killed_verb_and_one_that_does_not_end_are_reported(fork_server: ForkServer, place: Path) -> None:
    words = ["gateway", "--port", "0"]
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(fork_server.run, words, place, environment=environment(place))
        file = place / "here/state/gateway.json"
        while not (file.exists() or running.done()):
            time.sleep(0.01)
        os.kill(json.loads(file.read_text())["pid"], signal.SIGKILL)
        assert running.result().returncode == -signal.SIGKILL
    with pytest.raises(subprocess.TimeoutExpired, match="gateway"):
        fork_server.run(words, place, environment=environment(place), timeout=0)


def test_a_running_verb_is_read_as_it_prints_and_ends_with_its_status_or_its_block(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    words = ["gateway", "--state", str(tmp_path / "state"), "--port", "0"]
    with fork_server.at_work(words, tmp_path) as first:
        assert any("the gateway listens on" in line for line in first.stderr)
        with fork_server.at_work(words, tmp_path) as second:
            assert second.status(60) == ExitStatus.CONFLICT
            assert "error[Conflict]" in second.stderr.read()
        first.terminate()
        assert first.status(60) == 0
    with fork_server.at_work(words, tmp_path) as left:
        assert any("the gateway listens on" in line for line in left.stderr)
    assert left.poll() == 0


def test_a_forked_verb_continues_after_the_server_ends(tmp_path: Path) -> None:
    forking = ForkServer()
    stack = Stack(tmp_path, "", forking, on_file=True)
    try:
        stack.start("gateway")
        stack.until_up()
        forking.close()
        assert stack.ask("/v1/sessions").status_code == 200
    finally:
        stack.down()
    assert "Traceback" not in stack.log("gateway")


@pytest.mark.anyio
async def test_a_supervised_verb_ends_with_its_status_or_with_its_starter(
    fork_server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(name: str) -> bool:
        return (tmp_path / name / "gateway.json").exists()

    monkeypatch.setenv("HOME", str(tmp_path))
    words = ["gateway", "--port", "0", "--with-parent", "--state"]
    killed = fork_server.supervised([*words, str(tmp_path / "killed")], tmp_path / "log")
    left = fork_server.supervised([*words, str(tmp_path / "left")], tmp_path / "log")
    while not (started("killed") and started("left")):
        assert (killed.returncode, left.returncode) == (None, None), (tmp_path / "log").read_text()
        await asyncio.sleep(0.01)
    assert os.getsid(killed.pid) == killed.pid
    killed.send_signal(signal.SIGKILL)
    assert await killed.wait() == killed.returncode == -signal.SIGKILL
    left.close_stdin()
    assert await left.wait() == 0


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_what_up_starts_is_forked_as_well_and_ends_with_it(fork_server: ForkServer, tmp_path: Path, how: str) -> None:
    state = tmp_path / "here/state"
    words = ["up", "--port", "0"]
    with fork_server.at_work(words, tmp_path, environment=environment(tmp_path)) as up:
        assert any("Ctrl-C ends all of it" in line for line in up.stderr)
        gateway = json.loads((state / "gateway.json").read_text())["pid"]
        assert b"fork_server" in Path(f"/proc/{gateway}/cmdline").read_bytes()
        end = os.pidfd_open(gateway)
        up.send_signal(signal.SIGTERM if how == "ended" else signal.SIGKILL)
        assert select.select([end], [], [], 60)[0]
        os.close(end)
