"""`interlock chat` with a real gateway and a real agent: messages, words for the gateway, an exit status (V-1)."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time

import pytest

from proof.processes.stack import Stack

PATIENCE_S = 20
EDITING = "\x1b[?2004h"
"""The editor has taken the terminal over: it marks what is pasted."""
WHERE = "\x1b[6n"
"""The editor asks the terminal where the cursor is."""


def chat(stack: Stack, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    return stack.interlock("chat", *options, "--state", str(stack.state), stdin=text,
                           environment={**os.environ, "INTERLOCK_URL": stack.url})


@pytest.mark.req("V-1", "R-4", "I-1")
def test_chat_reads_a_conversation_from_a_pipe(stack: Stack) -> None:
    before = chat(stack, "/status\n", "shell", "--session", "talk")
    assert (before.returncode, "not begun" in before.stdout) == (0, True)
    done = chat(stack, "echo one # free\n", "shell", "--session", "talk")
    assert (done.returncode, done.stdout) == (0, "one\n"), done.stderr
    first = stack.get("/v1/sessions")["items"][0]
    assert first["session_key"] == "agent:shell:talk"
    again = chat(stack, "/new echo two # free\n/status\n", "--session", "agent:shell:talk")
    assert again.returncode == 0, again.stderr
    assert {"two", "agent shell · model its own choice · running"} & set(again.stdout.splitlines())
    assert "a new session begins" in again.stderr
    newest = stack.get("/v1/sessions")["items"][0]
    assert newest["session_key"] == "agent:shell:talk"
    assert newest["session_id"] != first["session_id"]
    failed = chat(stack, "exit 3 # free\n", "shell", "--session", "talk")
    assert failed.returncode == 1
    assert "exit status 3" in failed.stderr


@pytest.mark.req("V-1")
def test_stop_ends_the_running_task(stack: Stack) -> None:
    done = chat(stack, "sleep 60 # free\n/stop\n", "shell", "--session", "halt")
    assert done.returncode == 4, done.stderr
    assert "Stopping 1 command." in done.stdout


@pytest.mark.req("N-3")
def test_status_shows_the_connected_parts_and_the_last_session(stack: Stack) -> None:
    chat(stack, "echo x # free\n", "shell", "--session", "where")
    shown = stack.interlock("status", "--state", str(stack.state),
                            environment={**os.environ, "INTERLOCK_URL": stack.url}).stdout
    rows = dict(line.split("  ", 1) for line in shown.splitlines() if line.startswith(("state directory", "store ")))
    states, stores = stack.places()
    assert rows["state directory"].strip() in states
    assert rows["store"].strip() in stores
    assert "last session     agent:shell:where · " in shown


class Terminal:
    """`interlock chat` on a pseudo terminal."""

    def __init__(self, stack: Stack, *options: str) -> None:
        self._pid, self._descriptor = pty.fork()
        if self._pid == 0:
            os.execvpe(sys.executable, [sys.executable, "-m", "interlock", "chat", *options, "--state",
                                        str(stack.state)],
                       {**os.environ, "INTERLOCK_URL": stack.url, "TERM": "xterm"})
        self.seen = ""
        self._read_to = 0

    def press(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def read_until(self, text: str) -> None:
        """Read until this text, which follows what was read before. The time that the program needs to load is not
        limited. Raises OSError if it ends, since its terminal is closed."""
        if not self.seen:
            select.select([self._descriptor], [], [])
        until_s = time.monotonic() + PATIENCE_S
        while text not in self.seen[self._read_to:]:
            ready = select.select([self._descriptor], [], [], max(0.0, until_s - time.monotonic()))[0]
            assert ready, f"{text!r} did not come after: {self.seen[self._read_to:]!r}"
            data = os.read(self._descriptor, 65_536).decode("utf-8", "replace")
            if WHERE in data:
                self.press("\x1b[1;1R")
            self.seen += data
        self._read_to = self.seen.index(text, self._read_to) + len(text)

    def status(self) -> int:
        try:
            while data := os.read(self._descriptor, 65_536):
                self.seen += data.decode("utf-8", "replace")
        except OSError:
            pass  # The other end is closed: everything was read.
        os.close(self._descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


@pytest.mark.req("Y-7", "V-1")
def test_a_terminal_user_answers_approvals_in_line_and_ctrl_c_ends_only_the_turn(stack: Stack) -> None:
    terminal = Terminal(stack, "shell", "--session", "typed")
    terminal.read_until(EDITING)
    terminal.press("echo first\r")
    terminal.read_until("as JSON:")
    terminal.press("y\r")
    terminal.read_until("ran 1 command")
    terminal.press("echo begun # free\x1b\rsleep 60 # free\r")
    terminal.read_until("begun\r\n")
    terminal.press("\x03")
    terminal.read_until("canceled by user:owner")
    terminal.press("echo again # free\r")
    terminal.read_until("again\r\n")
    terminal.press("/quit\r")
    assert terminal.status() == 0
    assert "was \x1b[32mgranted" in terminal.seen  # Before the command's output or after it.
    assert "\x1b[2J" not in terminal.seen


@pytest.mark.req("Y-7", "G-4")
def test_a_reopened_chat_follows_the_running_task(stack: Stack) -> None:
    first = Terminal(stack, "shell", "--session", "left")
    first.read_until(EDITING)
    first.press("echo begun # free\x1b\rsleep 60 # free\r")
    first.read_until("begun\r\n")
    first.press("/quit\r")
    assert first.status() == 0
    second = Terminal(stack, "shell", "--session", "left")
    second.read_until("agent:shell:left is still working")
    second.read_until("Ctrl-C ends the turn")
    second.press("\x03")
    second.read_until("canceled by user:owner")
    second.press("/quit\r")
    assert second.status() == 0
