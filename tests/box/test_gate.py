"""Programs as the kernel holds them: shells, children, memory files, races, and what each answer does (H-16)."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from interlock.box.host import Host, survey
from interlock.box.walls import Kind, Walls
from interlock.ports.process import Decision, HeldProgram, StartedBelow
from interlock.runner.process.process import AgentProcess

pytestmark = pytest.mark.anyio
PATIENCE_S = 20.0
KINDS: list[Kind] = ["namespace", "landlock"]
REAL = os.path.realpath("/bin")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@cache
def host() -> Host:
    return survey()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    if host().programs is not None or request.param not in host().kinds:
        pytest.skip(f"no held programs behind {request.param} here: {host().programs or host().missing}")
    return request.param


class Approver:
    """Answers by a program's name, and keeps what it was asked."""

    def __init__(self, answers: dict[str, Decision] | None = None) -> None:
        self.answers = answers or {}
        self.asked: list[HeldProgram] = []
        self.below: dict[int, StartedBelow | None] = {}
        self.others: list[tuple[bytes, ...]] = []
        self.refusals: list[str] = []
        self.tokens: dict[int, str] = {}
        self.waits: asyncio.Event | None = None
        self.cancelled = asyncio.Event()
        self.asks = asyncio.Event()

    async def ask(self, token: int, program: HeldProgram) -> Decision:
        self.asked.append(program)
        name = os.path.basename(program.name.decode("utf-8", "backslashreplace"))
        self.tokens[token] = name
        self.asks.set()
        try:
            if self.waits is not None:
                await self.waits.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return self.answers.get(name, "once")

    async def ended(self, token: int, below: StartedBelow | None) -> None:
        self.below[token] = below

    async def other(self, token: int, ran: tuple[bytes, ...]) -> None:
        self.others.append(ran)

    async def refused(self, why: str) -> None:
        self.refusals.append(why)

    @property
    def lines(self) -> list[str]:
        return [b" ".join((one.name, *one.argv[1:])).decode("utf-8", "backslashreplace") for one in self.asked]


async def started(kind: Kind, place: Path, approver: Approver, *argv: str) -> AgentProcess:
    environment = {"PATH": PATH, "HOME": str(place)}
    return await AgentProcess.start(list(argv), environment, place, walls=Walls(kind, programs=True), programs=approver)


async def ran(kind: Kind, place: Path, approver: Approver, script: str, *shell: str) -> list[str]:
    """The lines that a script prints, and those of its errors."""
    agent = await started(kind, place, approver, *(shell or ("/bin/sh", "-c")), script)
    async with asyncio.timeout(PATIENCE_S):
        lines = [line.decode("utf-8", "backslashreplace") async for line in agent.lines()]
        await agent.exited()
        await agent.terminate()
    assert agent.survivors == []
    return [*lines, *agent.stderr_tail().splitlines()]


@pytest.mark.req("H-16")
async def test_each_program_of_a_shell_is_asked_about_except_the_agents_own(kind: Kind, tmp_path: Path) -> None:
    approver = Approver()
    assert await ran(kind, tmp_path, approver, "basename /a/b; (dirname /a/b; basename c &) ; wait; echo over") != []
    assert sorted(approver.lines) == ["basename /a/b", "basename c", "dirname /a/b"]
    assert {one.directory for one in approver.asked} == {str(tmp_path).encode()}


@pytest.mark.req("H-16")
async def test_a_denial_means_that_nothing_ran_and_ends_a_search_along_path(kind: Kind, tmp_path: Path) -> None:
    approver = Approver({"touch": "no"})
    lines = await ran(kind, tmp_path, approver, "touch made; echo $?; nonesuch; echo $?")

    assert lines[:2] == ["126", "127"]
    assert approver.lines == ["touch made"]
    assert not (tmp_path / "made").exists()


@pytest.mark.req("H-16")
async def test_a_background_child_in_its_own_session_is_held_too(kind: Kind, tmp_path: Path) -> None:
    approver = Approver({"touch": "no"})
    assert await ran(kind, tmp_path, approver, "setsid sh -c 'sleep 0.1; touch made' & sleep 1; ls") is not None
    assert "touch made" in approver.lines
    assert not (tmp_path / "made").exists()


@pytest.mark.req("H-16")
async def test_programs_below_an_allowed_one_are_counted_and_not_asked_about(kind: Kind, tmp_path: Path) -> None:
    approver = Approver({"sh": "below"})
    script = "sh -c 'basename a; sh -c \"dirname b; basename c\"; true'; basename outside"
    assert await ran(kind, tmp_path, approver, script) == ["a", ".", "c", "outside"]

    assert [line.split()[0] for line in approver.lines] == ["sh", "basename"]
    below = approver.below[1]
    assert below is not None
    assert (below.total, dict(below.names)) == (4, {"basename": 2, "dirname": 1, "sh": 1})
    assert len(below.digest) == 64


@pytest.mark.req("H-16")
async def test_bytes_that_are_not_text_arrive_unchanged(kind: Kind, tmp_path: Path) -> None:
    approver = Approver()
    assert await ran(kind, tmp_path, approver, "$(printf '/bin/echo a\\377b')") == ["a\\xffb"]
    assert approver.asked[-1].argv == (b"/bin/echo", b"a\xffb")


@pytest.mark.req("H-16")
async def test_a_program_is_named_by_its_path_entry_or_else_by_its_file(kind: Kind, tmp_path: Path) -> None:
    shutil.copy("/bin/basename", tmp_path / "basename")
    (tmp_path / "dirname").symlink_to("basename")
    approver = Approver()
    await ran(kind, tmp_path, approver, "basename a; ./basename a; PATH=. dirname a; LD_PRELOAD=x basename a")

    own = str(tmp_path / "basename").encode()
    assert [one.name for one in approver.asked] == [b"basename", own, own, b"basename"]
    assert [one.environment for one in approver.asked] == [(), (), (b"PATH=.",), (b"LD_PRELOAD=x",)]


MOUNTS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
uid, gid = os.getuid(), os.getgid()
if libc.unshare(0x10020000) != 0:
    raise SystemExit('no namespace')
open('/proc/self/uid_map', 'w').write(f'0 {uid} 1')
if libc.mount(b'/bin/touch', os.path.realpath('/bin/basename').encode(), None, 0x1000, None) != 0:
    raise SystemExit('no mount')
os.execv('/bin/basename', ['basename', 'made'])
"""


@pytest.mark.req("H-16")
async def test_a_program_that_its_process_mounted_over_another_is_not_mistaken_for_it(
    kind: Kind, tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_text(MOUNTS)
    approver = Approver({"basename": "no"})
    lines = await ran(kind, tmp_path, approver, "agent.py", sys.executable, "-I")
    if kind == "landlock" or lines in (["no namespace"], ["no mount"]):
        assert approver.asked == [], "Landlock allows no mount"
        return

    assert approver.asked[0].own_view
    assert approver.asked[0].name.startswith(b"/")
    assert not (tmp_path / "made").exists()


PYTHON = """
import ctypes, os, signal, subprocess, sys, threading, time
"""
STARTS = {
    "vfork": "subprocess.run(['/bin/touch', 'made'], close_fds=False)",
    "posix_spawn": "os.waitpid(os.posix_spawn('/bin/touch', ['touch', 'made'], {}), 0)",
    "a thread": """
thread = threading.Thread(target=lambda: os.execv('/bin/touch', ['touch', 'made']))
thread.start(); thread.join()""",
    "a descriptor": """
file = os.open('/bin/touch', os.O_RDONLY)
os.execve(file, ['touch', 'made'], {})""",
    "a memory file": """
file = os.memfd_create('touch')
os.write(file, open('/bin/touch', 'rb').read())
os.execve(file, ['touch', 'made'], {})""",
    "the loader": "os.execv('/lib64/ld-linux-x86-64.so.2', ['ld.so', '/bin/touch', 'made'])",
    "another name": "os.execv('/proc/self/cwd/link', ['ls', 'made'])",
}


@pytest.mark.req("H-16")
@pytest.mark.parametrize("way", STARTS)
@pytest.mark.parametrize("answer", ["once", "no"])
async def test_each_way_to_start_a_program_is_held(kind: Kind, tmp_path: Path, way: str, answer: Decision) -> None:
    if way == "the loader" and not Path("/lib64/ld-linux-x86-64.so.2").exists():
        pytest.skip("the loader has another name here")
    (tmp_path / "link").symlink_to("/bin/touch")
    (tmp_path / "agent.py").write_text(PYTHON + STARTS[way])

    class All(Approver):
        async def ask(self, token: int, program: HeldProgram) -> Decision:
            await super().ask(token, program)
            return answer

    approver = All()
    lines = await ran(kind, tmp_path, approver, "agent.py", sys.executable, "-I")

    assert len(approver.asked) == 1, (approver.lines, lines)
    assert (tmp_path / "made").exists() is (answer == "once"), lines
    assert approver.others == []


RACE = """
import ctypes, os, threading, time
good, bad = b'/bin/touch\\0\\0\\0', b'/bin/mkdir\\0\\0\\0'
path = ctypes.create_string_buffer(good, 64)
words = [ctypes.create_string_buffer(one, 64) for one in (b'touch', b'made')]
argv = (ctypes.c_void_p * 3)(*(ctypes.addressof(one) for one in words), None)
here, variable = os.getcwd(), ctypes.create_string_buffer(b'LANG=C', 64)
variables = (ctypes.c_void_p * 2)(ctypes.addressof(variable), None)
def swap():
    while not os.path.exists('go'): time.sleep(0.001)
    SWAP
    open(here + '/swapped', 'w').close()
threading.Thread(target=swap, daemon=True).start()
libc = ctypes.CDLL(None)
libc.execve(path, argv, variables)
"""


@pytest.mark.req("H-16")
@pytest.mark.parametrize(("swap", "ran"), [
    ("path.value = b'/bin/mkdir'", f"{REAL}/mkdir touch made"),
    ("words[1].value = b'made2'", f"{REAL}/touch touch made2"),
    ("variable.value = b'LD_PRELOAD=other.so'", f"env LD_PRELOAD=other.so {REAL}/touch touch made"),
    ("os.chdir('/tmp')", f"env --chdir=/tmp {REAL}/touch touch made"),
], ids=["file", "argument", "variable", "directory"])
async def test_a_program_that_was_swapped_while_held_is_killed_before_it_runs(
        kind: Kind, tmp_path: Path, swap: str, ran: str) -> None:
    (tmp_path / "agent.py").write_text(RACE.replace("SWAP", swap))
    approver = Approver()
    approver.waits = asyncio.Event()
    agent = await started(kind, tmp_path, approver, sys.executable, "-I", "agent.py")
    await asyncio.wait_for(approver.asks.wait(), PATIENCE_S)
    (tmp_path / "go").touch()
    await _until((tmp_path / "swapped").exists)
    approver.waits.set()
    ended = await asyncio.wait_for(agent.exited(), PATIENCE_S)
    await agent.terminate()

    assert approver.lines == ["touch made"]
    assert ended.signal == 9
    assert sorted(one.name for one in tmp_path.glob("made*")) == []
    assert [b" ".join(one).decode() for one in approver.others] == [ran]


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.01)


@pytest.mark.req("H-16")
async def test_a_question_ends_with_its_process(kind: Kind, tmp_path: Path) -> None:
    approver = Approver()
    approver.waits = asyncio.Event()
    script = "touch made & echo $!; read line; kill -9 $!; wait; echo over"
    agent = await started(kind, tmp_path, approver, "/bin/sh", "-c", script)
    await asyncio.wait_for(approver.asks.wait(), PATIENCE_S)
    await agent.write(b"go on\n")
    await asyncio.wait_for(approver.cancelled.wait(), PATIENCE_S)
    await asyncio.wait_for(agent.exited(), PATIENCE_S)
    await agent.terminate()

    assert not (tmp_path / "made").exists()


@pytest.mark.req("H-16")
async def test_an_agent_with_a_held_program_can_be_paused_resumed_and_ended(kind: Kind, tmp_path: Path) -> None:
    approver = Approver()
    approver.waits = asyncio.Event()
    agent = await started(kind, tmp_path, approver, "/bin/sh", "-c", "touch made; touch again")
    await asyncio.wait_for(approver.asks.wait(), PATIENCE_S)
    agent.pause()
    agent.resume()
    ended = await asyncio.wait_for(agent.terminate(0.1), PATIENCE_S)

    assert (ended.code, ended.signal) != (0, None)
    assert agent.survivors == []
    assert approver.cancelled.is_set()
    assert not (tmp_path / "made").exists()


@pytest.mark.req("H-16")
async def test_without_an_approver_no_program_starts(kind: Kind, tmp_path: Path) -> None:
    environment = {"PATH": PATH, "HOME": str(tmp_path)}
    agent = await AgentProcess.start(["/bin/sh", "-c", "touch made"], environment, tmp_path,
                                     walls=Walls(kind, programs=True))
    await asyncio.wait_for(agent.exited(), PATIENCE_S)
    await agent.terminate()
    assert not (tmp_path / "made").exists()


@pytest.mark.req("H-16")
async def test_no_held_program_starts_when_the_runner_dies(kind: Kind, tmp_path: Path) -> None:
    approver = Approver()
    approver.waits = asyncio.Event()
    agent = await started(kind, tmp_path, approver, "/bin/sh", "-c", "(setsid touch made &); touch again; touch third")
    await asyncio.wait_for(approver.asks.wait(), PATIENCE_S)
    agent._control.close()
    await _until(lambda: not Path(f"/proc/{agent.pid}").exists())
    await asyncio.wait_for(agent.terminate(), PATIENCE_S)

    assert list(tmp_path.iterdir()) == []
