"""A gateway of a cluster whose database goes away: it still ends when signalled, since others have its sessions."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from backends.postgres.proxy import Proxy
from interlock.backends.postgres.database import PostgresSettings

pytestmark = pytest.mark.anyio
PATIENCE_S = 20
"""Far less than what waits for the database otherwise."""


@pytest.mark.req("G-1", "C-4")
async def test_a_gateway_without_its_database_ends_on_a_signal(
    postgres: PostgresSettings, nats_server: str, tmp_path: Path,
) -> None:
    with tempfile.TemporaryDirectory(prefix="ilk-") as sockets:
        proxy = Proxy(Path(sockets), Path(parse_qs(urlsplit(postgres.dsn).query)["host"][0]))
        await proxy.start()
        (tmp_path / "interlock.toml").write_text(
            f'[cluster]\nstore = "{proxy.url.format(urlsplit(postgres.dsn).path[1:])}"\nbus = "{nats_server}"\n')
        gateway = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "interlock", "gateway", "--state", str(tmp_path), "--port", "0",
            stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE)
        try:
            assert gateway.stderr is not None
            while b"listens on" not in (line := await gateway.stderr.readline()):
                assert line, "it ended before it listened"
            proxy.down = True
            proxy.cut()

            gateway.terminate()
            printed, _ = await asyncio.wait_for(asyncio.gather(gateway.stderr.read(), gateway.wait()), PATIENCE_S)

            assert gateway.returncode == 0
            events = [json.loads(line)["event"] for line in printed.splitlines() if line.startswith(b"{")]
            assert "ended_without_the_ledger" in events
        finally:
            if gateway.returncode is None:
                gateway.kill()
                await gateway.wait()
            await proxy.stop()
