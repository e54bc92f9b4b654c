"""Commands of the built-in agent end in time, with bounded output."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from agents.builtin.openings import allowed, opened
from agents.builtin_stage import builtin
from agents.session_processes import left_of
from interlock.model_stand_in import ModelServer
from runner.stage import Stage, stage

pytestmark = [pytest.mark.anyio, pytest.mark.req("B-1")]


def results(scene: Stage) -> list[tuple[str, str]]:
    return [(f.payload.status, f.payload.output) for f in scene.all("tool.invoke.result")]


async def test_a_command_over_its_time_limit_is_ended_and_its_output_is_bounded(
    model_server: ModelServer, tmp_path: Path
) -> None:
    async with stage(tmp_path, {"own": builtin(model_server)}) as scene:
        await opened(scene)
        await allowed(scene, '[[call:shell {"command":"echo on; sleep 600","timeout_s":0.3}]]')
        assert results(scene)[-1] == ("error", "on\n(ended after 0.3 s, its time limit)")
        await allowed(scene, "[[tool:seq 1 100000; exit 3]]")
        status, output = results(scene)[-1]
        assert status == "error"
        assert output.startswith("1\n2\n")
        assert output.endswith("100000\n(exit status 3)")
        assert len(output) < 40_000
        # All of it is the user's.
        whole = b"".join(base64.b64decode(f.payload.content) for f in scene.all("agent.file.transfer"))
        assert whole.decode() == "".join(f"{n}\n" for n in range(1, 100_001))
        assert left_of(scene.session_id) == []
