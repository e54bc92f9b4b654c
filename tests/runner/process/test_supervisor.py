"""Nothing that an agent started outlives it or the runner (A-4, C-6)."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path

import pytest

from interlock.ports.agent import ProcessExit
from interlock.runner.process import supervisor
from interlock.runner.process.process import AgentProcess, encode_order
from interlock.runner.process.reaper import live_descendants, reap_leftovers

pytestmark = pytest.mark.anyio
Start = Callable[..., Awaitable[AgentProcess]]
Gone = Callable[[Iterable[int]], Awaitable[None]]
State = Callable[[int], str]
Until = Callable[[Callable[[], bool]], Awaitable[None]]
Runner = tuple[asyncio.subprocess.Process, int, int, int]

POLITE = """
import os, signal
def bye(*_):
    os.write(1, b"bye\\n")  # Not print, which must not be entered twice.
    os._exit(0)
signal.signal(signal.SIGTERM, bye)
os.write(1, b"ready\\n")
while True: signal.pause()
"""
STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while True: signal.pause()
"""
ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
RUNNER = """
import asyncio, os, sys
from interlock.runner.process.environment import environment
from interlock.runner.process import supervisor
from interlock.runner.process.process import AgentProcess, encode_order
async def main(session_id, runner_id, workspace, *argv):
    env = environment(os.environ, session_id=session_id, workspace=workspace, runner_id=runner_id)
    agent = await AgentProcess.start(argv, env, workspace)
    print(agent.pid, (await anext(agent.lines())).decode(), flush=True)
    await agent.exited()
asyncio.run(main(*sys.argv[1:]))
"""


def parent(pid: int) -> int:
    """Of an agent: its supervisor."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def unread_by_peer(control: socket.socket) -> int:
    """Return how many bytes the other end has not read yet; 0 if it is closed."""
    return int.from_bytes(fcntl.ioctl(control, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


@pytest.fixture
async def runner(session_id: str, runner_id: str, daemon: str, tmp_path: Path) -> AsyncIterator[Runner]:
    """A runner in a process of its own whose agent has a daemon; yields (runner, keeper's pid, agent's, daemon's)."""
    argv = [sys.executable, "-I", "-S", "-c", daemon]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUNNER, session_id, runner_id, str(tmp_path), *argv, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    agent, child = map(int, (await process.stdout.readline()).split())
    yield process, parent(agent), agent, child
    if process.returncode is None:
        process.kill()
    await process.communicate()
    await reap_leftovers(runner_id)


@pytest.mark.req("A-4")
async def test_an_agent_that_ends_on_request_keeps_its_exit_code(start: Start) -> None:
    agent = await start(POLITE)
    lines = agent.lines()
    assert await anext(lines) == b"ready"
    assert await agent.terminate() == ProcessExit(0, None)
    # Its last output is not lost.
    assert [line async for line in lines] == [b"bye"]


@pytest.mark.req("A-4")
async def test_a_supervisor_reads_requests_that_cross_its_report_of_the_end(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        argv = [sys.executable, "-I", "-S", supervisor.__file__, str(theirs.fileno()), "0"]
        with subprocess.Popen(argv, pass_fds=[theirs.fileno()]) as program:
            theirs.close()
            ours.sendall(encode_order(str(tmp_path), shutil.which("true") or "", ["true"], {}) + b"T 5.000\n")
            while not ours.recv(4096, socket.MSG_PEEK).endswith(b"D\n"):
                pass
            # All is reported and none of it is read yet: an error of the socket would discard it.
            ours.sendall(b"T 5.000\n")
            while unread_by_peer(ours):
                pass
            ours.sendall(b"T 5.000\n")
            assert re.fullmatch(rb"S \d+\nE \d+\nD\n", ours.recv(4096))
            ours.close()
    assert program.returncode == 0


@pytest.mark.req("A-4")
async def test_an_agent_that_ignores_sigterm_is_killed_after_the_grace(start: Start, gone: Gone) -> None:
    agent = await start(STUBBORN)
    await anext(agent.lines())
    assert await agent.terminate(0.05) == ProcessExit(None, signal.SIGKILL)
    await gone([agent.pid])


@pytest.mark.req("A-4")
@pytest.mark.parametrize("how", ["marked", "bare"])
async def test_a_child_that_forks_twice_and_ignores_sigterm_is_ended(
    start: Start, daemon: str, state: State, session_id: str, how: str
) -> None:
    agent = await start(daemon, how)
    child = int(await anext(agent.lines()))
    assert os.getsid(child) != agent.pid
    assert agent.descendants() == sorted([agent.pid, child])
    assert await agent.terminate(0.05) == ProcessExit(None, signal.SIGTERM)
    assert (state(agent.pid), state(child)) == ("", "")
    assert agent.descendants() == live_descendants(session_id) == agent.survivors == []


@pytest.mark.req("A-4")
async def test_processes_left_by_an_ended_agent_are_ended(start: Start, state: State) -> None:
    agent = await start("import subprocess, sys; print(subprocess.Popen(['sleep', '1000']).pid)")
    child = int(await anext(agent.lines()))
    assert await agent.exited() == ProcessExit(0, None)
    assert agent.descendants() == [child]
    assert await agent.terminate() == ProcessExit(0, None)
    assert state(child) == ""


@pytest.mark.req("A-4")
async def test_a_stopped_group_receives_sigterm(start: Start) -> None:
    agent = await start(POLITE)
    await anext(agent.lines())
    os.killpg(agent.pid, signal.SIGSTOP)
    assert await agent.terminate() == ProcessExit(0, None)


@pytest.mark.req("A-4")
async def test_several_callers_may_request_termination_and_some_may_cancel(start: Start) -> None:
    agent = await start(STUBBORN)
    await anext(agent.lines())
    patient = [asyncio.create_task(agent.terminate(1000)) for _ in range(3)]
    await asyncio.sleep(0)
    patient[0].cancel()
    # The shortest grace holds for all.
    assert await agent.terminate(0) == ProcessExit(None, signal.SIGKILL)
    assert await asyncio.gather(*patient[1:]) == [ProcessExit(None, signal.SIGKILL)] * 2
    assert await agent.terminate() == ProcessExit(None, signal.SIGKILL)


@pytest.mark.req("A-4")
async def test_a_group_that_forks_while_it_is_killed_is_ended(start: Start) -> None:
    agent = await start(
        """
import os, signal
signal.signal(signal.SIGTERM, lambda *_: [os.fork() for _ in range(3)])
for _ in range(5): os.fork()
print("ready", flush=True)
while True: signal.pause()
"""
    )
    for _ in range(32):
        await anext(agent.lines())
    assert len(agent.descendants()) == 32
    assert await agent.terminate(0.05) == ProcessExit(None, signal.SIGKILL)
    assert agent.descendants() == []


@pytest.mark.req("A-4")
async def test_kill_9_of_the_runner_leaves_no_process(runner: Runner, gone: Gone, session_id: str) -> None:
    process, keeper, agent, child = runner
    process.kill()
    await gone([process.pid, keeper, agent, child])
    assert live_descendants(session_id) == []


LATE = """
import socket
from interlock.runner.process import supervisor
ours, theirs = socket.socketpair()
class Late(supervisor.Supervisor):
    def send(self, line):
        if line.startswith("E"):
            theirs.close()
        super().send(line)
order = b"\\0".join([b"/", b"/bin/sh", b"0", b"3", b"sh", b"-c", b"sleep 1000 & exit 0"])
theirs.sendall(len(order).to_bytes(8, "big") + order)
Late(ours.fileno()).run()
"""


@pytest.mark.req("A-4")
async def test_a_supervisor_that_detects_the_runners_end_late_leaves_no_process() -> None:
    """The runner ends between the agent's end and its report: nothing else resumes the supervisor."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", LATE)
    try:
        async with asyncio.timeout(20):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.req("A-4")
async def test_processes_that_survive_runner_and_supervisor_are_ended_at_the_next_start(
    runner: Runner, gone: Gone, state: State, session_id: str, runner_id: str
) -> None:
    process, keeper, agent, child = runner
    os.kill(keeper, signal.SIGSTOP)
    process.kill()
    os.kill(keeper, signal.SIGKILL)
    await gone([process.pid, keeper, agent])  # The agent's parent-death signal.
    assert live_descendants(session_id) == [child]
    assert await reap_leftovers("another-runner") == ([], [])
    assert state(child) in ("R", "S")
    assert await reap_leftovers(runner_id) == ([child], [])
    await gone([child])
    assert await reap_leftovers(runner_id) == ([], [])


@pytest.mark.req("A-4")
async def test_the_supervisors_death_ends_the_agent_and_termination_finds_the_rest(
    start: Start, daemon: str, gone: Gone, session_id: str
) -> None:
    agent = await start(daemon)
    child = int(await anext(agent.lines()))
    os.kill(parent(agent.pid), signal.SIGKILL)
    assert await agent.exited() == ProcessExit(None, signal.SIGKILL)
    assert await agent.terminate() == ProcessExit(None, signal.SIGKILL)
    await gone([agent.pid, child])
    assert live_descendants(session_id) == []


@pytest.mark.req("A-4")
async def test_a_supervisor_survives_a_service_stop_that_signals_it(start: Start, gone: Gone) -> None:
    agent = await start(STUBBORN)
    await anext(agent.lines())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(parent(agent.pid), number)
    assert await agent.terminate(0) == ProcessExit(None, signal.SIGKILL)
    await gone([agent.pid])


@pytest.mark.req("A-4")
async def test_an_agent_cannot_escape_by_stopping_its_supervisor(start: Start, gone: Gone) -> None:
    agent = await start(STUBBORN)
    await anext(agent.lines())
    os.kill(parent(agent.pid), signal.SIGSTOP)
    assert await agent.terminate(0) == ProcessExit(None, signal.SIGKILL)
    await gone([agent.pid])


@pytest.mark.req("A-4")
async def test_exit_statuses_of_other_children_are_left_to_asyncio(start: Start) -> None:
    agent = await start(STUBBORN)
    others = [await asyncio.create_subprocess_exec("sh", "-c", f"exit {code}") for code in range(5)]
    await agent.terminate(0)
    assert [await other.wait() for other in others] == [0, 1, 2, 3, 4]


@pytest.mark.req("C-6")
async def test_a_paused_agent_gets_no_cpu_and_answers_on_resume(
    start: Start, daemon: str, state: State, until: Until
) -> None:
    agent = await start(daemon.replace("signal.pause()\n", "\n" + ECHO + "\n"))
    lines = agent.lines()
    child = int(await anext(lines))
    agent.pause()
    await agent.write(b"hello\n")
    await until(lambda: state(agent.pid) == state(child) == "T")
    agent.resume()
    assert await anext(lines) == b"hello"
    await until(lambda: state(child) == "S")


@pytest.mark.req("C-6", "A-4")
async def test_a_paused_agent_can_be_terminated(start: Start) -> None:
    agent = await start(POLITE)
    await anext(agent.lines())
    agent.pause()
    assert await agent.terminate() == ProcessExit(0, None)
    agent.pause()
    agent.resume()
