"""The commands of a page, and a reader at a terminal who types them as printed (Y-16)."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from end_to_end.receiver import Receiver
from interlock.model_stand_in import ModelServer
from proof import REPOSITORY
from proof.processes.fork_server import ForkServer

T = TypeVar("T")
HOW_TO = REPOSITORY / "docs/how-to"
PATIENCE_S = 60
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
ASKS = re.compile(r"(?:\[y/N\]|= as JSON\)?:|no reason\):) ?$")
READY = "Ctrl-C ends"
"""What `up` prints last; a runner and a witness have words of their own."""
STANDING = "not to be seen on any page"
OF_THE_SHELL = frozenset("$`|&;<>()~*?[#\n\\")
"""What a shell may make something of: a line with any of these is left to one."""
AGENTS = ("builtin", "claude", "goose", "opencode", "qwen")
"""Agents of the pages. Interlock's own plays each of them, with the model stand-in behind it."""


class PageCommand(NamedTuple):
    """One command of a page."""

    page: str
    line: int
    text: str


def page_commands(path: Path) -> list[PageCommand]:
    """The lines behind `$` of a page's console blocks and all lines of its shell blocks, those that continue joined."""
    found: list[PageCommand] = []
    language, text, began = None, "", 0
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        bare = line.strip()
        if bare.startswith("```"):
            language = bare[3:] if language is None else None
            continue
        if not text:
            if language == "console" and line.startswith("$ "):
                bare = line[2:]
            elif language != "sh" or not bare or bare.startswith("#"):
                continue
            began = number
        text = f"{text}\n{bare}" if text else bare
        if is_whole(text):
            found.append(PageCommand(path.stem, began, text))
            text = ""
    assert not text, f"{path}:{began} does not end: {text}"
    return found


def is_whole(text: str) -> bool:
    """Whether a shell would run it and not wait for another line."""
    if text.endswith("\\"):
        return False
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return True


class PageSetup:
    """What the reader of one page has: a home, a workspace, a gateway with a runner, and agents with a model."""

    def __init__(self, place: Path, model: ModelServer, receiver: Receiver, fork_server: ForkServer) -> None:
        self._fork_server = fork_server
        self.home = place / "home"
        self.state = self.home / ".local/state/interlock"
        self.work = self.home / "project"
        self._programs = self.home / "bin"
        for folder in (self.work, self._programs, self.state):
            folder.mkdir(parents=True)
        self.state.chmod(0o700)
        self.receiver = receiver
        self.stand_in("interlock", f'exec {shlex.quote(sys.executable)} -m interlock "$@"')
        self.stand_in("python", f'exec {shlex.quote(sys.executable)} "$@"')
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")} | {
            "HOME": str(self.home), "PATH": f"{self._programs}:{os.environ['PATH']}", "TERM": "xterm",
            "COLUMNS": "100", "INTERLOCK_STATE": str(self.state), "OWN_KEY": "fake", "BROWSER": "true",
            "GIT_AUTHOR_NAME": "ann", "GIT_AUTHOR_EMAIL": "ann@example.org", "GIT_COMMITTER_NAME": "ann",
            "GIT_COMMITTER_EMAIL": "ann@example.org"}
        self.config = "".join(
            f'[agents.{name}]\nadapter = "builtin"\nmodel = "openai-chat/fake"\nbase_url = "{model.url}/v1"\n'
            f'api_key_env = "OWN_KEY"\nenv = {{ OWN_KEY = "fake" }}\n\n' for name in AGENTS)
        self.replaced: dict[str, str] = {}
        """The placeholders of the pages, each with the value of this reader."""
        self.url = self.key = ""
        self._up: subprocess.Popen[str] | None = None
        self._variables = self.home / ".variables"

    def stand_in(self, name: str, script: str) -> None:
        """Put a program onto PATH."""
        path = self._programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def __enter__(self) -> PageSetup:
        return self

    def __exit__(self, *error: object) -> None:
        if self._up is not None:
            self._up.terminate()
            self._up.wait(PATIENCE_S)
            assert self._up.stderr is not None
            self._up.stderr.close()

    def up(self) -> None:
        """Have gateway and runner run. Raises AssertionError if they do not."""
        if self._up is not None:
            return
        (self.state / "interlock.toml").write_text(self.config)
        self._up = subprocess.Popen(  # It logs as long as it runs.
            [str(self._programs / "interlock"), "up", "--port", "0", "--root", str(self.home)], cwd=self.work,
            env=self.environment, text=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        assert self._up.stderr is not None
        lines: list[str] = []
        for line in iter(self._up.stderr.readline, ""):
            lines.append(line)
            if line.startswith(READY):
                break
        assert lines, "it said nothing"
        assert lines[-1].startswith(READY), "".join(lines)
        self.url = re.findall(r"http://127\.0\.0\.1:\d+", "".join(lines))[0]
        self.key = (self.state / "owner.key").read_text().strip()
        self.environment |= {"INTERLOCK_KEY": self.key}
        self.replaced |= {"http://127.0.0.1:7420": self.url, "ws://127.0.0.1:7420": self.url.replace("http", "ws"),
                          "https://gate.example.org": self.url, "https://gate.example": self.url,
                          "https://team.example.org": self.url, "ilk_…": self.key, "INTERLOCK_KEY=…":
                          f"INTERLOCK_KEY={self.key}", "/home/ann": str(self.home), "/srv/app": str(self.work)}

    def as_typed(self, text: str) -> str:
        """A command as this reader types it."""
        for printed, own in sorted(self.replaced.items(), key=lambda one: -len(one[0])):
            text = text.replace(printed, own)
        return text

    def rows(self, command: str) -> list[dict[str, Any]]:
        """What a list prints as JSON."""
        return next(iter(json.loads(self.do(f"{command} --json")).values()))

    def do(self, command: str, status: int = 0) -> str:
        """Run a command that the page does not have: what it takes for granted. Returns what it printed. A verb of it
        is forked; those of the page itself are started as its reader starts them."""
        if command.startswith("interlock ") and OF_THE_SHELL.isdisjoint(command):
            done = self._fork_server.run(shlex.split(command)[1:], self.work, environment=self.environment,
                                         timeout=PATIENCE_S)
        else:
            done = subprocess.run(["bash", "-c", command], cwd=self.work, env=self.environment, capture_output=True,
                                  text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S, check=False)
        assert done.returncode == status, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def type(self, text: str, until: str = STANDING, status: int = 0) -> str:
        """Type a command at a terminal, confirm its questions and return its output. A command that runs until it is
        ended gets Ctrl-C once `until` is printed. Raises AssertionError."""
        command = self.as_typed(text)
        kept = shlex.quote(str(self._variables))
        script = (f"[ -f {kept} ] && . {kept}\nset -a\n{command}\nended=$?\nexport -p | "
                  f"grep -E '^declare -x (KEY|URL|INTERLOCK_[A-Z]+)=' > {kept}\nexit $ended")
        screen, ours = pty.openpty()
        process = subprocess.Popen(["bash", "-c", script], cwd=self.work, env=self.environment, stdin=ours,
                                   stdout=ours, stderr=ours, start_new_session=True)
        os.close(ours)
        try:
            shown = self._watch(screen, until)
            if until in shown:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
                process.wait(PATIENCE_S)
                return shown
            try:
                ended = process.wait(1.0)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"{command} never ended:\n{shown}") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(screen)
        assert until == STANDING, f"{command} never printed {until!r}:\n{shown}"
        assert ended == status, f"{command} ended with {ended}:\n{shown}"
        return shown

    @staticmethod
    def _watch(screen: int, until: str) -> str:
        shown, since, deadline = "", "", time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if not select.select([screen], [], [], 0.05)[0]:
                continue
            try:
                more = os.read(screen, 65536).decode("utf-8", "replace")
            except OSError:  # Its last process has closed the terminal.
                break
            if not more:
                break
            more = ESCAPES.sub("", more).replace("\r\n", "\n")
            shown, since = shown + more, since + more
            if until in shown:
                break
            if ASKS.search(since):
                os.write(screen, b"y\n")
                since = ""
        return shown


Preparation = Callable[[PageSetup], object]


class PageRun(NamedTuple):
    """How a page's commands are run. Keys are beginnings of commands, as printed."""

    before: Mapping[str, Preparation] = {}
    """What the page takes for granted when a command is typed."""
    start: Preparation | None = None
    """What it takes for granted before the gateway is started: its config."""
    until: Mapping[str, str] = {}
    """What a command has printed when it is ended, of those that run until then."""
    status: Mapping[str, int] = {}
    """How it ends, if not with 0."""
    prints: Mapping[str, str] = {}
    """What it prints among other things."""
    not_here: Mapping[str, str] = {}
    """What cannot be run in a test, and why."""


def entry_of(table: Mapping[str, T], text: str) -> T | None:
    """What a table has for a command: that of the longest beginning."""
    fitting = [begin for begin in table if text.startswith(begin)]
    return table[max(fitting, key=len)] if fitting else None


def run_page(path: Path, how: PageRun, stack: PageSetup) -> list[PageCommand]:
    """Type a page's commands in order. Returns those that were run."""
    ran: list[PageCommand] = []
    if how.start is not None:
        how.start(stack)
    for command in page_commands(path):
        text = command.text
        if entry_of(how.not_here, text) is not None:
            continue
        stack.up()
        prepare = entry_of(how.before, text)
        if prepare is not None:
            prepare(stack)
        shown = stack.type(text, entry_of(how.until, text) or STANDING, entry_of(how.status, text) or 0)
        wanted = entry_of(how.prints, text) or ""
        where = f"{path.stem}:{command.line}: {text}"
        assert wanted in " ".join(shown.split()), f"{where}\ndid not print {wanted!r}:\n{shown}"
        ran.append(command)
    return ran
