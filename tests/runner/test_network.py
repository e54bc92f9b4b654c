"""A network of the agent's own, and the one way out of it, with real processes (H-19)."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.box.reach import Endpoint, Reach
from interlock.box.walls import Walls
from interlock.runner.process import outlet
from interlock.runner.process.process import AgentProcess
from this_host import HOST

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-19")]

TRIES = """
import errno, os, socket, sys

def tried(name, attempt):
    try:
        print(name, attempt(), flush=True)
    except OSError as refused:
        print(name, errno.errorcode.get(refused.errno, type(refused).__name__), flush=True)

def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as made:
        made.settimeout(3)
        made.connect(address)
        return "reached"

def send(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.sendto(b"x", address)
        return "sent"

port, name = int(sys.argv[1]), sys.argv[2]
tried("tcp", lambda: connect(socket.AF_INET, ("127.0.0.1", port)))
tried("tcp-host", lambda: connect(socket.AF_INET, ("192.0.2.1", 80)))
tried("tcp6", lambda: connect(socket.AF_INET6, ("2001:db8::1", 80)))
tried("udp", lambda: send(("192.0.2.1", 53)))
tried("dns", lambda: socket.getaddrinfo("example.com", 80) and "resolved")
tried("abstract", lambda: connect(socket.AF_UNIX, "\\0" + name))
tried("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) and "made")
tried("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW) and "made")
tried("vsock", lambda: socket.socket(40, socket.SOCK_STREAM) and "made")
tried("setns", lambda: os.open("/proc/%d/ns/net" % os.getppid(), os.O_RDONLY) and "opened")
own = socket.create_server(("127.0.0.1", 0))
tried("own", lambda: connect(socket.AF_INET, own.getsockname()))
"""


@pytest.fixture(autouse=True)
def able() -> None:
    if HOST.network is not None:
        pytest.skip(f"no network of an agent's own here: {HOST.network}")


async def ran(place: Path, argv: Sequence[str], reach: Reach | None = None, reports: list[str] | None = None,
              addresses: Sequence[str] = ()) -> list[str]:
    """The lines that a program in a network of its own prints."""

    async def report(sentence: str) -> None:
        assert reports is not None
        reports.append(sentence)

    async def resolve(named: str, port: int) -> Sequence[str]:
        return addresses or await outlet.resolved(named, port)

    ports = reach.listening if reach is not None else ()
    environment = {"PATH": os.environ["PATH"], **outlet.variables(reach)}
    agent = await AgentProcess.start(argv, environment, place, walls=Walls("namespace", network=ports),
                                     way_out=outlet.Outlet(reach, report, resolve) if reach is not None else None)
    lines = [line.decode() async for line in agent.lines()]
    await agent.terminate()
    return lines or [agent.stderr_tail()]


@asynccontextmanager
async def serving(answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
                  ) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server on the host's loopback, and what it received."""
    received: list[bytes] = []

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(4_096))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answered, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], received
    finally:
        server.close()


def curl(*words: str) -> list[str]:
    return ["curl", "-sS", "--max-time", "10", *words]


async def test_no_socket_leads_out_of_the_network(tmp_path: Path) -> None:
    name = f"interlock-{os.getpid()}-{id(tmp_path)}"
    abstract = await asyncio.start_unix_server(lambda _reader, writer: writer.close(), path="\0" + name)
    script = tmp_path / "tries.py"
    script.write_text(TRIES)
    async with serving() as (port, received), abstract:
        lines = await ran(tmp_path, [sys.executable, "-I", str(script), str(port), name])
    found = dict(line.split(" ", 1) for line in lines)
    assert received == []
    assert found.pop("own") == "reached", "its own loopback works"
    assert set(found) == {"tcp", "tcp-host", "tcp6", "udp", "dns", "abstract", "raw", "packet", "vsock", "setns"}
    assert not {"reached", "sent", "resolved", "made", "opened"} & set(found.values()), found


async def test_only_the_model_is_reached_on_the_hosts_loopback(tmp_path: Path) -> None:
    async with serving() as (port, received), serving() as (other, untouched):
        reach = Reach((Endpoint("127.0.0.1", port, tls=False, anywhere=True),))
        reports: list[str] = []
        assert await ran(tmp_path, curl(f"http://127.0.0.1:{port}/v1"), reach, reports) == ["ok"]
        through = curl("--noproxy", "", f"http://127.0.0.1:{port}/v1")
        assert await ran(tmp_path, through, reach, reports) == ["ok"], "by the proxy, too"
        assert reports == []
        refused = await ran(tmp_path, curl("--noproxy", "", f"http://127.0.0.1:{other}/"), reach, reports)
        assert f"127.0.0.1:{other} is not among the hosts" in refused[0]
    assert len(received) == 2
    assert untouched == []
    assert len(reports) == 1


async def test_an_allowed_name_with_a_private_address_is_refused(tmp_path: Path) -> None:
    async with serving() as (port, received):
        reach = Reach((Endpoint("api.example.com", port, tls=False),))
        reports: list[str] = []
        lines = await ran(tmp_path, curl(f"http://api.example.com:{port}/"), reach, reports, ["127.0.0.1", "10.0.0.1"])
    assert "leads to an address of a private network" in lines[0]
    assert received == []
    assert "api.example.com leads to" in reports[0]


async def test_a_tunnel_carries_tls_for_its_own_host_only(tmp_path: Path) -> None:
    async with serving() as (port, received):
        reach = Reach((Endpoint("api.example.com", port, tls=True, anywhere=True),))
        reports: list[str] = []
        way = ["--insecure", "--connect-to", f"evil.example:{port}:api.example.com:{port}"]
        fronted = await ran(tmp_path, curl(*way, f"https://evil.example:{port}/"), reach, reports, ["127.0.0.1"])
        assert not any(received), "the ClientHello named another host"
        assert "curl:" in fronted[0]
        assert "its TLS names another host" in reports[0]
        await ran(tmp_path, curl("-k", f"https://api.example.com:{port}/"), reach, reports, ["127.0.0.1"])
    assert received[-1].startswith(b"\x16\x03"), "the right one reached the host as it was"
    assert len(reports) == 1


async def test_the_network_ends_with_the_process(tmp_path: Path) -> None:
    reach = Reach((Endpoint("api.example.com", 443),))
    report: list[str] = []

    async def collect(sentence: str) -> None:
        report.append(sentence)

    way_out = outlet.Outlet(reach, collect)
    agent = await AgentProcess.start(["sleep", "60"], {"PATH": os.environ["PATH"]}, tmp_path,
                                     walls=Walls("namespace", network=reach.listening), way_out=way_out)
    before = set(asyncio.all_tasks())
    await agent.terminate(0)
    assert not [task for task in before if task is not asyncio.current_task() and not task.done()
                and "_guarded" in repr(task)]
    assert report == []
