"""An agent's start and its streams, with real processes (A-1, A-2, A-8)."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from interlock.ports.agent import AgentStartFailed, ProcessExit
from interlock.protocol.limits import MAX_CHILD_LINE_BYTES, STDERR_TAIL_BYTES
from interlock.runner.process.lines import LineTooLong
from interlock.runner.process.process import AgentProcess

pytestmark = pytest.mark.anyio
Start = Callable[..., Awaitable[AgentProcess]]
State = Callable[[int], str]
Until = Callable[[Callable[[], bool]], Awaitable[None]]
MIB = 1024 * 1024


@pytest.mark.req("A-1")
async def test_a_process_starts_in_its_workspace_with_its_own_group_and_session(start: Start, tmp_path: Path) -> None:
    agent = await start("import os; print(os.getpid(), os.getpgrp(), os.getsid(0), os.getcwd())")
    pid, group, session, cwd = (await anext(agent.lines())).split()
    assert int(pid) == int(group) == int(session) == agent.pid
    assert agent.pid not in (os.getpgrp(), os.getsid(0))
    assert Path(cwd.decode()) == tmp_path


@pytest.mark.req("A-1")
async def test_a_process_inherits_no_descriptors_and_no_ignored_signal(start: Start) -> None:
    code = "print(sorted(os.listdir('/proc/self/fd')), open('/proc/self/status').read())"
    agent = await start(f"import os; {code}")
    output = b"\n".join([line async for line in agent.lines()]).decode()
    assert output.startswith("['0', '1', '2', '3']")  # 3 is the directory being listed.
    ignored = int(re.findall(r"SigIgn:\s*(\w+)", output)[0], 16)
    # Python itself ignores SIGPIPE and SIGXFSZ in every program it runs.
    assert ignored & ~(1 << 12 | 1 << 24) == 0


@pytest.mark.req("A-1")
async def test_a_program_is_found_on_its_own_path_or_from_its_directory(tmp_path: Path) -> None:
    script = tmp_path / "bin" / "own"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho found $1\n")
    script.chmod(0o755)
    for name, env in (("own", {"PATH": str(script.parent)}), ("bin/own", {}), (str(script), {})):
        agent = await AgentProcess.start([name, "it"], env, tmp_path)
        assert [line async for line in agent.lines()] == [b"found it"]
        assert await agent.terminate() == ProcessExit(0, None)


@pytest.mark.req("A-1")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no-such-agent", "The program no-such-agent was not found on PATH; install it, or set the agent's `command`"),
        ("./missing", r"The program .*/missing does not exist; install it"),
        ("./plain", r"The program .*/plain is not executable; run `chmod \+x .*/plain`"),
        ("./headless", r"The program .*/headless is neither a binary for this machine nor a script"),
        ("./orphan", r"The program .*/orphan names an interpreter in its `#!` line that does not exist"),
        ("", "The agent has no command"),
        ("nul\0", "contain a NUL byte"),
    ],
)
async def test_a_program_that_cannot_start_gives_one_sentence(tmp_path: Path, name: str, sentence: str) -> None:
    for file, text, mode in (("plain", "", 0o644), ("headless", "echo\n", 0o755), ("orphan", "#!/no/where\n", 0o755)):
        (tmp_path / file).write_text(text)
        (tmp_path / file).chmod(mode)
    with pytest.raises(AgentStartFailed, match=sentence):
        await AgentProcess.start([name], {"PATH": os.environ["PATH"]}, tmp_path)


@pytest.mark.req("A-1")
async def test_a_path_that_is_not_a_directory_gives_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(AgentStartFailed, match=r"sh cannot start in .*/missing, which is not a directory"):
        await AgentProcess.start(["sh"], dict(os.environ), tmp_path / "missing")


@pytest.mark.req("A-1")
async def test_a_cancelled_start_leaves_nothing(session_id: str, tmp_path: Path) -> None:
    env = dict(os.environ) | {"RAWP_SESSION_ID": session_id}
    for rounds in range(4):
        starting = asyncio.create_task(AgentProcess.start(["sleep", "1000"], env, tmp_path))
        for _ in range(rounds):
            await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    probe = await AgentProcess.start(["true"], env, tmp_path)
    await probe.terminate()
    assert probe.descendants() == []


@pytest.mark.req("A-2")
@pytest.mark.parametrize(
    ("last_act", "ended"),
    [
        ("pass", ProcessExit(0, None)),
        ("sys.exit(3)", ProcessExit(3, None)),
        ("sys.exit(143)", ProcessExit(143, None)),
        ("os.kill(os.getpid(), 9)", ProcessExit(None, 9)),
    ],
)
async def test_the_exit_is_returned_as_data(start: Start, last_act: str, ended: ProcessExit) -> None:
    agent = await start(f"import os, sys; sys.stdin.read(); {last_act}")
    assert agent.exit is None
    agent.close_input()
    assert await agent.exited() == ended
    assert agent.exit == ended
    assert await agent.terminate() == ended


@pytest.mark.req("A-8")
async def test_input_is_answered_line_by_line(start: Start) -> None:
    agent = await start("import sys\nfor line in sys.stdin.buffer: print(len(line), flush=True)")
    lines = agent.lines()
    for size in (1, 70_000, MIB):
        await agent.write(b"x" * (size - 1) + b"\n")
        assert await anext(lines) == str(size).encode()
    agent.close_input()
    assert [line async for line in lines] == []
    with pytest.raises(BrokenPipeError):
        await agent.write(b"late\n")


@pytest.mark.req("A-8")
async def test_writing_to_an_agent_that_stopped_reading_fails(start: Start) -> None:
    agent = await start("import os, signal; os.close(0); print('deaf', flush=True); signal.pause()")
    assert await anext(agent.lines()) == b"deaf"
    with pytest.raises(BrokenPipeError):
        await agent.write(b"x" * MIB)


@pytest.mark.req("A-8")
async def test_a_line_of_a_mebibyte_is_complete(start: Start) -> None:
    agent = await start(f"import sys; sys.stdout.write('x' * {MIB} + '\\n' + 'y' * 70000)")
    assert [(line[:1], len(line)) async for line in agent.lines()] == [(b"x", MIB), (b"y", 70_000)]


@pytest.mark.req("A-8")
async def test_a_line_above_the_cap_is_reported_and_the_agent_continues(start: Start) -> None:
    size = MAX_CHILD_LINE_BYTES + 4 * MIB
    agent = await start(f"import sys; sys.stdout.write('x' * {size} + '\\nnext\\n'); sys.stdout.flush(); sys.exit(5)")
    lines = agent.lines()
    with pytest.raises(LineTooLong):
        await anext(lines)
    # It ends though no one has asked for another line.
    assert await agent.exited() == ProcessExit(5, None)
    assert [line async for line in lines] == [b"next"]


@pytest.mark.req("A-8")
async def test_two_hundred_megabytes_pass_in_constant_memory(start: Start) -> None:
    agent = await start("import os\nblock = (b'x' * 999 + b'\\n') * 100\nfor _ in range(2000): os.write(1, block)")
    before = most = resident()
    count = 0
    async for line in agent.lines():
        count += len(line) + 1
        if count % 10_000_000 == 0:
            most = max(most, resident())
    assert count == 200_000_000
    assert most - before < 16 * MIB


@pytest.mark.req("A-8", "D-3")
async def test_an_agent_without_a_reader_is_slowed(start: Start, state: State, until: Until) -> None:
    agent = await start(
        """
import os
sent = 0
while sent < 50_000_000:
    sent += os.write(1, b"x" * 65536)
    os.write(2, b"%d\\n" % sent)
"""
    )
    first = await anext(agent.chunks())

    def sent() -> int:
        return int((agent.stderr_tail().splitlines() or ["0"])[-1])

    await until(lambda: sent() >= 512 * 1024 and state(agent.pid) == "S")
    assert sent() < 4 * MIB
    assert len(first) + sum([len(chunk) async for chunk in agent.chunks()]) >= 50_000_000


@pytest.mark.req("A-8")
async def test_standard_error_is_drained_and_its_end_kept(start: Start) -> None:
    agent = await start("import sys\nfor n in range(200000): print('line', n, file=sys.stderr)\nsys.exit(1)")
    assert await agent.exited() == ProcessExit(1, None)
    tail = agent.stderr_tail()
    assert STDERR_TAIL_BYTES - 20 < len(tail) <= STDERR_TAIL_BYTES
    assert re.fullmatch(r"(line \d+\n)+", tail)
    assert tail.endswith("line 199999\n")


@pytest.mark.req("A-8")
async def test_standard_error_need_not_be_text(start: Start) -> None:
    agent = await start("import os; os.write(2, b'\\xff\\xfe fail')")
    await agent.exited()
    assert agent.stderr_tail() == "�� fail"


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_the_supervisor_is_a_standalone_script() -> None:
    """It must start without the package, or each agent would pay for our imports."""
    from interlock.runner.process import supervisor

    source = Path(supervisor.__file__).read_text()
    imported = set(re.findall(r"^(?:import|from) (\w+)", source, re.MULTILINE))
    assert imported <= {"__future__", *sys.stdlib_module_names}
