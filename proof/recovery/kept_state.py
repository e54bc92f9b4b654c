"""The state directory of a release as text (Y-15): `python -m proof.recovery.kept_state write DIRECTORY`.

Each release keeps one, written by its own program, and every later version must open it: sessions can be read, the
audit log verifies, and pending approvals are still pending. Databases are kept as SQL, which a person can read and
compare. The keys of a sample are its own; nothing else was ever encrypted or signed with them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

PLACE = Path("/tmp/interlock-kept-state")
"""The directory of a new sample: its rows name it, so it is the same on each host."""
CONFIG = """
[gateway]
port = 0

[agents.sh]
adapter = "exec"
command = "/bin/sh"
args = ["-c"]

[[policy.rules]]
name = "echo is free"
effect = "allow"
door = "tool"
agent = "shell"
command = 'echo [a-z0-9 ]+'

[[policy.rules]]
name = "nothing is removed"
effect = "deny"
door = "tool"
command = "rm .*"
reason = "This directory is kept."
"""
DATABASES = ("ledger.db", "runner/outbox.db")
FILES = ("audit/*.checkpoints", "agents/*/sessions/*.jsonl", "gateway.key", "gateway.pub", "owner.key", "runner/token",
         "interlock.toml", "clock.json")
PRAGMAS = ("application_id", "user_version")
SQL_SUFFIX = ".sql"
PATIENCE_S = 60.0
STOP_S = 30.0


class NotWritten(Exception):
    """No sample was written; one sentence."""


def write(directory: Path, program: list[str]) -> None:
    """Have a program of Interlock fill a state directory, and keep it as text. Raises NotWritten."""
    if directory.exists():
        raise NotWritten(f"There is something at {directory} already; a sample that was kept is never changed.")
    try:
        PLACE.mkdir(mode=0o700)
    except FileExistsError:
        raise NotWritten(f"{PLACE} is there already: another sample is being made, or remove it.") from None
    try:
        state, workspace = PLACE / "state", PLACE / "workspace"
        state.mkdir(mode=0o700)
        workspace.mkdir()
        (state / "interlock.toml").write_text(CONFIG)
        with _up(program, state, workspace) as ask:
            _work(ask, workspace)
        keep(state, directory)
    finally:
        shutil.rmtree(PLACE)


def keep(state: Path, directory: Path) -> None:
    """Write a state directory, which nothing works on any more, as text."""
    for name in DATABASES:
        target = directory / (name + SQL_SUFFIX)
        target.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(f"file:{state / name}?mode=ro", uri=True)) as database:
            target.write_text("".join(f"{line}\n" for line in _dumped(database)), "utf-8")
    for pattern in FILES:
        for path in sorted(state.glob(pattern)):
            target = directory / path.relative_to(state)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())


def bring_back(directory: Path, state: Path) -> None:
    """Make the state directory of a sample that was kept; `state` may be there, and be empty."""
    for path in sorted(directory.rglob("*")):
        if path.is_dir():
            continue
        target = state / path.relative_to(directory)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.suffix == SQL_SUFFIX:
            with closing(sqlite3.connect(target.with_suffix(""))) as database:
                database.executescript(path.read_text("utf-8"))
            target.with_suffix("").chmod(0o600)
        else:
            target.write_bytes(path.read_bytes())
            target.chmod(0o600)


def _dumped(database: sqlite3.Connection) -> Iterator[str]:
    for pragma in PRAGMAS:
        value = database.execute(f"PRAGMA {pragma}").fetchone()[0]
        yield f"PRAGMA {pragma} = {value};"
    yield from database.iterdump()


class _HeldRequest:
    """The API of the gateway that fills the sample."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._key = key
        self._sent = 0

    def get(self, path: str) -> Any:
        """GET as the owner."""
        return self._send(urllib.request.Request(self._url + path))

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """POST as the owner."""
        self._sent += 1
        return self._send(urllib.request.Request(self._url + path, json.dumps(body).encode(), {
            "Content-Type": "application/json", "Idempotency-Key": f"kept-state-{self._sent:08d}"}))

    def command(self, agent: str, text: str, **target: str) -> str:
        """Give an agent a prompt; returns the command's id."""
        return str(self.post("/v1/commands", {
            "type": "execute", "target": {"agent_id": agent, **target},
            "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": text}]}]}})["id"])

    def until(self, command: str, *states: str) -> dict[str, Any]:
        """Wait until a command is in one of the states. Raises NotWritten."""
        deadline, found = time.monotonic() + PATIENCE_S, dict[str, Any]()
        while time.monotonic() < deadline:
            found = self.get(f"/v1/commands/{command}")
            if found["state"] in states:
                return found
            time.sleep(0.1)
        raise NotWritten(f"The command {command} was never {' or '.join(states)}: {found}")

    def approval(self, command: str) -> dict[str, Any]:
        """Wait for an approval of a command that is pending. Raises NotWritten."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for one in self.get("/v1/approvals")["items"]:
                if one["command_id"] == command and one["state"] == "pending":
                    return dict(one)
            time.sleep(0.1)
        raise NotWritten(f"The command {command} asked for nothing.")

    def vote(self, approval: dict[str, Any], decision: str) -> None:
        """Vote on an approval."""
        self.post(f"/v1/approvals/{approval['id']}/grants", {"decision": decision, "digest": approval["digest"]})

    def _send(self, request: urllib.request.Request) -> Any:
        request.add_header("Authorization", f"Bearer {self._key}")
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            return json.load(reply)


def _work(ask: _HeldRequest, workspace: Path) -> None:
    """What a sample has: a session of two commands, an approval of each outcome, a closed session, and a command that
    waits for its approval."""
    ends = ("succeeded", "failed", "canceled")
    first = ask.until(ask.command("shell", "echo hello", workspace=str(workspace)), *ends)
    session = first["target"]["session_id"]
    for text, decision in (("ls -a", "grant"), ("whoami", "deny")):
        asked = ask.command("shell", text, session_id=session)
        ask.vote(ask.approval(asked), decision)
        ask.until(asked, *ends)
    ask.until(ask.command("shell", "rm -r kept", session_id=session), *ends)
    other = ask.until(ask.command("shell", "echo goodbye", workspace=str(workspace)), *ends)
    ask.post(f"/v1/sessions/{other['target']['session_id']}/close", {"reason": "It is over."})
    ask.approval(ask.command("sh", "echo later", workspace=str(workspace)))


@contextlib.contextmanager
def _up(program: list[str], state: Path, workspace: Path) -> Generator[_HeldRequest]:
    """Start `interlock up` on the state directory; it is ended in order."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    process = subprocess.Popen([*program, "up", "--state", str(state), "--root", str(workspace), "--port", "0"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=workspace,
                               env=environment)
    try:
        assert process.stderr is not None
        lines: list[str] = []
        for line in iter(process.stderr.readline, ""):
            lines.append(line)
            if line.startswith("ready"):
                break
        else:
            raise NotWritten("`interlock up` did not get ready: " + " ".join("".join(lines).split()))
        url = json.loads((state / "gateway.json").read_text())["url"]
        yield _HeldRequest(url, (state / "owner.key").read_text().strip())
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()


def main() -> int:
    """Write a sample."""
    described = (__doc__ or "").split("\n", 1)[0]
    parser = argparse.ArgumentParser(prog="python -m proof.recovery.kept_state", description=described)
    parser.add_argument("write", choices=("write",))
    parser.add_argument("directory", type=Path, help="such as tests/kept_states/0.1.0; it must not be there yet")
    parser.add_argument("--interlock", default=f"{shlex.quote(sys.executable)} -m interlock", metavar="PROGRAM",
                        help="the program of the version that is kept (default: this one)")
    given = parser.parse_args()
    try:
        write(given.directory, shlex.split(given.interlock))
    except NotWritten as refused:
        print(refused, file=sys.stderr)
        return 1
    size = sum(path.stat().st_size for path in given.directory.rglob("*") if path.is_file())
    print(f"{given.directory}: {size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
