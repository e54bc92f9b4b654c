"""Real ACP agents, if they are installed: what their permission requests are read as is what runs (H-2, H-3)."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agents.lab import configured, lab_agent
from interlock.model_stand_in import ModelServer
from interlock.probe import mcp_server
from interlock.probe.check import check
from interlock.probe.steps import MCP_TOOL
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from runner.stage import Stage, stage

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-2", "H-3")]
MODULE = Path(mcp_server.__file__)
READ = ["copilot", "gemini", "goose", "kilo", "kimi", "opencode", "qwen", "vibe"]
LONG = f"printf '%s' {'x' * 300} > made.txt"
LINES = "printf '%s' '  one \"two\"\n\tthree' > made.txt\n: end"
Opener = Callable[..., Awaitable[Stage]]


@pytest.fixture
async def opened(tmp_path: Path, model_server: ModelServer) -> AsyncIterator[Opener]:
    async with AsyncExitStack() as stack:
        async def open_one(name: str, settings: dict[str, Any] | None = None,
                           more: tuple[str, str] = ("", "")) -> Stage:
            (tmp_path / "work").mkdir()
            (tmp_path / "home").mkdir()
            spec = lab_agent(name, tmp_path / "home", model_server)
            if settings is not None:
                (tmp_path / "home" / f".{name}" / "settings.json").write_text(json.dumps(settings))
            if more[0]:
                with (tmp_path / "home" / more[0]).open("a") as file:
                    file.write(more[1])
            scene = await stack.enter_async_context(stage(tmp_path / "work", {name: spec}))
            await scene.open(name)
            await scene.next("session.capabilities")
            return scene
        yield open_one


def subject(asked: Frame) -> dict[str, Any]:
    return msgspec.json.decode(asked.payload.context.subject)


async def allowed(scene: Stage, words: str) -> dict[str, Any]:
    """The subject of the only question of a turn, which is granted; nothing else is reported."""
    await scene.prompt(words)
    asked = await scene.next("agent.interaction.request")
    await scene.answer(asked, "allow")
    assert (await scene.next("session.turn.end")).payload.stop_reason == "end_turn"
    assert [one.payload.message for one in scene.all("agent.error")] == []
    return subject(asked)


@pytest.mark.parametrize("name", READ)
async def test_a_command_is_read_byte_for_byte(name: str, opened: Opener) -> None:
    scene = await opened(name)
    for command, made in ((LONG, "x" * 300), (LINES, '  one "two"\n\tthree')):
        read = await allowed(scene, f"[[tool:{command}]]")
        assert (read["input"]["command"], read.get("described", False)) == (command, False)
        assert (scene.workspace / "made.txt").read_text() == made


@pytest.mark.parametrize("name", [name for name in READ if name != "qwen"])
async def test_a_file_change_is_read_completely(name: str, opened: Opener) -> None:
    scene = await opened(name)
    made = scene.workspace / "made.txt"
    read = await allowed(scene, f"[[do:write {json.dumps({'path': str(made), 'content': 'a `b`'})}]]")
    assert not read.get("described", False)
    assert ("a `b`" in json.dumps(read), made.read_text().rstrip("\n")) == (True, "a `b`")


@pytest.mark.parametrize(("agent", "call", "read"), [
    ("gemini", ("run_shell_command", {"command": LONG, "description": "List (the) files"}), None),
    ("gemini", ("run_shell_command", {"command": LONG, "is_background": True}), None),
    ("gemini", ("web_fetch", {"prompt": "Read http://127.0.0.1:9/x now"}),
     {"prompt": "Read http://127.0.0.1:9/x now", "urls": ["http://127.0.0.1:9/x"]}),
    ("kimi", ("Bash", {"command": LONG, "run_in_background": True, "description": "Write"}), None),
    ("kimi", ("CronCreate", {"cron": "0 0 1 1 *", "prompt": "say hello", "recurring": False}), None),
    ("kimi", ("TaskStop", {"task_id": "bash-1"}), None),
    ("opencode", ("bash", {"command": "touch a", "workdir": "sub", "description": "x"}), None),
    ("opencode", ("task", {"description": "list", "prompt": "say hello", "subagent_type": "general"}), None),
    ("opencode", ("webfetch", {"url": "http://127.0.0.1:9/x"}),
     {"url": "http://127.0.0.1:9/x", "format": "markdown"}),
    ("kilo", ("bash", {"command": "touch a", "workdir": "sub", "description": "x"}), None),
    ("kilo", ("task", {"description": "list", "prompt": "say hello", "subagent_type": "general"}), None),
])  # fmt: skip
async def test_a_call_is_read_with_all_its_arguments(
    agent: str, call: tuple[str, dict[str, Any]], read: dict[str, Any] | None, opened: Opener
) -> None:
    scene = await opened(agent)
    (scene.workspace / "sub").mkdir()
    name, given = call
    found = await allowed(scene, f"[[call:{name} {json.dumps(given)}]]")
    assert (found["input"], found.get("described", False), found.get("changed", False)) == (read or given, False, False)


async def test_kimis_deletion_of_a_cron_job_is_read_with_its_id(opened: Opener) -> None:
    scene = await opened("kimi")
    made = {"cron": "0 0 1 1 *", "prompt": "say hello", "recurring": False}
    await allowed(scene, f"[[call:CronCreate {json.dumps(made)}]]")
    job = re.search(r"\b[0-9A-Z]{26}\b", json.dumps(scene.all("tool.invoke.result")[-1].payload.output))
    assert job is not None, scene.all("tool.invoke.result")[-1].payload.output
    found = await allowed(scene, f"[[call:CronDelete {json.dumps({'id': job[0]})}]]")
    assert (found["input"], found.get("described", False)) == ({"id": job[0]}, False)


class FetchService(BaseHTTPRequestHandler):
    """Kimi's own service that fetches for it."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"the fetched page")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def fetch_service() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), FetchService) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/fetch"
        server.shutdown()


@pytest.mark.req("H-12")
async def test_kimis_fetch_runs_without_a_question_and_is_reported(
    tmp_path: Path, fetch_service: str, opened: Opener
) -> None:
    service = f'[services.moonshot_fetch]\nbase_url = "{fetch_service}"\napi_key = "not-a-key"\n'
    scene = await opened("kimi", more=(".kimi-code/config.toml", service))
    await scene.prompt(f"[[call:FetchURL {json.dumps({'url': 'http://203.0.113.7/x'})}]]")
    end = await scene.next("agent.interaction.request", "agent.error", "session.turn.end")
    assert end.type == "agent.error"
    assert end.payload.error_code == Code.RAN_UNASKED
    assert "the fetched page" in json.dumps([one.payload.output for one in scene.all("tool.invoke.result")])


PATCH = """apply_patch <<'EOF'
*** Begin Patch
*** Update File: a.txt
@@
-one
+two
*** Add File: b.txt
+new
*** End Patch
EOF
"""


async def test_codex_acps_file_change_is_read_from_its_announcement(opened: Opener) -> None:
    scene = await opened("codex-acp")
    (scene.workspace / "a.txt").write_text("one\n")
    found = await allowed(scene, f"[[call:exec_command {json.dumps({'cmd': PATCH})}]]")
    assert not found.get("described", False)
    assert [(one["path"], one["oldText"], one["newText"]) for one in found["content"]] == [
        (str(scene.workspace / "a.txt"), "one\n", "two\n"), (str(scene.workspace / "b.txt"), None, "new\n")]
    assert (scene.workspace / "a.txt").read_text() == "two\n"


async def test_codex_acps_moved_file_is_only_described(opened: Opener) -> None:
    scene = await opened("codex-acp")
    (scene.workspace / "a.txt").write_text("one\n")
    moving = PATCH.replace("a.txt\n", "a.txt\n*** Move to: moved.txt\n")
    assert (await allowed(scene, f"[[call:exec_command {json.dumps({'cmd': moving})}]]"))["described"]
    assert (scene.workspace / "moved.txt").exists()


async def test_geminis_mcp_tool_is_read_from_its_text(tmp_path: Path, opened: Opener) -> None:
    scene = await opened("gemini", settings={
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "mcpServers": {"chk": {"command": sys.executable, "args": ["-I", str(MODULE), str(tmp_path / "work")]}}})
    found = await allowed(scene, f"[[do:mark {json.dumps({'name': 'm.txt'})}]]")
    assert found["input"] == {"tool": "leave_mark (chk MCP Server)", "arguments": {"name": "m.txt"}}
    assert (scene.workspace / "m.txt").exists()


@pytest.mark.parametrize("name", ["codex-acp", "kimi", "kilo", "opencode"])
async def test_a_question_about_an_mcp_tool_has_its_arguments(name: str) -> None:
    spec = configured(name)
    witnessed = await check(name, spec, os.environ, datetime.now(UTC))
    assert next(one.shown for one in witnessed.tools if one.tool == MCP_TOOL) == "input"
