"""Record a terminal as text and as a picture.

`python -m proof.terminal.recorder DIRECTORY [--columns N …] [-- COMMAND …]`

Without a command it starts `interlock up` in a directory of its own and types a tour of the verbs, at 40, 80 and 200
columns. Each recording is `NAME-COLUMNS.txt` with the text of the screen and `NAME-COLUMNS.svg` with its picture. Its
exit status is 1 if a verb did not end.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from proof.terminal.grid import TerminalGrid

WIDTHS = (40, 80, 200)
ROWS = 40
PATIENCE_S = 60.0
"""A verb that takes longer has not ended."""
INTERLOCK = (sys.executable, "-m", "interlock")
READY = "runner"
POEM = "printf '# Roses\\n\\n- red\\n- **blue**\\n' > poem.md; seq 1 40; git status --short"


class TypedVerb(NamedTuple):
    """One recording: its name, the words behind `interlock`, and what is typed when a text appears."""

    name: str
    words: tuple[str, ...]
    answers: tuple[tuple[str, str], ...] = ()


TOUR = (
    TypedVerb("help", ("--help",)), TypedVerb("run-help", ("run", "--help")),
    TypedVerb("status", ("status",)), TypedVerb("agents", ("agents",)),
    TypedVerb("run", ("run", "shell", POEM), (("JSON:", "y\n"),)),
    TypedVerb("deny", ("run", "shell", "rm -rf /tmp/nothing-here"), (("JSON:", "n\n"), ("Why", "not on this host\n"))),
    TypedVerb("tasks", ("tasks",)), TypedVerb("approvals", ("approvals", "--all")),
    TypedVerb("sessions", ("sessions",)), TypedVerb("policy", ("policy",)), TypedVerb("audit", ("audit", "list")),
    TypedVerb("contexts", ("contexts",)), TypedVerb("doctor", ("doctor",)), TypedVerb("keys", ("keys",)),
    TypedVerb("error", ("attach", "cmd_gone")),
)


class Recorded(NamedTuple):
    """A terminal after its program has ended; `ended` if it did by itself."""

    grid: TerminalGrid
    status: int
    ended: bool


def record(words: Sequence[str], columns: int, environment: Mapping[str, str], place: Path,
           answers: Sequence[tuple[str, str]] = ()) -> Recorded:
    """Run a program in a terminal of this width until it ends, and answer it."""
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
        os.chdir(place)
        os.execvpe(words[0], list(words), {**environment, "TERM": "xterm-256color", "COLORTERM": "truecolor"})
    grid, waiting, ends_at = TerminalGrid(columns), list(answers), time.monotonic() + PATIENCE_S
    output, ended = b"", False
    while (left := ends_at - time.monotonic()) > 0 and select.select([terminal], [], [], left)[0]:
        try:
            piece = os.read(terminal, 65_536)
        except OSError:  # The other end is closed.
            piece = b""
        if not piece:
            ended = True
            break
        output += piece
        if waiting and waiting[0][0].encode() in output:
            os.write(terminal, waiting.pop(0)[1].encode())
    if not ended:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    grid.feed(output.decode("utf-8", "replace"))
    return Recorded(grid, os.waitstatus_to_exitcode(status), ended)


def keep(recorded: Recorded, place: Path, name: str, title: str) -> str | None:
    """Write a recording; returns what is wrong with it."""
    columns = recorded.grid.columns
    (place / f"{name}-{columns}.txt").write_text(recorded.grid.text(), "utf-8")
    (place / f"{name}-{columns}.svg").write_text(recorded.grid.svg(title), "utf-8")
    return None if recorded.ended else f"{name} at {columns} columns did not end within {PATIENCE_S:.0f} s"


def tour(place: Path, widths: Sequence[int]) -> list[str]:
    """Record every verb of the tour at each width; returns what is wrong."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="interlock-recording-") as directory:
        work = Path(directory) / "project"
        work.mkdir()
        subprocess.run(["git", "init", "-q", str(work)], check=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")} | {
            "INTERLOCK_STATE": str(Path(directory) / "state")}
        up = subprocess.Popen([*INTERLOCK, "up", "--port", "0"], cwd=work, env=environment, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            _until_attached(up)
            for columns in widths:
                for verb in TOUR:
                    words = [*INTERLOCK, *verb.words]
                    title = " ".join(["interlock", *verb.words])
                    mistake = keep(record(words, columns, environment, work, verb.answers), place, verb.name, title)
                    wrong += [mistake] if mistake is not None else []
        finally:
            up.terminate()
            up.communicate()
    return wrong


def _until_attached(up: subprocess.Popen[str]) -> None:
    """Wait until `up` has printed that everything runs. Raises RuntimeError."""
    assert up.stdout is not None
    output = ""
    for line in up.stdout:
        output += line
        if READY in line:
            return
    raise RuntimeError(f"interlock up ended: {output}")


def main() -> int:
    """Record as the command line asks."""
    words, command = sys.argv[1:], list[str]()
    if "--" in words:
        at = words.index("--")
        words, command = words[:at], words[at + 1:]
    parser = argparse.ArgumentParser(prog="python -m proof.terminal.recorder", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--columns", type=int, nargs="+", default=list(WIDTHS))
    parser.add_argument("--name", default="recording")
    chosen = parser.parse_args(words)
    chosen.directory.mkdir(parents=True, exist_ok=True)
    if command:
        wrong = [mistake for columns in chosen.columns if (mistake := keep(
            record(command, columns, os.environ, Path.cwd()), chosen.directory, chosen.name, " ".join(command)))]
    else:
        wrong = tour(chosen.directory, chosen.columns)
    for mistake in wrong:
        sys.stderr.write(f"{mistake}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
