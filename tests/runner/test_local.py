"""Access to the runner's socket: for its user on the host, and none of its agents (D-5, H-15)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.runner.local import Reload, ask, listening
from runner.stage import stage

pytestmark = pytest.mark.anyio
ASK = """
import asyncio, sys
from pathlib import Path
from interlock.runner.local import Reload, ask
print((asyncio.run(ask(Path(sys.argv[1]), Reload()))).sentence)
"""


@pytest.mark.req("D-5", "H-15")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell which process asks")
async def test_an_agents_process_may_not_command_its_runner(tmp_path: Path) -> None:
    reloaded: list[str] = []

    async def reload() -> list[str]:
        reloaded.append("again")
        return []

    async with stage(tmp_path) as scene, listening(tmp_path, scene.sessions, reload):
        assert (await ask(tmp_path, Reload())).ok
        command = ["/bin/sh", "-c", '"$0" -c "$1" "$2"; true', sys.executable, ASK, str(tmp_path)]
        asked = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)

    assert asked.stdout == "An agent's processes may not request this from their runner.\n"
    assert reloaded == ["again"]
