"""Pages whose commands are typed as printed, in order, on a terminal: the tutorial, and backup and restore (Y-16)."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from proof import REPOSITORY

pytestmark = [pytest.mark.long, pytest.mark.req("Y-16", "G-7")]
TUTORIAL = REPOSITORY / "docs/tutorial.md"
BACKUP = REPOSITORY / "docs/how-to/backup.md"
BLOCK = re.compile(r"^```(?:console|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ANSWERED = re.compile(r"(?:= as JSON|no reason\)): (.*)")
ASKS = re.compile(r"(?:= as JSON|no reason\)): ?$")
VARIES = (
    (r"[^\n]*\r|\x07", ""),
    (r"\b(cmd|apr|gw)_\w+", r"\1"),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "uuid"),
    (r"[0-9a-f]{16}…", "hash"),
    (r"\d+\.\d s", "time"),
    (r"\d+ MiB", "size"),
    (r"\d+\.\d+\.\d+\b(?!\.)", "version"),
    (r"\b([rR]ecord) \d+", r"\1"),
    (r"\b\d+ (records)\b", r"\1"),
    (r"notice\[\w+\]: .*|; \d+ not yet signed", ""),
    (r"(?s)\s+·\s+held: .*?(?=\n {4}\S)", ""),
    (r"(?s)ok +walls: .*?(?=ok +gateway)", ""),
)
"""What differs between machines and runs: passing status lines, ids, times, sizes, counts of records, walls, and
whether a link was down."""
PATIENCE_S = 60
WIDE = "300"
"""Columns of the reader's terminal: no line breaks inside the path of a home, which is longer here than a person's."""


class Typed(NamedTuple):
    """One command of a page, and what the page prints below it."""

    command: str
    printed: str

    @property
    def answers(self) -> list[str]:
        """The input of the reader at a question."""
        return ANSWERED.findall(self.printed)


def words(shown: str, home: str) -> Counter[str]:
    """The words of a command's output, without what varies. Lines of two streams may come in either order."""
    shown = shown.replace(home, "~")
    for pattern, kept in VARIES:
        shown = re.sub(pattern, kept, shown)
    return Counter(shown.split())


def typed(page: Path) -> list[Typed]:
    """The commands behind `$` of a page's console blocks."""
    found: list[Typed] = []
    for body in BLOCK.findall(page.read_text("utf-8")):
        for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            command, _, printed = part.partition("\n")
            found.append(Typed(command, printed))
    return found


class Reader:
    """A reader at a terminal, with a separate home, who types the commands of a page."""

    def __init__(self, home: Path) -> None:
        programs = home / "bin"
        programs.mkdir(parents=True)
        (programs / "interlock").write_text(f'#!/bin/sh\nexec {sys.executable} -m interlock "$@"\n')
        (programs / "interlock").chmod(0o755)
        self.home = self.directory = home
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")} | {
            "HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}", "TERM": "xterm", "COLUMNS": WIDE}

    def type(self, one: Typed) -> str:
        """Run a command on a terminal, answer what it asks, and return what it printed. Raises AssertionError if it
        fails."""
        screen, ours = pty.openpty()
        process = subprocess.Popen(["bash", "-c", one.command], cwd=self.directory, env=self.environment,
                                   stdin=ours, stdout=ours, stderr=ours, start_new_session=True)
        os.close(ours)
        answers, shown, since, deadline = one.answers, "", "", time.monotonic() + PATIENCE_S
        try:
            while time.monotonic() < deadline:
                if not select.select([screen], [], [], 0.05)[0]:
                    continue
                try:
                    more = os.read(screen, 65536).decode("utf-8", "replace")
                except OSError:  # Its last process has closed the terminal.
                    break
                if not more:
                    break
                shown, since = shown + more, since + re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", more)
                if answers and ASKS.search(since):
                    os.write(screen, f"{answers.pop(0)}\n".encode())
                    since = ""
            status = process.wait(PATIENCE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            os.close(screen)
        assert not answers, f"{one.command} never asked for {answers}:\n{shown}"
        assert status == 0, f"{one.command} ended with {status}:\n{shown}"
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown).replace("\r\n", "\n")


    def wait_for(self, command: str) -> None:
        """Try a command until it succeeds. Raises AssertionError."""
        deadline = time.monotonic() + PATIENCE_S
        while subprocess.run(["bash", "-c", command], cwd=self.directory, env=self.environment, check=False,
                             capture_output=True).returncode != 0:
            assert time.monotonic() < deadline, f"{command} never succeeded"


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """A reader who has typed the first lines of the tutorial."""
    one = Reader(tmp_path / "home")
    one.directory = one.home / "tutorial/notes"
    one.environment["INTERLOCK_STATE"] = str(one.home / "tutorial/state")
    one.directory.mkdir(parents=True)
    (one.directory / "list.md").write_text("first\nsecond\n")
    return one


@pytest.fixture
def up(reader: Reader) -> Generator[subprocess.Popen[str]]:
    """`interlock up` in the reader's other terminal."""
    with subprocess.Popen(["interlock", "up"], cwd=reader.directory, env=reader.environment, text=True,
                          executable=str(reader.home / "bin/interlock"), stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            assert any(line.startswith("Ctrl-C ends") for line in iter(process.stderr.readline, ""))
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def test_the_tutorial_does_what_it_describes(reader: Reader, up: subprocess.Popen[str]) -> None:
    for one in typed(TUTORIAL):
        if one.command == "interlock up":
            continue  # It runs in the other terminal.
        if one.command.startswith("interlock status"):
            up.terminate()
            up.wait(PATIENCE_S)
        shown = reader.type(one)
        if one.command.startswith("kill "):
            reader.wait_for("interlock status")  # `up` starts the gateway again.
        assert words(shown, str(reader.home)) == words(one.printed, "/home/ann"), repr(shown)


def test_a_backup_and_its_restore_do_what_the_page_describes(reader: Reader, up: subprocess.Popen[str]) -> None:
    lines = [line for body in BLOCK.findall(BACKUP.read_text("utf-8")) for line in body.splitlines()
             if line.startswith("interlock ")]
    assert [line.split()[1] for line in lines] == ["backup", "restore", "up"]
    for line in lines[:2]:
        reader.type(Typed(line, ""))
    assert (reader.home / "restored/ledger.db").is_file()
    up.terminate()
    up.wait(PATIENCE_S)
    with subprocess.Popen(["bash", "-c", f"exec {lines[2]}"], cwd=reader.directory, env=reader.environment, text=True,
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as again:
        assert again.stderr is not None
        assert any(line.startswith("Ctrl-C ends") for line in iter(again.stderr.readline, ""))
        again.terminate()
        again.wait(PATIENCE_S)
