"""A backup of a gateway at work, restored and started: all data acknowledged before it is there (Y-15)."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest

from end_to_end.tasks import submit
from interlock.app.state_backup import restore_backup, write_backup
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack

CONFIG = """
[[policy.rules]]
name = "echo is free"
effect = "allow"
door = "tool"
agent = "shell"
command = 'echo [a-z0-9 ]+'
"""


@pytest.mark.req("Y-15")
def test_a_backup_under_load_restores_every_acknowledged_command_and_starts(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    place = tmp_path / "stack"
    place.mkdir()
    stack = Stack(place, CONFIG, fork_server, on_file=True)
    acknowledged: list[str] = []
    stopping = threading.Event()

    def work() -> None:
        while not stopping.is_set():
            task = submit(stack, "shell", f"echo number {len(acknowledged)}", workspace=stack.workspace)
            acknowledged.append(task.id)
            task.ended()

    try:
        stack.up()
        worker = threading.Thread(target=work)
        worker.start()
        try:
            stack.until(lambda: len(acknowledged) >= 4)
            before = list(acknowledged)
            report = write_backup(stack.state, tmp_path / "backup.tar.gz", time.time_ns() // 1_000_000, "0.1.0")
            assert report.ok, report.message
        finally:
            stopping.set()
            worker.join()
        stack.down()
        shutil.move(stack.state, tmp_path / "lost")
        assert restore_backup(tmp_path / "backup.tar.gz", stack.state).ok
        stack.up()
        have = stack.pages("/v1/commands", "items")
        assert set(before) <= {command["id"] for command in have}
        for command in have:  # The one that ran while the copy was made has an end, and blocks no session.
            stack.until(lambda one=command: "ended_at" in stack.get(f"/v1/commands/{one['id']}"))
        assert submit(stack, "shell", "echo restored", workspace=stack.workspace).ended()["state"] == "succeeded"
    finally:
        stack.down()
    assert stack.audit_ok()[0], stack.audit_ok()
