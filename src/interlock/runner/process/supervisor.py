"""The supervisor: one small process between the runner and each agent; no descendant can outlive either (A-4).

It runs as a program (`python -I -S supervisor.py FD LIMIT`), imports only what starts within a few milliseconds, and
has one thread. The runner, with its threads and its event loop, could not have:

- It is the child subreaper of everything the agent starts. A child that forks twice and calls setsid() comes back to
  it, so "no child left" (ECHILD from waitpid) *is* "every descendant is gone"; no process table is raced.
- It alone waits for these children, so no exit status is ever taken from asyncio's child watcher.
- The agent's parent-death signal is sound: it is bound to the thread that forked, and here there is only one.
- When the runner dies, by any signal, the control socket closes and the supervisor kills everything that is left.

Its own environment is clean and its own session is not the agent's: signals to the group do not reach it, and a search
for RAWP_SESSION_ID does not find it.

LIMIT is the soft limit of open files that the agent gets, 0 to leave the runner's: a runner raises its own (see
`descriptors`), and an agent that uses select(2) must not inherit that.

Messages on the control socket (FD), each a line of ASCII except the order:

    runner → supervisor   order      8 bytes of length, then NUL-joined: cwd, program, number of the walls' fields,
                                     those fields (see `box.walls`), number of arguments, arguments, environment as
                                     NAME=value
                          T <grace>  terminate: SIGTERM, SIGCONT, the grace in seconds, SIGKILL; a later one can only
                                     shorten it
                          (closed)   the runner is gone: SIGKILL at once
    supervisor → runner   S <pid>    the program runs; its process group has the same number
                          F <stage> <errno>   it does not: `walls`, `cwd` or `exec` failed
                          E <status>          it ended; the status as waitpid returns it
                          D <pid> ...         everything has ended; the pids are those that survived

After F or D the runner closes the socket; the supervisor reads until then. If it closed first, a request of the runner
that crosses its last lines would break the connection, and the runner would lose them unread, the exit among them.

An agent whose programs are held has additional lines in both directions: see `box.gate`.
"""

# pathlib and contextlib alone would add half to the start time.
# ruff: noqa: PTH100, PTH110, PTH120, PTH123, PTH208, SIM105
from __future__ import annotations

import _socket
import ctypes
import os
import resource
import select
import signal
import sys
import time

TYPE_CHECKING = False  # As in `typing`, whose import would double the start time.
if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.box.gate import ProgramGate

LINUX = sys.platform == "linux"
KILL_SWEEP_S = 0.02
"""Pause between two rounds of SIGKILL, ended early by any death: processes forked meanwhile get the next round."""
KILL_WAIT_S = 30.0
"""A process that lives this long after SIGKILL (root's, or stuck in the kernel) is reported and left."""
MAX_CONTROL_BYTES = 4096
"""Size of one read of the control socket; messages are a few bytes long."""
HOLD = b"p"
"""A field among the walls': the programs that the agent starts are held (H-16)."""

WAIT_ALL = 0x4000_0000
"""`__WALL`: wait for traced threads, too."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_RESET = (*_IGNORED, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ)


def prctl(option: int, value: int) -> bool:
    """Call Linux's prctl(2) with one argument; False if it is missing or refuses."""
    return LINUX and ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0


def become_subreaper() -> bool:
    """Make this process the new parent of its orphaned descendants (Linux ≥ 3.4). False if that is not supported."""
    return prctl(_PR_SET_CHILD_SUBREAPER, 1)


def process_table() -> dict[int, tuple[int, int, str]]:
    """Return every process: pid → (parent, process group, state letter). From /proc, or from `ps` without /proc."""
    rows: dict[int, tuple[int, int, str]] = {}
    if LINUX:
        for name in os.listdir("/proc"):
            row = process_row(int(name)) if name.isdigit() else None
            if row is not None:
                rows[int(name)] = row
        return rows
    import subprocess  # Only here: its import would double the start time.

    listing = subprocess.run(["ps", "-axo", "pid=,ppid=,pgid=,state="], capture_output=True, text=True, check=False)
    for line in listing.stdout.splitlines():
        fields = line.split()
        rows[int(fields[0])] = (int(fields[1]), int(fields[2]), fields[3][0])
    # `ps` was a child of this process; it has been waited for, and must not count as one.
    return {pid: row for pid, row in rows.items() if row[0] != os.getpid() or exists(pid)}


def descendant_table(root: int) -> dict[int, tuple[int, int, str]]:
    """Return the rows of `process_table` of every descendant of `root`, from the kernel's own lists of children.

    The cost grows with the descendants, not with the processes of the host: when a runner with 1,000 agents dies, 1,000
    supervisors look at once. A child that ends while a list is read can hide the next one, so callers repeat this until
    no child is left. Without such lists (CONFIG_PROC_CHILDREN, other systems) the whole table is returned.
    """
    own = os.getpid()
    if not LINUX or not os.path.exists(f"/proc/{own}/task/{own}/children"):
        return process_table()
    rows: dict[int, tuple[int, int, str]] = {}
    waiting = [root]
    while waiting:
        for pid in children_of(waiting.pop()):
            row = process_row(pid)
            if row is not None and pid not in rows:
                rows[pid] = row
                waiting.append(pid)
    return rows


def children_of(pid: int) -> list[int]:
    """Return the children of every thread of a process, as the kernel lists them; none if it has ended."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as listed:
                found += map(int, listed.readall().split())
    except OSError:
        pass  # It ended, or one of its threads did: its children are the supervisor's at the next look.
    return found


def process_row(pid: int) -> tuple[int, int, str] | None:
    """Return one row of `process_table`, from /proc; None if the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:
            # The name of the program, in parentheses, may itself hold spaces and parentheses.
            fields = stat.read(1024).rpartition(b")")[2].split(None, 3)
        return int(fields[1]), int(fields[2]), fields[0].decode()
    except (OSError, IndexError):
        return None


def exists(pid: int) -> bool:
    """Return whether there is a process or zombie with this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def family(root: int, group: int, table: dict[int, tuple[int, int, str]]) -> set[int]:
    """Return every descendant of `root` and every member of `group` with its descendants; not `root`, not the dead."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    seeds = [pid for pid, row in table.items() if row[1] == group]
    seeds += children.get(root, [])
    while seeds:
        pid = seeds.pop()
        if pid not in found and pid != root:
            found.add(pid)
            seeds += children.get(pid, [])
    return {pid for pid in found if table[pid][2] not in "ZX"}


def signal_family(root: int, group: int, number: int, table: dict[int, tuple[int, int, str]]) -> set[int]:
    """Signal the process group at once, then every descendant of `root` outside it; return those that we may not
    signal.

    The group is signalled only while a member lives by `table`, so that a reused number is never hit.
    """
    members = family(root, group, table)
    refused: set[int] = set()
    if any(table[pid][1] == group for pid in members):
        try:
            os.killpg(group, number)
        except OSError:
            pass  # Gone, or none of its members is ours; each is tried below.
    for pid in members:
        if table[pid][1] != group or number == signal.SIGKILL:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
            except PermissionError:
                refused.add(pid)
    return refused


class Supervisor:
    """One agent's supervisor: the loop of `run` over control socket, deaths and timers."""

    def __init__(self, control: int) -> None:
        self.control = control
        self.connected = True
        self.agent = 0
        self.reported = False
        self.kill_at: float | None = None
        self.gate: ProgramGate | None = None
        self.unread = b""
        self.wake, wake_end = os.pipe()
        # Not select(2): the control socket has its number of the runner, which may be above 1023.
        self.poll = select.poll()
        self.poll.register(self.wake, select.POLLIN)
        self.poll.register(control, select.POLLIN)
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_end, False)
        os.set_inheritable(control, False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        for number in _IGNORED:
            # A service that stops signals its whole group at once; the supervisor must still end its agent.
            signal.signal(number, signal.SIG_IGN)

    def send(self, line: str) -> None:
        rest = line.encode() + b"\n"
        try:
            while rest:
                rest = rest[os.write(self.control, rest):]
        except OSError:
            self.lose_runner()

    def lose_runner(self) -> None:
        """Kill everything that is left at once: the runner is gone, whichever end of the socket showed it first."""
        if self.connected:
            self.poll.unregister(self.control)
        self.connected = False
        self.kill_at = min(self.kill_at or time.monotonic(), time.monotonic())

    def run(self) -> None:
        """Start the agent, report its end, and read until the runner has closed the socket."""
        self.supervise()
        while self.connected:
            self.receive()

    def supervise(self) -> None:
        """Start the agent, and return when no descendant is left and the runner has asked for the end."""
        become_subreaper()
        self.agent, failure = self.launch(*read_order(self.control))
        if failure:
            self.send(f"F {failure}")
            return
        release_standard_streams()
        self.send(f"S {self.agent}")
        while True:
            children = self.reap()
            if self.kill_at is not None and not children and self.orphans_gone():
                self.send("D")
                return
            timeout = self.press()
            if timeout is not None and timeout < 0:
                left = " ".join(map(str, sorted(family(os.getpid(), self.agent, descendant_table(os.getpid())))))
                self.send(f"D {left}")
                return
            self.listen(timeout)

    def launch(self, cwd: bytes, program: bytes, walls: list[bytes], arguments: list[bytes],
               environment: dict[bytes, bytes]) -> tuple[int, str]:
        if HOLD not in walls[1:]:
            return launch(cwd, program, walls, arguments, environment)

        find_package()
        # Before the walls, which may hide the package from the child.
        from interlock.box.gate import ProgramGate

        def hold(listener: int, pid: int) -> None:
            self.gate = ProgramGate(listener, pid, environment, self.send, self.poll)
            self.gate.let_agent_start()

        return launch(cwd, program, walls, arguments, environment, hold)

    def reap(self) -> bool:
        """Collect dead children; report the agent's own status once. False if no child, adopted or own, is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | (0 if self.gate is None else WAIT_ALL))
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if self.gate is not None and self.gate.stopped(pid, status):
                continue
            if pid == self.agent and not self.reported:
                self.reported = True
                self.send(f"E {status}")

    def orphans_gone(self) -> bool:
        # Without a subreaper the group may live on under another parent.
        return LINUX or not family(os.getpid(), self.agent, process_table())

    def press(self) -> float | None:
        """Kill when the grace is over. Return how long to wait for events, None for ever, negative to give up."""
        if self.kill_at is None:
            return None
        over = time.monotonic() - self.kill_at
        if over < 0:
            return -over if LINUX else min(-over, KILL_SWEEP_S)
        table = descendant_table(os.getpid())
        members = family(os.getpid(), self.agent, table)
        refused = signal_family(os.getpid(), self.agent, signal.SIGKILL, table)
        if over > KILL_WAIT_S or (members and members <= refused):
            return -1.0
        return KILL_SWEEP_S

    def listen(self, timeout: float | None) -> None:
        """Wait for a message of the runner, a death or the timeout."""
        # Rounded up, or the last millisecond would be spent polling without a wait.
        ready = dict(self.poll.poll(None if timeout is None else int(timeout * 1000) + 1))
        if ready.pop(self.wake, 0):
            os.read(self.wake, MAX_CONTROL_BYTES)
        if ready.pop(self.control, 0):
            *lines, self.unread = (self.unread + self.receive()).split(b"\n")
            for line in lines:
                if line[:1] == b"T":
                    self.terminate(float(line[2:]))
                elif self.gate is not None:
                    self.gate.take(line.split())
        for number, happened in ready.items():
            if self.gate is not None:
                self.gate.ready(number, happened)

    def receive(self) -> bytes:
        try:
            data = os.read(self.control, MAX_CONTROL_BYTES)
        except OSError:
            data = b""
        if not data:
            self.lose_runner()
        return data

    def terminate(self, grace_s: float) -> None:
        """Send SIGTERM and SIGCONT on the first call; set the time of SIGKILL on each (A-4)."""
        kill_at = time.monotonic() + grace_s
        if self.kill_at is None:
            table = descendant_table(os.getpid())
            signal_family(os.getpid(), self.agent, signal.SIGTERM, table)
            # A stopped group receives SIGTERM only once it continues.
            signal_family(os.getpid(), self.agent, signal.SIGCONT, table)
            self.kill_at = kill_at
        self.kill_at = min(self.kill_at, kill_at)


def read_order(control: int) -> tuple[bytes, bytes, list[bytes], list[bytes], dict[bytes, bytes]]:
    """Read the order: cwd, program, walls, arguments, environment. Ends the process if the runner is already gone.
    """

    def read(size: int) -> bytes:
        got = b""
        while len(got) < size:
            piece = os.read(control, size - len(got))
            if not piece:
                sys.exit(0)
            got += piece
        return got

    fields = read(int.from_bytes(read(8), "big")).split(b"\0")
    begin = 3 + int(fields[2])
    end = begin + 1 + int(fields[begin])
    pairs = (field.partition(b"=") for field in fields[end:])
    return fields[0], fields[1], fields[3:begin], fields[begin + 1 : end], {name: value for name, _, value in pairs}


def launch(cwd: bytes, program: bytes, walls: list[bytes], arguments: list[bytes], environment: dict[bytes, bytes],
           hold: Callable[[int, int], None] | None = None) -> tuple[int, str]:
    """Fork and exec in a new session, behind the walls. Return (pid, "") once the program runs, else
    (pid, "<stage> <errno>"). With `hold` every program is held, this one as well: it is called with the listener and
    the pid, and must release the program."""
    parent = os.getpid()
    report, report_end = os.pipe()
    receiving, sending = _socket.socketpair()
    pid = os.fork()
    if pid:
        os.close(report_end)
        sending.close()
        if hold is not None:
            from interlock.box.exec_filter import receive_listener

            if (listener := receive_listener(receiving)) >= 0:
                hold(listener, pid)
        receiving.close()
        failure = os.read(report, 64).decode()  # Empty when exec closes the other end.
        os.close(report)
        return pid, failure
    stage = "walls"
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in _RESET:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if walls:
            raise_walls(walls)
        stage = "hold"
        if hold is not None:
            from interlock.box.exec_filter import send_listener

            send_listener(sending)
        stage = "cwd"
        # Behind the walls only: a change of credentials disarms the signal.
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:  # Else it died before the line above could arm the signal.
            os.chdir(cwd)
            stage = "exec"
            os.execve(program, arguments, environment)
    except OSError as failed:
        os.write(report_end, f"{stage} {failed.errno}".encode())
    finally:
        os._exit(127)


def raise_walls(fields: list[bytes]) -> None:
    """Raise the walls for this process and its descendants (H-15). Raises OSError."""
    find_package()
    from interlock.box import wall_setup

    wall_setup.raise_walls(fields)


def find_package() -> None:
    """Append the package to the path, which lacks it without `site`; last, so that it cannot shadow the library."""
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))


def release_standard_streams() -> None:
    """Close the agent's pipes, or the runner would never see their end."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)


def limit_descriptors(soft: int) -> None:
    """Lower the soft limit of open files, for this process and the agent; 0 leaves it."""
    if soft:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


if __name__ == "__main__":
    limit_descriptors(int(sys.argv[2]))
    Supervisor(int(sys.argv[1])).run()
