"""kill -9 of the runner, the gateway and the agent while an agent stages its changes and while they land (H-17).

Each kill has a workspace of its own and a random instant: while the agent writes, while its question waits, or while
what was granted lands. Meanwhile a reader opens the user's files: each is as before or as approved. After the restart
the landing is whole or has not begun, and the session's next turn lands what is still staged: nothing is lost.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import stat
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from interlock.box.host import survey
from proof.processes.stack import Stack

KILLS = 40
"""Kills of a full run; the three parts take turns, and so do the three phases."""
VICTIMS = ("runner", "gateway", "agent")
PHASES = ("staging", "asked", "landing")
FILES = 40
"""Files that each turn edits, beside those that it adds, removes and renames."""
TURN_S = 60.0
FINISH_S = 10.0
"""An interrupted landing is finished within this time after the command's end, or counts as unfinished."""
CONFIG = f"""
[agents.staging]
adapter = "acp"
command = "{sys.executable}"
args = ["-m", "interlock.shell_agent"]
[agents.staging.box]
changes = "staged"

[[policy.rules]]
name = "the commands of the proof"
effect = "allow"
door = "command"

[[policy.rules]]
name = "the shell lines of the proof"
effect = "allow"
door = "tool"
kind = "execute"
"""
EDITS = f"""
for n in $(seq {FILES}); do head -c 20000 /dev/zero | tr '\\0' n > edit-$n; done
mkdir -p made/deep; echo new > made/deep/file; ln -sfn made link; chmod 700 script
rm -f gone; rm -rf tree; if [ -d old ]; then mv old renamed; fi
if [ -d swap ]; then rm -r swap; fi; echo a file now > swap
"""
"""The shell line of each turn; to run it again changes nothing more."""

Shown = tuple[str, int, bytes]
"""The entry at a path: its kind, its mode and its content."""


class Kill(NamedTuple):
    """One kill, and what was seen of it."""

    victim: str
    phase: str
    in_between: bool
    """Whether it fell into the middle of a landing: some files were as approved, and some as before."""
    faults: list[str]


def fill(workspace: Path) -> None:
    """Make the user's files."""
    workspace.mkdir()
    for number in range(1, FILES + 1):
        (workspace / f"edit-{number}").write_bytes(b"o" * 20_000)
    for name in ("gone", "script", "kept", "old/a", "old/b", "tree/in/c", "tree/d", "swap/e"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(f"this is {name}\n")


def shown(workspace: Path) -> dict[str, Shown]:
    """Read everything below a directory. What goes meanwhile is left out."""
    found: dict[str, Shown] = {}
    for directory, directories, files in os.walk(workspace):
        for name in (*directories, *files):
            path = Path(directory, name)
            try:
                found[str(path.relative_to(workspace))] = _one(path)
            except OSError:
                continue
    return found


def _one(path: Path) -> Shown:
    if path.is_symlink():
        return "link", 0, os.fsencode(path.readlink())
    if path.is_dir():
        return "directory", 0, b""
    with path.open("rb") as file:
        return "file", stat.S_IMODE(os.fstat(file.fileno()).st_mode), file.read()


def temporary(path: str) -> bool:
    """Whether a path is a part of a new file, beside its goal: no file of the user's."""
    return path.rpartition("/")[2].startswith(".interlock-")


class Reader:
    """Reads the user's files until it is stopped, and notes each that is neither as before nor as approved."""

    def __init__(self, workspace: Path, before: dict[str, Shown], approved: dict[str, Shown]) -> None:
        self._known = before, approved
        self._workspace = workspace
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.faults: list[str] = []
        self.reads = 0
        self._thread.start()

    def look(self) -> dict[str, Shown]:
        """Read all files once."""
        found = {path: one for path, one in shown(self._workspace).items() if not temporary(path)}
        self.reads += len(found)
        before, approved = self._known
        self.faults += [f"{path} is between: {one[0]} {one[1]:o}, {len(one[2])} bytes" for path, one in found.items()
                        if one not in (before.get(path), approved.get(path))]
        # A path that both trees have is never absent; os.walk may miss a name that is renamed in that very moment.
        self.faults += [f"{path} is gone" for path in before.keys() & approved.keys() - found.keys()
                        if not os.path.lexists(self._workspace / path)]
        return found

    def stop(self) -> None:
        """Stop, after the last look."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(0.005):
            self.look()


class Landings:
    """Kills around one stack."""

    def __init__(self, stack: Stack, seed: int) -> None:
        self.stack = stack
        self.random = random.Random(seed)
        self._keys = 0
        self.landing_s = 0.3
        self.staging_s = 0.3
        self.reads = 0
        self.approved: dict[str, Shown] = {}

    def measure(self) -> None:
        """Let one turn through without a kill: what is approved, and how long it takes."""
        workspace = self.stack.workspace / "measured"
        fill(workspace)
        began = time.monotonic()
        command = self._submit(EDITS, {"agent_id": "staging", "workspace": str(workspace)})
        approval = self._question(command)
        self.staging_s = time.monotonic() - began
        before = shown(workspace)
        began = time.monotonic()
        self._grant(approval)
        while shown(workspace) == before or any(map(temporary, shown(workspace))):
            time.sleep(0.005)
        self._ended(command["id"])
        self.landing_s = time.monotonic() - began
        self.approved = shown(workspace)

    def kill(self, number: int) -> Kill:
        """One kill, in a workspace of its own."""
        victim, phase = VICTIMS[number % 3], PHASES[number // 3 % 3]
        workspace = self.stack.workspace / f"of-{number}"
        fill(workspace)
        before = shown(workspace)
        reader = Reader(workspace, before, self.approved)
        try:
            return Kill(victim, phase, *self._killed(victim, phase, workspace, before, reader))
        finally:
            reader.stop()
            self.reads += reader.reads

    def _killed(self, victim: str, phase: str, workspace: Path, before: dict[str, Shown], reader: Reader,
                ) -> tuple[bool, list[str]]:
        faults: list[str] = []
        command = self._submit(EDITS, {"agent_id": "staging", "workspace": str(workspace)})
        voted = False
        if phase == "staging":
            self._until(lambda: bool(self.stack.leftovers(workspace)))
            time.sleep(self.random.random() * self.staging_s / 2)
        else:
            approval = self._question(command)
            if phase == "landing":
                voted = self._grant(approval)
                time.sleep(self.random.random() * self.landing_s * 0.7)
            else:
                time.sleep(self.random.random() * 0.05)
        self._kill(victim, workspace)
        found = reader.look()
        if phase != "landing" and found != before:
            faults.append(f"{sorted(found.items() ^ before.items())[0][0]} changed before a yes")
        in_between = found not in (before, self.approved)
        if victim != "agent":
            time.sleep(self.random.random() * 0.1)
            self.stack.start("runner" if victim == "runner" else "gateway")
            self.stack.ready()
        self._settled(command, workspace)
        after = shown(workspace)
        faults += [f"{path} is left" for path in after if temporary(path)]
        whole = {path: one for path, one in after.items() if not temporary(path)}
        if whole not in (before, self.approved):
            faults.append("the landing is neither whole nor undone")
        if voted and victim != "runner" and whole != self.approved:
            faults.append("what was granted did not land")
        # The session continues: after a kill during the turn it is repeated; else the staged changes still exist.
        again = self._submit(EDITS if phase == "staging" else "true", {"session_id": command["target"]["session_id"]})
        self._settled(again, workspace)
        reader.stop()
        if shown(workspace) != self.approved:
            faults.append("what was staged is lost")
        return in_between, [*faults, *reader.faults]

    def _kill(self, victim: str, workspace: Path) -> None:
        if victim != "agent":
            self.stack.kill("runner" if victim == "runner" else "gateway")
            return
        for pid in self.stack.leftovers(workspace):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    # --- the gateway ---
    def _key(self) -> str:
        self._keys += 1
        return f"proof-landing-{self._keys}"

    def _submit(self, line: str, target: dict[str, Any]) -> dict[str, Any]:
        body = {"type": "execute", "target": target,
                "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": line}]}]}}
        key = self._key()
        end = time.monotonic() + TURN_S
        while (answer := self.stack.post("/v1/commands", body, key)).status_code != 202:
            if time.monotonic() > end:
                raise AssertionError(answer.text)
            time.sleep(0.05)  # The runner reattaches, or the lane is read again.
        return dict(answer.json())

    def _waiting(self, command: dict[str, Any]) -> dict[str, Any] | None:
        pending = self.stack.get("/v1/approvals", state="pending")["items"]
        return next((one for one in pending if one["command_id"] == command["id"]), None)

    def _question(self, command: dict[str, Any]) -> dict[str, Any]:
        found = next(one for one in self._looks(lambda: self._waiting(command)) if one)
        if found["tool_name"] != "land_changes":
            raise AssertionError(f"another question came first: {found['tool_name']}")
        return found

    def _grant(self, approval: dict[str, Any]) -> bool:
        answer = self.stack.post(f"/v1/approvals/{approval['id']}/grants",
                                 {"decision": "grant", "digest": approval["digest"]}, self._key())
        return answer.status_code in (200, 201)

    def _ended(self, command_id: str) -> dict[str, Any]:
        return next(one for one in self._looks(lambda: dict(self.stack.get(f"/v1/commands/{command_id}")))
                    if one.get("ended_at"))

    def _settled(self, command: dict[str, Any], workspace: Path) -> None:
        """Wait for the end of a command, and grant what it asks."""
        for ended in self._looks(lambda: self.stack.get(f"/v1/commands/{command['id']}").get("ended_at")):
            if ended:
                break
            if (approval := self._waiting(command)) is not None:
                self._grant(approval)
        # The runner finishes a landing before it opens sessions again, but its command has ended at the gateway.
        end = time.monotonic() + FINISH_S
        while any(map(temporary, shown(workspace))) and time.monotonic() < end:
            time.sleep(0.02)

    def _looks(self, look: Callable[[], Any]) -> Iterator[Any]:
        end = time.monotonic() + TURN_S
        while time.monotonic() < end:
            with contextlib.suppress(httpx2.TransportError, KeyError, FileNotFoundError):
                yield look()
            time.sleep(0.02)
        raise AssertionError("it stands still\n" + self.stack.log("gateway") + self.stack.log("runner"))

    def _until(self, reached: Callable[[], bool]) -> None:
        next(one for one in self._looks(reached) if one)


def table(kills: list[Kill], reads: int, records: str) -> str:
    """Print form."""
    counted = Counter((one.victim, one.phase) for one in kills)
    rows: list[tuple[str, Any]] = [
        (f"kills of the {victim}", ", ".join(f"{counted[victim, phase]} {phase}" for phase in PHASES))
        for victim in VICTIMS]
    rows += [("kills in the middle of a landing", sum(one.in_between for one in kills)),
             ("reads of the user's files meanwhile", reads),
             ("neither as before nor as approved", sum(len(one.faults) for one in kills)),
             ("audit", records)]
    return "\n".join(f"{name:<40} {value}" for name, value in rows)


def run(seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; True if it passed."""
    host = survey()
    if host.no_overlay:
        print(f"not tried: {host.no_overlay}")
        return True
    with tempfile.TemporaryDirectory(prefix="interlock-proof-") as place:
        stack = Stack(Path(place).resolve(), CONFIG)
        landings = Landings(stack, seed)
        try:
            stack.up()
            landings.measure()
            kills = [landings.kill(number) for number in range(rounds or KILLS)]
        finally:
            stack.down()
        left = stack.leftovers()
        audit_ok, records, sentence = stack.audit_ok()
    print(table(kills, landings.reads, f"{sentence} ({records} records)"))
    for one in kills:
        for fault in one.faults[:3]:
            print(f"  ! {one.victim} killed while {one.phase}: {fault}")
    passed = audit_ok and not left and not any(one.faults for one in kills)
    print("passed" if passed else f"FAILED; repeat with --seed {seed}")
    return passed
