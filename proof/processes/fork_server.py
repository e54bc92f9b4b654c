"""Components and verbs, forked from one process that has loaded everything: a start costs a tenth of a new
interpreter's.

For proofs and tests that start a thousand of them; one that measures a start, or is about one, takes whole processes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import importlib
import io
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, Self

from proof import REPOSITORY

LOADED = ("interlock.app.gateway", "interlock.app.runner", "uvloop", "uvicorn.protocols.http.httptools_impl",
          "uvicorn.protocols.websockets.websockets_sansio_impl", "uvicorn.loops.auto", "proof.processes.component",
          "interlock.agents.dps.agent", "interlock.cli.dispatch", "interlock.cli.verbs", "interlock.cli.tasks.run",
          "interlock.cli.approvals.decide", "interlock.cli.tasks.lists", "interlock.cli.access.console",
          "interlock.cli.tasks.follower")
STARTERS = ("demo", "up")
"""Verbs that start gateways and runners: what they start is forked as well."""
NOTHING = Path(os.devnull)
LENGTH_BYTES = 8
MOST_FILES = 4_096
"""A forked process closes what it has of the warm one up to here, but for its standard streams."""
VERB_TIMEOUT_S = 60.0
CHUNK_BYTES = 65_536


class ForkedProcess:
    """A process with another parent; it has the methods of `subprocess.Popen` that a stack uses."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self._end: int | None = os.pidfd_open(pid)
        except ProcessLookupError:
            self._end = None

    def poll(self) -> int | None:
        """0 once it has ended, with any exit status."""
        if self._end is not None and select.select([self._end], [], [], 0)[0]:
            os.close(self._end)
            self._end = None
        return 0 if self._end is None else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        if self._end is not None and not select.select([self._end], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        self.poll()
        return 0

    def send_signal(self, number: int) -> None:
        """Send a signal; to one that has ended nothing is sent."""
        if self._end is not None:
            try:
                signal.pidfd_send_signal(self._end, number)
            except ProcessLookupError:
                return

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class ForkedVerb(ForkedProcess):
    """A running verb: its standard error can be read while it runs, and its exit status at its end."""

    def __init__(self, pid: int, stderr: BinaryIO, report: BinaryIO) -> None:
        super().__init__(pid)
        self.stderr = io.TextIOWrapper(stderr)
        self._report = report

    def status(self, timeout: float | None = None) -> int:
        """Wait for its end and return its exit status. Raises subprocess.TimeoutExpired."""
        self.wait(timeout)
        with self._report:
            return int(self._report.read())


class SupervisedVerb:
    """A verb that ends with its starter, with what `Child` uses of `asyncio.subprocess.Process`."""

    def __init__(self, process: ForkedProcess, stdin: BinaryIO, report: BinaryIO) -> None:
        self.pid = process.pid
        self.returncode: int | None = None
        self.terminate, self.send_signal = process.terminate, process.send_signal
        self.close_stdin = stdin.close
        self._report = report
        self._ended = asyncio.create_task(self._end())

    async def wait(self) -> int:
        """Wait for its end; returns its exit status, negative for a signal."""
        return await asyncio.shield(self._ended)

    async def _end(self) -> int:
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._report, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._report)
        self.close_stdin()
        with self._report:
            self.returncode = int(self._report.read())
        return self.returncode


class ForkServer:
    """Starts parts and verbs of this package, each in a process of its own, by forking one that has them loaded."""

    def __init__(self, *more: str) -> None:
        """Start the process that forks; it loads these modules as well."""
        self._link, theirs = socket.socketpair()
        zygote = subprocess.Popen([sys.executable, "-m", "proof.processes.fork_server", str(theirs.fileno()), *more],
                                  pass_fds=[theirs.fileno()], cwd=REPOSITORY, stdin=subprocess.DEVNULL)
        theirs.close()
        self._zygote_ended: Callable[[], object] = zygote.wait
        self._turn = threading.Lock()

    @classmethod
    def of_this_process(cls) -> Self:
        """One that forks a copy of this process, which has a single thread and runs no loop."""
        load()
        server = cls.__new__(cls)
        server._link, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            server._link.close()
            Zygote(theirs).serve()
            os._exit(0)
        theirs.close()
        server._zygote_ended = functools.partial(os.waitpid, pid, 0)
        server._turn = threading.Lock()
        return server

    def start(self, arguments: list[str], log: Path) -> ForkedProcess:
        """Run `main` of the module `arguments[0]` with these as its `sys.argv`; output goes to the end of `log`."""
        log.touch(0o600)
        with NOTHING.open("rb") as nothing, log.open("ab") as output:
            return self._forked({"component": arguments}, nothing, output, output)

    def run(self, words: list[str], cwd: Path, *, stdin: str | None = None,
            environment: Mapping[str, str] | None = None,
            timeout: float = VERB_TIMEOUT_S) -> subprocess.CompletedProcess[str]:
        """Run `interlock` with these words to its end, as `subprocess.run` does with `capture_output` and `text`.

        Standard input is a pipe with `stdin`, or nothing if that is None. Variables that an interpreter reads
        at its start are those of the warm process. Raises subprocess.TimeoutExpired.
        """
        variables = dict(os.environ if environment is None else environment)
        with contextlib.ExitStack() as kept:
            taken, given = _pipe(kept) if stdin is not None else (kept.enter_context(NOTHING.open("rb")), None)
            outputs = [_pipe(kept) for _ in range(3)]
            theirs = [taken, *(write for _, write in outputs)]
            process = self._forked({"verb": words, "cwd": str(cwd), "environment": variables}, *theirs)
            for file in theirs:
                file.close()
            try:
                out, err, status = _exchange(given, (stdin or "").encode(), [read for read, _ in outputs],
                                             time.monotonic() + timeout)
            except TimeoutError:
                process.kill()
                raise subprocess.TimeoutExpired(["interlock", *words], timeout) from None
            finally:
                process.wait()
        return subprocess.CompletedProcess(["interlock", *words], int(status), out.decode(), err.decode())

    @contextlib.contextmanager
    def at_work(self, words: list[str], cwd: Path, *,
                environment: Mapping[str, str] | None = None) -> Generator[ForkedVerb]:
        """Run `interlock` with these words until the block ends, and kill it there if it is running. Its standard
        output leads nowhere."""
        with contextlib.ExitStack() as kept:
            taken, out = kept.enter_context(NOTHING.open("rb")), kept.enter_context(NOTHING.open("ab"))
            (stderr, printed), (report, reported) = _pipe(kept), _pipe(kept)
            variables = dict(os.environ if environment is None else environment)
            asked = {"verb": words, "cwd": str(cwd), "environment": variables}
            process = ForkedVerb(self._forked(asked, taken, out, printed, reported).pid, stderr, report)
            printed.close()
            reported.close()
            try:
                yield process
            finally:
                process.kill()
                process.wait()
                process.stderr.close()

    def supervised(self, words: list[str], log: Path) -> SupervisedVerb:
        """Run `interlock` with these words in a new session; output goes to the end of `log`. Its standard input
        is closed when this process ends."""
        log.touch(0o600)
        with log.open("ab") as output:
            return self.child(words, output)

    def child(self, words: list[str], output: BinaryIO, *, cwd: Path | None = None,
              environment: Mapping[str, str] | None = None) -> SupervisedVerb:
        """Do the same with an open file, and as if in another directory and environment than this process's."""
        with contextlib.ExitStack() as kept:
            (taken, stdin), (report, reported) = _pipe(kept), _pipe(kept)
            asked = {"verb": words, "cwd": str(cwd or Path.cwd()),
                     "environment": dict(os.environ if environment is None else environment), "session": True}
            with taken, reported:
                process = self._forked(asked, taken, output, output, reported)
            kept.pop_all()
        return SupervisedVerb(process, stdin, report)

    def close(self) -> None:
        """End the fork server; the forked processes continue."""
        self._link.close()
        self._zygote_ended()

    def _forked(self, asked: dict[str, Any], *files: BinaryIO) -> ForkedProcess:
        """Fork a process; the files become its standard streams, and its exit status is written to a fourth."""
        line = json.dumps(asked).encode()
        with self._turn:
            socket.send_fds(self._link, [len(line).to_bytes(LENGTH_BYTES)], [file.fileno() for file in files])
            self._link.sendall(line)
            return ForkedProcess(int.from_bytes(_received(self._link, LENGTH_BYTES)))


def _pipe(kept: contextlib.ExitStack) -> tuple[BinaryIO, BinaryIO]:
    read, write = os.pipe()
    return kept.enter_context(os.fdopen(read, "rb", 0)), kept.enter_context(os.fdopen(write, "wb", 0))


def _exchange(given: BinaryIO | None, text: bytes, files: list[BinaryIO], until: float) -> list[bytes]:
    """Write the text, and read each file to its end. Raises TimeoutError at `until`."""
    found = dict.fromkeys(files, b"")
    with selectors.DefaultSelector() as waiting:
        for file in files:
            waiting.register(file, selectors.EVENT_READ, file)
        if given is not None:
            waiting.register(given, selectors.EVENT_WRITE, given)
        while waiting.get_map():
            ready = waiting.select(max(0.0, until - time.monotonic()))
            if not ready and time.monotonic() >= until:
                raise TimeoutError
            for key, _ in ready:
                if key.data is given:
                    more, text = text[:select.PIPE_BUF], text[select.PIPE_BUF:]
                    with contextlib.suppress(BrokenPipeError):
                        os.write(key.fd, more)
                elif more := os.read(key.fd, CHUNK_BYTES):
                    found[key.data] += more
                if not more:
                    waiting.unregister(key.data)
                    key.data.close()
    return list(found.values())


def _received(link: socket.socket, size: int) -> bytes:
    """Read this many bytes. Raises EOFError if the other end has gone."""
    found = b""
    while len(found) < size:
        more = link.recv(size - len(found))
        if not more:
            raise EOFError("the process at the other end has ended")
        found += more
    return found


class Zygote:
    """The warm process's side: forks what is asked for, and reports how what it forked has ended."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._waiting = selectors.DefaultSelector()
        self._waiting.register(link, selectors.EVENT_READ)

    def serve(self) -> None:
        """Fork until no one asks any more."""
        while True:
            for key, _ in self._waiting.select():
                if key.fileobj is not self._link:
                    self._reap(key.fd, *key.data)
                elif not self._fork():
                    return

    def _fork(self) -> bool:
        """Fork one. False if no request came."""
        head, files, _, _ = socket.recv_fds(self._link, LENGTH_BYTES, 4)
        if not head:
            return False
        asked = json.loads(_received(self._link, int.from_bytes(head)))
        pid = os.fork()
        if pid == 0:
            _become(asked, files)
        for file in files[:3]:
            os.close(file)
        self._waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, files[3:]))
        self._link.sendall(pid.to_bytes(LENGTH_BYTES))
        return True

    def _reap(self, end: int, pid: int, reports: list[int]) -> None:
        """Read the status of an ended process, and write it to its requester."""
        self._waiting.unregister(end)
        os.close(end)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        for report in reports:
            with contextlib.suppress(BrokenPipeError):
                os.write(report, b"%d" % status)
            os.close(report)


def load(*more: str) -> None:
    """Import what components and verbs import, and these modules; and do what each of them would find the same: compile
    the routes of the API, and try which walls this host can raise."""
    for name in (*LOADED, *more):
        importlib.import_module(name)
    from interlock.app import hidden_paths
    from interlock.box.host import Host
    from interlock.gateway.rest.app import api_routes, body_decoders

    api_routes()
    body_decoders()
    known = hidden_paths.survey()

    def survey(parent: str | None = None) -> Host:
        return known

    hidden_paths.survey = survey
    gc.freeze()


def main() -> None:
    """Load everything, and fork what is asked for."""
    link = socket.socket(fileno=int(sys.argv[1]))
    load(*sys.argv[2:])
    Zygote(link).serve()


def _become(asked: dict[str, Any], files: list[int]) -> NoReturn:
    """Continue as the requested program, and end with it."""
    code = 1
    try:
        for number, file in enumerate(files[:3]):
            os.dup2(file, number)
        os.closerange(3, MOST_FILES)
        code = _run_verb(asked) if "verb" in asked else _run_component(asked["component"])
    except BaseException as error:  # noqa: BLE001 - the end of a process that has no interpreter's own end
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _run_component(arguments: list[str]) -> int:
    os.setsid()
    sys.argv = arguments
    importlib.import_module(arguments[0]).main()
    return 0


def _fork_what_it_starts() -> None:
    """Fork each `interlock` that this process is to start with asyncio out of a copy of what it is now."""
    start, server = asyncio.create_subprocess_exec, ForkServer.of_this_process()

    async def started(program: str, *arguments: str, **how: Any) -> Any:
        if (program, *arguments[:2]) != (sys.executable, "-m", "interlock"):
            return await start(program, *arguments, **how)
        output = how["stdout"] if isinstance(how["stdout"], int) else how["stdout"].fileno()
        with os.fdopen(output, "ab", closefd=False) as log:
            return server.child(list(arguments[2:]), log, cwd=how.get("cwd"), environment=how.get("env"))

    asyncio.create_subprocess_exec = started


def _run_verb(asked: dict[str, Any]) -> int:
    """Run a verb with streams as an interpreter makes them for what it was given."""
    from interlock import cli

    if asked.get("session"):
        os.setsid()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    tempfile.tempdir = None  # The variables give its path.
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        was, by_line = getattr(sys, name), name == "stderr" or os.isatty(number)
        setattr(sys, name, os.fdopen(number, mode, 1 if by_line else -1, was.encoding, was.errors, closefd=False))
    sys.argv = ["interlock", *asked["verb"]]
    if asked["verb"][0] in STARTERS:
        _fork_what_it_starts()
    try:
        cli.main()
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 1


if __name__ == "__main__":
    main()
