"""The reason why a queued task waits, in a sentence (Y-6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from cli.operations.test_gateway_status import IDLE
from cli.scripted import Script, answer, link_to
from interlock.cli.tasks.queue_reason import queue_reason
from interlock.protocol.resources import Command

pytestmark = [pytest.mark.anyio, pytest.mark.req("Y-6", "C-3")]
AT = "2026-11-21T10:00:00.000Z"


def command(command_id: str, state: str) -> dict[str, Any]:
    return {"id": command_id, "created_at": AT, "updated_at": AT, "tenant_id": "t", "type": "execute",
            "actor": {"type": "user", "id": "me"},
            "target": {"agent_id": "shell", "session_id": "s", "runner_id": "local"}, "state": state, "timeout_ms": 1}


async def reason(state: Path, *, running: bool = False, drained: str | None = None, status: str = "online"
                 ) -> str | None:
    def commands(request: httpx2.Request) -> httpx2.Response:
        found = [command("cmd_a", "running")] if running and request.url.params["state"] == "running" else []
        return httpx2.Response(200, json={"items": found, "next_cursor": None})

    drain = {"scope": "runner", "id": drained, "at": AT, "by": "user:ann", "reason": "update"}
    node = {"node_id": "local", "device_name": "laptop", "status": status, "last_seen": AT, "capabilities": [],
            "active_sessions_count": 0, "config_versions": {}}
    script = Script({"GET /v1/commands": [commands], "GET /v1/edge/nodes": [answer({"nodes": [node]})],
                     "GET /v1/status": [answer({**IDLE, "drains": [drain] if drained else []})]})
    async with link_to(script, state) as link:
        return await queue_reason(link, msgspec.convert(command("cmd_b", "queued"), Command))


async def test_a_task_waits_behind_the_running_task_of_its_session(tmp_path: Path) -> None:
    assert await reason(tmp_path, running=True, drained="local") == "queued behind cmd_a, which is running"


async def test_a_task_waits_for_the_end_of_a_drain_that_affects_it(tmp_path: Path) -> None:
    found = await reason(tmp_path, drained="local")
    assert found is not None
    assert found.startswith("queued: draining runner local")
    assert found.endswith("by user:ann · update")
    assert await reason(tmp_path, drained="another") is None


async def test_a_task_waits_for_its_runner(tmp_path: Path) -> None:
    assert await reason(tmp_path, status="offline") == "queued until runner laptop is online again"


async def test_a_task_that_is_about_to_start_waits_for_nothing(tmp_path: Path) -> None:
    assert await reason(tmp_path) is None
