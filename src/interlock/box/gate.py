"""Holds each program that an agent's processes start until the runner has answered (H-16). Runs in the supervisor.

The kernel reports each execve and execveat of the tree (see `exec_filter`). A start that the kernel would reject is
answered with the kernel's error; one below an allowed program is allowed here, and counted; any other is sent to the
runner, and held until it answers. Before an allowed program continues it is traced, so that it stops once it is in
place and before its first instruction: it is then compared with what was allowed, and any other program is killed. A
supervisor that ends takes all traced processes with it; held ones then get ENOSYS.

Lines on the control socket, beside those of the supervisor:

    supervisor → runner   P <token> <base64>          a program is held: NUL-joined fields, see `fields`
                          V <token>                   it is no longer held: its process is gone
                          X <token> <base64>          an allowed program ended: programs started below it, see `Below`
                          M <token> <base64>          a program other than the allowed one was killed before it ran
                          N <base64>                  a start was refused without a question: why
    runner → supervisor   A <token> once|below|no
"""

# Imported by the supervisor, which must start quickly: no pathlib, no contextlib.
# ruff: noqa: SIM105
from __future__ import annotations

import binascii
import errno
import fcntl
import hashlib
import os
import select
import signal
import struct
from collections.abc import Callable, Mapping

from interlock.box import ptrace
from interlock.box.exec_filter import calls
from interlock.box.memory import Unreadable
from interlock.box.processes import began, group_of, parent_and_start, path_of
from interlock.box.program import (
    Program,
    ProgramReader,
    RunningProgram,
    StartedProgram,
    View,
    by_env,
    is_as_allowed,
    running,
    view_of,
)

RECEIVE, SEND, IS_VALID, SET_FLAGS = 0xC050_2100, 0xC018_2101, 0x4008_2102, 0x4008_2104
"""`SECCOMP_IOCTL_NOTIF_RECV`, `_SEND`, `_ID_VALID` and `_SET_FLAGS`."""
SYNC_WAKE_UP = 1
"""`SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP` (Linux 6.6): the held process and this one alternate on one processor. Without
it each start waits until other work lets this process run: 8 ms for each of a build's, on two busy processors."""
NOTICE_BYTES = 80
CONTINUE = 1
MAX_HELD = 64
"""Programs of one agent that wait for an answer; more get EAGAIN, as when no process can be created."""
MAX_ALLOWED = 256
"""Allowed programs of one agent that are watched; programs that one more starts are held like any other."""
MAX_NAMES = 32
"""Program names below an allowed one that are counted separately."""
MAX_DEPTH = 256
"""Parents that are searched for an allowed program above a process."""
MAX_NOTES = 100
"""Refusals without a question that are reported; later ones are refused without a report."""


class Below:
    """The programs started in an allowed program's tree: a count, names, and a digest over all argument vectors."""

    def __init__(self) -> None:
        self.count = 0
        self._names: dict[bytes, int] = {}
        self._digest = hashlib.sha256()

    def add(self, program: StartedProgram) -> None:
        """Count another one."""
        self.count += 1
        name = program.name
        if name not in self._names and len(self._names) >= MAX_NAMES:
            name = b"others"
        self._names[name] = self._names.get(name, 0) + 1
        for part in (program.path, program.directory, *program.argv):
            self._digest.update(len(part).to_bytes(4, "big") + part)
        self._digest.update(b"\xff\xff\xff\xff")

    def fields(self) -> list[bytes]:
        """Return the count, the digest in hex, then pairs of name and count, the most frequent first."""
        often = sorted(self._names.items(), key=lambda one: -one[1])
        return [b"%d" % self.count, self._digest.hexdigest().encode(),
                *(field for name, count in often for field in (name, b"%d" % count))]


class _Held:
    """A start that waits for the runner. `watch` is a descriptor of its process, -1 without one."""

    def __init__(self, token: int, notice: int, tid: int, program: Program, watch: int) -> None:
        self.token = token
        self.notice = notice
        self.tid = tid
        self.program = program
        self.watch = watch


class _Allowed:
    """A program that was allowed: `key` is its pid and its process's start time."""

    def __init__(self, token: int, program: Program, key: tuple[int, int], below: bool) -> None:
        self.token = token
        self.program = program
        self.key = key
        self.below = below
        self.started = Below()
        words = by_env(program.image.shebang)
        self.goes_on = (*words, program.path, *program.argv[1:]) if words else ()
        """The command that `#!/usr/bin/env node` executes next in the same process: a part of the same command."""


def fields(program: Program) -> list[bytes]:
    """Encode a program for the line `P`: path, directory, name, 1 for a view of its own, number of variables, those,
    arguments."""
    return [program.path, program.directory, program.name, b"%d" % program.own_view, b"%d" % len(program.environment),
            *program.environment, *program.argv]


def _is_second_half(program: Program, allowed: _Allowed) -> bool:
    return bool(allowed.goes_on) and allowed.goes_on == program.argv and program.name == program.argv[0] \
        and not program.own_view and program.environment == allowed.program.environment


class ProgramGate:
    """One agent's gate. `listener` is the filter's, `send` sends a line to the runner, `poll` is the supervisor's."""

    def __init__(self, listener: int, agent: int, environment: Mapping[bytes, bytes], send: Callable[[str], None],
                 poll: select.poll) -> None:
        self._listener = listener
        self._agent = agent
        self._base = environment
        self._send = send
        self._poll = poll
        self._calls = calls()
        self._tokens = 0
        self._notes = 0
        self._held: dict[int, _Held] = {}
        self._allowed: dict[tuple[int, int], _Allowed] = {}
        self._watched: dict[int, _Allowed] = {}
        self._waiting: dict[int, int] = {}
        """Tokens of held starts by the descriptor of their process."""
        self._traced: dict[int, _Allowed] = {}
        """Allowed programs that are not yet in place, by thread and by process."""
        self._own: _Allowed | None = None
        self._view: View = (0, 0, 0)
        self._denied: dict[tuple[int, int], tuple[bytes, ...]] = {}
        """Arguments that the runner last refused to a process: its search along PATH continues with the same ones."""
        os.set_inheritable(listener, False)
        try:
            fcntl.ioctl(listener, SET_FLAGS, SYNC_WAKE_UP)
        except OSError:
            pass  # Before Linux 6.6: slower.
        poll.register(listener, select.POLLIN)

    # --- the agent's own program ---
    def let_agent_start(self) -> None:
        """Wait for the agent's own first program, which its config allows, and release it. Does nothing if its process
        ends first. Raises OSError."""
        waiting = select.poll()
        waiting.register(self._listener, select.POLLIN)
        while True:
            if not any(happened & select.POLLIN for _, happened in waiting.poll()):
                return
            notice, tid, _, arguments = self._receive()
            if notice:
                break
        try:
            self._view = view_of(tid)
            program = ProgramReader(tid, self._base, self._view).read(False, arguments)
            self._own = _Allowed(0, program, (tid, began(tid)), below=False)
        except (Unreadable, OSError):
            pass  # Then only this one start is allowed.
        self._answer(notice, 0)

    # --- events of the supervisor's poll ---
    def ready(self, number: int, happened: int) -> bool:
        """Handle an event of a descriptor; return False if it is not one of the gate's."""
        if number in self._watched:
            self._end(number)
            return True
        if number in self._waiting:
            self._drop(self._held[self._waiting[number]])
            return True
        if number != self._listener:
            return False
        if happened & select.POLLIN:
            self._take()
        else:
            self._poll.unregister(number)  # No process with the filter is left.
        return True

    def take(self, words: list[bytes]) -> None:
        """Handle the runner's answer. One for a start that is no longer held changes nothing."""
        held = self._held.get(int(words[1])) if len(words) == 3 and words[1].isdigit() else None
        if held is None:
            return
        self._unhold(held)
        if words[2] not in (b"once", b"below"):
            if len(self._denied) >= MAX_ALLOWED:
                self._denied.clear()
            try:
                self._denied[held.tid, began(held.tid)] = held.program.argv
            except OSError:
                pass  # It is gone.
            self._answer(held.notice, errno.EPERM)
            return
        self._let(held, below=words[2] == b"below")

    def stopped(self, pid: int, status: int) -> bool:
        """Handle a status of waitpid; return False if its process has ended."""
        allowed = self._traced.get(pid)
        if allowed is not None:
            self._traced = {tid: one for tid, one in self._traced.items() if one is not allowed}
        if not os.WIFSTOPPED(status):
            if allowed is not None:
                self._report(allowed)
            return False
        event = ptrace.event(status)
        if allowed is not None and event == ptrace.EVENT_EXEC:
            self._compare(pid, allowed)
        elif allowed is not None:
            self._report(allowed)  # The process stopped after the call: the kernel did not execute the program.
        try:
            ptrace.release(pid, 0 if event else os.WSTOPSIG(status))
        except OSError:
            pass  # It was killed.
        return True

    # --- a start ---
    def _receive(self) -> tuple[int, int, int, tuple[int, ...]]:
        """Receive the next start: its id (0 if its process is gone), thread, call, arguments."""
        buffer = bytearray(NOTICE_BYTES)
        try:
            fcntl.ioctl(self._listener, RECEIVE, buffer, True)
        except OSError as failed:
            if failed.errno in (errno.ENOENT, errno.EINTR):
                return 0, 0, 0, ()
            raise
        notice, tid = struct.unpack_from("=QI", buffer, 0)
        number, = struct.unpack_from("=i", buffer, 16)
        return notice, tid, number, struct.unpack_from("=6Q", buffer, 32)

    def _take(self) -> None:
        notice, tid, number, arguments = self._receive()
        if not notice:
            return
        reader, at = ProgramReader(tid, self._base, self._view), number == self._calls.execveat
        try:
            if (above := self._above(tid)) is not None:
                above.started.add(reader.started(at, arguments))
                self._answer(notice, 0)
                return
            program = reader.read(at, arguments)
        except Unreadable as unreadable:
            self._answer(notice, unreadable.number)
            if unreadable.number == errno.E2BIG:
                self._note("a program with more arguments than can be shown")
            return
        except OSError as failed:
            self._answer(notice, errno.EPERM)
            if failed.errno not in (errno.ESRCH, errno.ENOENT):
                self._note(f"a program of a process that cannot be read ({failed.strerror})")
            return
        if (allowed := self._goes_on(tid, program)) is not None:
            self._let(_Held(allowed.token, notice, tid, program, -1), below=allowed.below)
        elif self._denied.get((tid, began(tid))) == program.argv:
            self._answer(notice, errno.EPERM)
        elif not self._still_held(notice, tid, program):
            self._hold(notice, tid, program)

    def _goes_on(self, tid: int, program: Program) -> _Allowed | None:
        """Return the allowed command that this start continues, if any."""
        for allowed in (self._own, *self._allowed.values()):
            if allowed is not None and allowed.key[0] == tid and _is_second_half(program, allowed) \
                    and allowed.key[1] == began(tid):
                allowed.goes_on = ()
                return allowed
        return None

    def _still_held(self, notice: int, tid: int, program: Program) -> bool:
        """Return whether this start is held already: a signal made the process repeat the call (before Linux 5.19)."""
        for held in self._held.values():
            if held.tid == tid and held.program == program and not self._is_valid(held.notice):
                held.notice = notice
                return True
        return False

    def _hold(self, notice: int, tid: int, program: Program) -> None:
        if len(self._held) >= MAX_HELD:
            self._answer(notice, errno.EAGAIN)
            self._note(f"more than {MAX_HELD} programs at once")
            return
        try:
            watch = os.pidfd_open(group_of(tid))
        except OSError:
            self._answer(notice, errno.EAGAIN)  # It is gone, or no descriptor is free.
            return
        self._tokens += 1
        self._held[self._tokens] = _Held(self._tokens, notice, tid, program, watch)
        self._waiting[watch] = self._tokens
        self._poll.register(watch, select.POLLIN)
        self._send(f"P {self._tokens} {_encoded(fields(program))}")

    def _unhold(self, held: _Held) -> None:
        del self._held[held.token], self._waiting[held.watch]
        self._poll.unregister(held.watch)
        os.close(held.watch)

    def _drop(self, held: _Held) -> None:
        self._unhold(held)
        self._send(f"V {held.token}")

    def _let(self, held: _Held, *, below: bool) -> None:
        """Trace the process, release its call, and make it stop afterwards."""
        try:
            if not self._is_valid(held.notice):
                raise ProcessLookupError
            group = group_of(held.tid)
            key = group, began(group)
            ptrace.seize(held.tid)
        except OSError as failed:
            self._answer(held.notice, errno.EPERM)
            self._send(f"V {held.token}")
            if failed.errno == errno.EPERM:
                self._note("a program under a debugger, which cannot be compared with what was allowed")
            return
        self._traced[held.tid] = self._traced[group] = _Allowed(held.token, held.program, key, below)
        self._answer(held.notice, 0)
        try:
            ptrace.interrupt(held.tid)
        except OSError:
            pass  # It has ended.

    def _compare(self, pid: int, allowed: _Allowed) -> None:
        """Compare the program in place with the allowed one, before it runs."""
        try:
            ran = running(pid, self._base)
        except OSError:
            ran = RunningProgram((0, 0), b"", b"", ())
        if is_as_allowed(allowed.program, ran):
            self._watch(allowed)
            return
        # Shown as a command line with the same effect, so that the reader of the report sees the difference.
        moved = [b"--chdir=" + ran.directory] if ran.directory != allowed.program.directory else []
        variables = list(ran.environment) if ran.environment != allowed.program.environment else []
        other = [*([b"env"] if moved or variables else []), *moved, *variables, path_of(pid),
                 *ran.line.split(bytes(1))[:-1]]
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
        self._send(f"M {allowed.token} {_encoded(other)}")
        self._report(allowed)

    # --- running programs ---
    def _above(self, tid: int) -> _Allowed | None:
        """Return the allowed program whose tree contains a thread. Raises OSError if it is gone."""
        if not any(one.below for one in self._allowed.values()):
            return None
        pid = group_of(tid)
        for _ in range(MAX_DEPTH):
            parent, start = parent_and_start(pid)
            allowed = self._allowed.get((pid, start))
            if allowed is not None and allowed.below:
                return allowed
            if parent <= 1 or parent == os.getpid():
                return None
            pid = parent
        return None

    def _watch(self, allowed: _Allowed) -> None:
        for watch in [watch for watch, one in self._watched.items() if one.key == allowed.key]:
            self._end(watch, ended=self._watched[watch].token != allowed.token)  # It executes another program now.
        try:
            if len(self._allowed) >= MAX_ALLOWED:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            watch = os.pidfd_open(allowed.key[0])
        except OSError:
            self._report(allowed)
            return
        self._allowed[allowed.key] = self._watched[watch] = allowed
        self._poll.register(watch, select.POLLIN)

    def _end(self, watch: int, *, ended: bool = True) -> None:
        allowed = self._watched.pop(watch)
        self._poll.unregister(watch)
        os.close(watch)
        del self._allowed[allowed.key]
        if ended:
            self._report(allowed)

    def _report(self, allowed: _Allowed) -> None:
        if allowed.token:  # The agent's own first program has none.
            self._send(f"X {allowed.token} {_encoded(allowed.started.fields())}")

    # --- the kernel ---
    def _is_valid(self, notice: int) -> bool:
        try:
            fcntl.ioctl(self._listener, IS_VALID, struct.pack("=Q", notice))
        except OSError:
            return False
        return True

    def _answer(self, notice: int, number: int) -> None:
        """Release a start, or fail it with an errno; does nothing if its process is gone."""
        reply = bytearray(struct.pack("=QqiI", notice, 0, -number, 0 if number else CONTINUE))
        try:
            fcntl.ioctl(self._listener, SEND, reply, True)
        except OSError as failed:
            if failed.errno not in (errno.ENOENT, errno.EINPROGRESS):
                raise

    def _note(self, why: str) -> None:
        self._notes += 1
        if self._notes <= MAX_NOTES:
            self._send(f"N {_encoded([why.encode()])}")


def _encoded(parts: list[bytes]) -> str:
    return binascii.b2a_base64(b"\0".join(parts), newline=False).decode()
