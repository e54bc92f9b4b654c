"""Two installations on one machine, as when `interlock demo` runs beside `interlock up`: neither knows the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from end_to_end.conftest import AGENTS, CONFIG
from end_to_end.tasks import submit, watching
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack


@pytest.mark.req("A-4", "G-2")
def test_a_starting_runner_leaves_the_agents_of_another_runner_alone(
    stack: Stack, workspace: Path, tmp_path: Path, fork_server: ForkServer
) -> None:
    task = submit(stack, "misbehaving", "text:on wait", workspace=workspace)
    with watching(task) as viewer:
        viewer.until_text("on")
    agents = stack.leftovers(workspace)

    other = Stack(tmp_path, CONFIG + AGENTS, fork_server)
    try:
        other.up()
    finally:
        other.down()

    assert stack.leftovers(workspace) == agents != []
    assert task.command()["state"] == "running"
    task.cancel()
    assert task.ended()["state"] == "canceled"
