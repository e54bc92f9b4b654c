"""Walls as the kernel holds them: a program behind them, what it reaches, and what it does not (H-15)."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from functools import cache
from pathlib import Path

import pytest

from interlock.box import scope
from interlock.box.host import Host, survey
from interlock.box.landlock import EXECUTE, READ_FILE, WRITE_FILE, plan
from interlock.box.walls import Kind, Walls
from interlock.ports.agent import AgentStartFailed
from interlock.runner.process.process import AgentProcess

pytestmark = pytest.mark.anyio
PATIENCE_S = 20.0
KINDS: list[Kind] = ["namespace", "landlock"]


@cache
def host() -> Host:
    return survey()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    if request.param not in host().kinds:
        pytest.skip(f"no {request.param} here: {host().missing.get(request.param, host().why_none)}")
    return request.param


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A state directory with a key, and a workspace beside it."""
    (tmp_path / "state" / "runner").mkdir(parents=True)
    (tmp_path / "state" / "owner.key").write_text("the key")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "file").write_text("work")
    return tmp_path


async def ran(walls: Walls, place: Path, script: str) -> list[str]:
    """The lines that a shell script behind the walls prints."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(place)}
    agent = await AgentProcess.start(["/bin/sh", "-c", script], environment, place / "work", walls=walls)
    lines = [line.decode() async for line in agent.lines()]
    await agent.terminate()
    return lines


@pytest.mark.req("H-15")
async def test_a_hidden_socket_does_not_answer_in_a_namespace(kind: Kind, place: Path) -> None:
    if kind == "landlock":
        return  # Landlock does not decide on connections; the threat model documents it.
    path = place / "agent"
    connect = (f"{sys.executable} -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{path}\")' 2>&1"
               " | tail -n 1; echo over")
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(path))
        agent.listen()
        assert await ran(Walls(kind), place, connect) == ["over"]
        refused = await ran(Walls(kind, (str(path),)), place, connect)
    assert refused == ["ConnectionRefusedError: [Errno 111] Connection refused", "over"]


ESCAPES = {
    "by its path": "cat ../state/owner.key",
    "by a symbolic link": "ln -s ../state link; cat link/owner.key",
    "by a hard link": "ln ../state/owner.key hard; cat hard",
    "by a rename": "mv ../state moved; cat moved/owner.key; mv ../state/owner.key key; cat key",
    "by a rename of what is above": "mv .. ../../moved 2>&1; cat ../state/owner.key",
    "by its own root": "cat /proc/self/root$PWD/../state/owner.key",
    "by a namespace of its own": "unshare -Urm sh -c 'umount ../state; cat ../state/owner.key'",
    "by unmounting": "umount ../state; cat ../state/owner.key",
    "in a session of its own": "setsid sh -c 'cat ../state/owner.key'",
    "by the supervisor's root": "cat /proc/$PPID/root$PWD/../state/owner.key",
}


@pytest.mark.req("H-15")
@pytest.mark.parametrize("escape", ESCAPES)
async def test_a_hidden_path_cannot_be_read(kind: Kind, place: Path, escape: str) -> None:
    lines = await ran(Walls(kind, (str(place / "state"),)), place, f"{ESCAPES[escape]}; echo over")

    assert lines[-1] == "over"
    assert "the key" not in lines
    assert (place / "state" / "owner.key").read_text() == "the key"


@pytest.mark.req("H-15")
async def test_without_walls_the_path_can_be_read(place: Path) -> None:
    assert await ran(Walls("none"), place, "cat ../state/owner.key") == ["the key"]


@pytest.mark.req("H-15")
async def test_a_hidden_path_cannot_be_changed(kind: Kind, place: Path) -> None:
    script = """
    echo x > ../state/owner.key; echo x > ../state/new; rm -rf ../state/owner.key ../state/runner
    mkdir ../state/made; truncate -s 0 ../state/owner.key; mv file ../state/
    """
    await ran(Walls(kind, (str(place / "state"),)), place, script)

    assert (place / "state" / "owner.key").read_text() == "the key"
    assert sorted(entry.name for entry in (place / "state").iterdir()) == ["owner.key", "runner"]


@pytest.mark.req("H-15")
async def test_other_paths_are_unchanged(kind: Kind, place: Path) -> None:
    script = """
    echo new > made && cat made file && mkdir d && mv made d/moved && cat d/moved
    echo tmp > "$(mktemp -p .)" && cat /proc/self/comm && ls /proc/self/fd > /dev/null && echo > /dev/null
    ls / > /dev/null && id -u
    """
    lines = await ran(Walls(kind, (str(place / "state"),)), place, script)

    assert lines == ["new", "worknew", "cat", str(os.geteuid())]
    assert (place / "work" / "d" / "moved").read_text() == "new\n"


@pytest.mark.req("H-15")
async def test_a_read_only_workspace_is_read_only_to_every_process(kind: Kind, place: Path) -> None:
    walls = Walls(kind, (str(place / "state"),), read_only=(str(place / "work"),))
    lines = await ran(walls, place, "cat file; echo; echo x > file; echo x > new; rm file; mv file other; echo over")

    assert lines == ["work", "over"]
    assert [entry.name for entry in (place / "work").iterdir()] == ["file"]
    assert (place / "work" / "file").read_text() == "work"


@pytest.mark.req("H-15")
async def test_with_writable_paths_no_other_path_can_be_changed(kind: Kind, place: Path) -> None:
    (place / "home").mkdir()
    (place / "home" / "rc").write_text("rc")
    walls = Walls(kind, (str(place / "state"),), writable=(str(place / "work"),))
    script = "cat ../home/rc; echo; echo x > ../home/rc; echo x > ../home/new; echo y > made; cat made"
    lines = await ran(walls, place, script)

    assert lines == ["rc", "y"]
    assert [entry.name for entry in (place / "home").iterdir()] == ["rc"]
    assert (place / "home" / "rc").read_text() == "rc"
    assert not (place / "state" / "x").exists()


@pytest.mark.req("H-15")
async def test_a_hidden_file_is_empty_or_unreadable(kind: Kind, place: Path) -> None:
    netrc = place / "netrc"
    netrc.write_text("password")

    assert await ran(Walls(kind, (str(netrc),)), place, "cat ../netrc; echo over") == ["over"]


@pytest.mark.req("H-15")
async def test_another_process_of_the_same_user_cannot_be_inspected(kind: Kind, place: Path) -> None:
    outside = await AgentProcess.start([sys.executable, "-I", "-S", "-c", "input()"], {"SECRET": "the key"}, place)
    try:
        script = f"""
        cd /proc/{outside.pid}; tr '\\0' '\\n' < environ; readlink fd/0 cwd exe; cat fd/1 maps; ls root
        dd if=mem bs=1 count=1; echo over
        """
        unwalled = await ran(Walls("none"), place, script.replace("cat fd/1", ":"))
        walled = await ran(Walls(kind, (str(place / "state"),)), place, script)
    finally:
        await outside.terminate(0)

    assert "SECRET=the key" in unwalled
    assert walled == ["over"]


@pytest.mark.req("H-15")
async def test_processes_left_by_the_agent_still_end_with_it(kind: Kind, place: Path) -> None:
    script = "setsid sh -c 'sleep 1000' & (sleep 1000 &) ; echo started"
    agent = await AgentProcess.start(["/bin/sh", "-c", script], {"PATH": os.environ["PATH"]}, place / "work",
                                     walls=Walls(kind, (str(place / "state"),)))
    assert await anext(agent.lines()) == b"started"
    family = agent.descendants()
    await agent.terminate(0)

    assert family
    assert agent.survivors == []
    assert all(not Path(f"/proc/{pid}").exists() for pid in family)


@pytest.mark.req("H-15")
async def test_an_agent_pauses_and_resumes_behind_its_walls(kind: Kind, place: Path) -> None:
    agent = await AgentProcess.start(["/bin/sh", "-c", "read line; echo got $line"], {"PATH": os.environ["PATH"]},
                                     place / "work", walls=Walls(kind, (str(place / "state"),)))
    agent.pause()
    async with asyncio.timeout(PATIENCE_S):  # The kernel stops it at its next step.
        while Path(f"/proc/{agent.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            await asyncio.sleep(0)
    agent.resume()
    await agent.write(b"it\n")

    assert await anext(agent.lines()) == b"got it"
    await agent.terminate(0)


@pytest.mark.req("H-15")
async def test_a_wall_that_cannot_be_built_starts_nothing(place: Path) -> None:
    walls = Walls("palisade", (str(place / "state"),))  # type: ignore[arg-type]
    with pytest.raises(AgentStartFailed, match=r"walls around /bin/sh could not be raised \(Invalid argument\)"):
        await ran(walls, place, "touch ran")
    assert not (place / "work" / "ran").exists()


@pytest.mark.req("H-15")
def test_landlock_allows_paths_beside_a_hidden_one_and_never_its_parents(place: Path) -> None:
    (place / "link").symlink_to("state")
    everything, reading = EXECUTE | READ_FILE | WRITE_FILE, EXECUTE | READ_FILE
    state, work = os.fsencode(place / "state"), os.fsencode(place / "work")

    allowed = dict(plan({state: 0, work: reading}, everything))

    assert state not in allowed
    assert os.fsencode(place / "link") not in allowed
    assert not any(state.startswith(path.rstrip(b"/") + b"/") for path in allowed)
    assert allowed[work] == reading
    assert allowed[b"/proc"] == everything


@pytest.mark.req("H-15")
async def test_a_namespace_has_its_own_terminals_and_none_of_the_users(place: Path) -> None:
    if "namespace" not in host().kinds:
        pytest.skip(f"no namespace here: {host().missing.get('namespace', host().why_none)}")
    person, terminal = os.openpty()
    try:
        os.write(person, b"what a person types\n")
        # Its own first terminal may have the same name, so the user's is looked for by what was typed there.
        script = f"""
        timeout 1 head -n 1 {os.ttyname(terminal)}; ls /dev/pts
        {sys.executable} -c 'import os; held = os.openpty(); print(os.ttyname(held[1]), os.isatty(held[1]))'
        """
        lines = await ran(Walls("namespace", (str(place / "state"),)), place, script)
    finally:
        os.close(person)
        os.close(terminal)

    assert lines == ["ptmx", "/dev/pts/0 True"]


@pytest.mark.req("H-15")
@pytest.mark.skipif(not scope.is_there(), reason="Landlock of this kernel has no scopes (Linux 6.12)")
async def test_an_agent_signals_only_processes_that_it_started(kind: Kind, place: Path) -> None:
    walls = Walls(kind, (str(place / "state"),))
    beside = await AgentProcess.start(["/bin/sh", "-c", "echo $$; read line"], {"PATH": os.environ["PATH"]},
                                      place / "work", walls=walls)
    pid = int(await anext(beside.lines()))
    try:
        lines = await ran(walls, place, f"sleep 60 & kill $! && wait; echo own $?; kill -0 {pid} || echo refused")
    finally:
        await beside.terminate(0)

    assert lines == ["own 0", "refused"]


@pytest.mark.req("H-15")
@pytest.mark.needs("unshare")
async def test_a_sandbox_of_the_agent_mounts_inside_a_namespace(kind: Kind, place: Path) -> None:
    if kind == "landlock":
        return  # Behind Landlock nothing is mounted; the page documents it.
    if await ran(Walls(kind), place, "unshare -U true || echo no") == ["no"]:
        pytest.skip("this host lets no process make a user namespace here")
    mounted = await ran(Walls(kind), place, "unshare -Urm sh -c 'mount -t tmpfs none /mnt && touch /mnt/x && ls /mnt'")

    assert mounted == ["x"]
