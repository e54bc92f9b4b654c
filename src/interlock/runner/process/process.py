"""One agent's process: its start, its three streams, its end (A-1, A-2, A-4, A-8).

The runner is never the parent of the agent. This module starts a supervisor process (see `supervisor`) between the two,
sends it an order and reads its events; the agent's streams bypass it and go straight to the runner.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from interlock.box.walls import NO_WALLS, Walls
from interlock.ports.agent import AgentStartFailed, ProcessExit
from interlock.ports.process import ProcessOutlet, Programs, WayOut
from interlock.protocol.limits import TERMINATE_GRACE_MS
from interlock.runner.process import reaper, supervisor
from interlock.runner.process.descriptors import is_shortage, shortage
from interlock.runner.process.environment import SESSION
from interlock.runner.process.exits import exit_from_status
from interlock.runner.process.lines import READ_BYTES, BoundedLines
from interlock.runner.process.programs import NoPrograms, ProgramLines
from interlock.runner.process.streams import AgentOutput, Input, SupervisorSocket, Tail

TERMINATE_GRACE_S = TERMINATE_GRACE_MS / 1000
SUPERVISOR_WAIT_S = supervisor.KILL_WAIT_S + 10
"""A supervisor that has not finished this long after the grace is itself stuck, and is killed."""
STOP_ROUNDS = 10
"""Rounds in which `pause` looks for processes that were forked while it stopped the others."""
KILLED = ProcessExit(None, signal.SIGKILL.value)
"""The exit of an agent whose supervisor was killed, since the kernel kills it too; also of an agent that survived."""


class AgentProcess:
    """A running agent program. Made by `start`; the caller must call `terminate`, also after it ended by itself.

    Guarantees: after `terminate` returned, no descendant is left but `survivors`, and all file descriptors are closed.
    If the runner dies, by any signal, the same happens without it. One task may read `lines` or `chunks` (either, not
    both); everything else may be called from anywhere in the loop, at any time, also after the end.
    """

    def __init__(self, program: subprocess.Popen[bytes], control: SupervisorSocket, session_id: str) -> None:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stderr is not None
        self._supervisor = program
        self._control = control
        self._session_id = session_id
        self._input = Input(program.stdin)
        self._output = AgentOutput(program.stdout)
        self._tail = Tail(program.stderr)
        self._lines = BoundedLines(self._output.read)
        self._way_out: ProcessOutlet | None = None
        self._settling = asyncio.Lock()
        self._settled = False
        self._stopped = False
        self.survivors: list[int] = []
        """Pids that SIGKILL did not end (another user's, or stuck in the kernel); complete once `terminate` returned.
        """

    @classmethod
    async def start(cls, argv: Sequence[str], env: Mapping[str, str], cwd: str | Path, *, descriptors: int = 0,
                    walls: Walls = NO_WALLS, programs: Programs | None = None, way_out: WayOut | None = None) -> Self:
        """Start a program in its own session and process group; return once it has been exec'd (some 25 ms).

        `env` is the whole environment (see `environment`), `cwd` an absolute directory; a program without a slash is
        searched on `env`'s PATH, one with a slash relative to `cwd`. `descriptors` is its soft limit of open files, 0
        for this process's own. `walls` are raised before the program runs; if that fails, it does not run (H-15).
        `programs` decides on the programs that it starts if the walls hold programs (H-16); without it none starts.
        In a network of its own, `way_out` serves it from before its first instruction until `terminate` (H-19).
        Raises AgentStartFailed with one sentence.
        """
        program = find_program(argv, env, Path(cwd))
        handed = HandedOver(walls)
        order = encode_order(str(cwd), program, argv, env, walls, handed.descriptor)
        try:
            control, theirs = await _connect()
        except OSError as failed:
            raise AgentStartFailed(_unstarted(argv[0], failed)) from failed
        try:
            process = cls(_start_supervisor(theirs, descriptors, handed.inherited), control, env.get(SESSION, ""))
        except OSError as failed:
            control.close()
            handed.close()
            raise AgentStartFailed(_unstarted(argv[0], failed)) from failed
        finally:
            theirs.close()
        if walls.programs:
            control.hold_programs(ProgramLines(programs or NoPrograms(), control.send))
        try:
            await process._begin(order)
            if control.pid is None:
                await process.terminate(0)
                raise AgentStartFailed(process._refusal(program, str(cwd)))
            if way_out is not None and walls.network:
                await process._serve(way_out, handed.listeners())
        finally:
            handed.close()
        return process

    async def _begin(self, order: bytes) -> None:
        try:
            await self._tail.attach()
            await self._output.attach()
            await self._input.attach()
        except BaseException:
            self._supervisor.kill()  # It has no order yet, so it has no children.
            self._control.close()
            await self._settle()
            raise
        self._control.send(order)
        try:
            await self._control.answered.wait()
        except BaseException:
            await self.terminate(0)
            raise

    async def _serve(self, way_out: WayOut, listeners: Sequence[tuple[int, socket.socket]]) -> None:
        try:
            self._way_out = await way_out.open(listeners)
        except BaseException as failed:
            await self.terminate(0)
            if isinstance(failed, OSError):
                raise AgentStartFailed(f"The way out of the agent's network could not be served ({failed})."
                                       ) from failed
            raise

    def _refusal(self, program: str, cwd: str) -> str:
        if self._control.failure is None:
            return (f"The supervisor of {program} ended: "
                    f"{self.stderr_tail().strip() or 'it wrote no reason'}.")
        stage, number = self._control.failure
        return refusal(stage, number, program, cwd)

    @property
    def pid(self) -> int:
        """Return the agent's pid, which is also its process group and session."""
        assert self._control.pid is not None
        return self._control.pid

    @property
    def exit(self) -> ProcessExit | None:
        """Return the exit of the agent's own process; None while it runs."""
        if self._control.status is not None:
            return exit_from_status(self._control.status)
        return KILLED if self._control.over.is_set() else None

    async def exited(self) -> ProcessExit:
        """Wait until the agent's own process has ended. Its descendants may live on and hold its streams open: for
        them, call `terminate` and read `lines` or `chunks` to their end. `stderr_tail` is complete to this point."""
        await self._control.ended.wait()
        self._tail.catch_up()
        return self.exit or KILLED

    async def write(self, data: bytes) -> None:
        """Write to the agent's standard input; return when the pipe's buffer is below its mark again.

        Raises BrokenPipeError once the agent has closed its input or has ended.
        """
        await self._input.write(data)

    def close_input(self) -> None:
        """Close the agent's standard input after pending writes. A second call changes nothing."""
        self._input.close()

    def lines(self) -> BoundedLines:
        """Return the one iterator over the lines of standard output; see `BoundedLines` for limit and back-pressure."""
        return self._lines

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield standard output as it arrives, at most READ_BYTES at once, with back-pressure, to its end."""
        while chunk := await self._output.read(READ_BYTES):
            yield chunk

    def stderr_tail(self) -> str:
        """Return the last STDERR_TAIL_BYTES of standard error, from the start of a line if it was cut (A-8)."""
        return self._tail.text()

    def descendants(self) -> list[int]:
        """Return every living process of this agent, itself included, in rising order; by tree, group and session id.
        """
        by_tree: set[int] = set()
        if self._control.pid is not None and not self._control.over.is_set():
            table = supervisor.descendant_table(self._supervisor.pid)
            by_tree = supervisor.family(self._supervisor.pid, self.pid, table)
        return sorted(by_tree.union(reaper.live_descendants(self._session_id) if self._session_id else ()))

    def pause(self) -> None:
        """Send SIGSTOP to the group and every descendant outside it: they get no CPU after this returns (C-6).

        Searches again until nothing new was forked meanwhile. Does nothing once the agent has ended.
        """
        if self._control.over.is_set():
            return
        self._stopped = True
        seen: set[int] = set()
        for _ in range(STOP_ROUNDS):
            table = supervisor.descendant_table(self._supervisor.pid)
            found = supervisor.family(self._supervisor.pid, self.pid, table)
            if found <= seen:
                return
            seen |= found
            supervisor.signal_family(self._supervisor.pid, self.pid, signal.SIGSTOP, table)

    def resume(self) -> None:
        """Send SIGCONT to everything that `pause` stopped (C-6); does nothing if it was not paused."""
        if self._stopped and not self._control.over.is_set():
            supervisor.signal_family(self._supervisor.pid, self.pid, signal.SIGCONT,
                                     supervisor.descendant_table(self._supervisor.pid))
        self._stopped = False

    async def terminate(self, grace_s: float = TERMINATE_GRACE_S) -> ProcessExit:
        """Send SIGTERM to the group and every descendant outside it, SIGCONT, after `grace_s` seconds SIGKILL, and wait
        until every descendant is gone (A-4). Returns the agent's own exit, which may be much earlier.

        All callers, concurrent or later, get the same result; the shortest grace applies. A cancelled caller stops
        waiting, the termination continues. Unread output stays readable.
        """
        self._control.send(f"T {grace_s:.3f}\n".encode())
        if not self._control.over.is_set():
            self._supervisor.send_signal(signal.SIGCONT)  # An agent may have stopped it, by accident or not.
        try:
            await asyncio.wait_for(self._control.over.wait(), grace_s + SUPERVISOR_WAIT_S)
        except TimeoutError:
            self._supervisor.kill()  # The agent dies with it; the sweep of `_settle` ends the rest.
            await self._control.over.wait()
        async with self._settling:
            if not self._settled:
                await self._settle()
        return self.exit or KILLED

    async def _settle(self) -> None:
        self.survivors = self._control.survivors
        if self._session_id and not (self._control.clean and supervisor.LINUX):
            # The supervisor was killed, or the system has no subreaper: leftovers are found by the session id.
            self.survivors = (await reaper.end_session(self._session_id)).survivors
        if self._way_out is not None:
            await self._way_out.close()
        self._supervisor.wait()
        self._input.finish()
        self._output.finish()
        self._tail.finish()
        self._settled = True


def find_program(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> str:
    """Return the absolute path of the program that `argv` names. Raises AgentStartFailed with problem and remedy."""
    if not argv or not argv[0]:
        raise AgentStartFailed("The agent has no command; set `command` in its `[agents.<id>]` section.")
    if any("\0" in text for text in (*argv, *env, *env.values())):
        raise AgentStartFailed(f"The arguments or the environment of {argv[0]} contain a NUL byte; remove it.")
    if not cwd.is_dir():
        raise AgentStartFailed(f"{argv[0]} cannot start in {cwd}, which is not a directory; create it first.")
    name = argv[0]
    if "/" not in name:
        found = shutil.which(name, path=env.get("PATH", os.defpath))
        if found is None:
            raise AgentStartFailed(
                f"The program {name} was not found on PATH; install it, or set the agent's `command` to its full path."
            )
        return str(cwd / found)
    path = cwd / name
    if not path.is_file():
        raise AgentStartFailed(f"The program {path} does not exist; install it, or correct the agent's `command`.")
    if not os.access(path, os.X_OK):
        raise AgentStartFailed(f"The program {path} is not executable; run `chmod +x {path}`.")
    return str(path)


def refusal(stage: str, number: int, program: str, cwd: str) -> str:
    """Return the sentence for a start that the kernel refused: `stage` is walls, hold, cwd or exec, `number` the errno.
    """
    why = os.strerror(number)
    if stage == "walls":
        return (f"The walls around {program} could not be raised ({why}), so it was not started; `interlock doctor` "
                "shows what this host supports.")
    if stage == "hold":
        return (f"The programs that {program} starts cannot be held ({why}), so it was not started; `interlock doctor` "
                "shows what this host supports.")
    if stage == "cwd":
        return f"{program} cannot start in {cwd} ({why}); check that you may enter the directory."
    if number == errno.ENOEXEC:
        return f"The program {program} is neither a binary for this machine nor a script with a `#!` line; add one."
    if number == errno.ENOENT:
        return f"The program {program} names an interpreter in its `#!` line that does not exist; install that one."
    return f"The program {program} could not be started ({why}); try it by hand in {cwd}."


def encode_order(cwd: str, program: str, argv: Sequence[str], env: Mapping[str, str], walls: Walls = NO_WALLS,
                 handover: int = -1) -> bytes:
    """Encode the order as `supervisor` documents it."""
    pairs = (f"{name}={value}" for name, value in env.items())
    fields = walls.fields(handover)
    texts = (cwd, program, str(len(fields)), *fields, str(len(argv)), *argv, *pairs)
    body = b"\0".join(os.fsencode(text) for text in texts)
    return len(body).to_bytes(8, "big") + body


class HandedOver:
    """A socket pair over which a process sends its loopback listeners to the runner before it becomes the agent;
    nothing if its walls leave it the host's network."""

    def __init__(self, walls: Walls) -> None:
        self._ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) if walls.network else None
        if self._ends is not None:
            self._ends[0].setblocking(False)

    @property
    def descriptor(self) -> int:
        return self._ends[1].fileno() if self._ends is not None else -1

    @property
    def inherited(self) -> tuple[int, ...]:
        """Return the descriptor that the supervisor and then the agent's process inherit; the latter closes it."""
        return (self.descriptor,) if self._ends is not None else ()

    def listeners(self) -> list[tuple[int, socket.socket]]:
        """Return the listeners, each with its port; they are complete once the agent's program runs."""
        found: list[tuple[int, socket.socket]] = []
        while self._ends is not None:
            try:
                text, sent, _, _ = socket.recv_fds(self._ends[0], 2, 1)
            except BlockingIOError:
                break
            found += [(int.from_bytes(text, "big"), socket.socket(fileno=one)) for one in sent]
        return found

    def close(self) -> None:
        for end in self._ends or ():
            end.close()


async def _connect() -> tuple[SupervisorSocket, socket.socket]:
    """Return the runner's end of the control socket, attached to the loop, and the supervisor's end."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    try:
        _, control = await asyncio.get_running_loop().create_connection(SupervisorSocket, sock=ours)
    except BaseException:
        theirs.close()
        raise
    return control, theirs


def _unstarted(program: str, failed: OSError) -> str:
    """Return the sentence for an agent whose supervisor could not be started."""
    if is_shortage(failed):
        return shortage(program)
    return (f"The supervisor of {program} could not be started ({failed.strerror}); check that "
            f"{sys.executable} may be run and that the limit of processes is not reached.")


def _start_supervisor(control: socket.socket, descriptors: int, inherited: tuple[int, ...]) -> subprocess.Popen[bytes]:
    # Isolated and without `site`: the user's Python settings do not reach it, and it starts in half the time.
    loader = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH") if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", supervisor.__file__, str(control.fileno()), str(descriptors)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(control.fileno(), *inherited),
        env=loader,
        start_new_session=True,
        bufsize=0,
    )
