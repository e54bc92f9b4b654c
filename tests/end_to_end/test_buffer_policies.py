"""Frames that a buffer drops are counted exactly, and reported on the stream and in the result (D-3, D-4)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from end_to_end.conftest import AGENTS, CONFIG
from end_to_end.severed import Stretch
from end_to_end.tasks import PATIENCE_S, submit, watching
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack

SAYING = "echo before; while [ ! -e go ]; do sleep 0.02; done; echo while it was down; touch said # free"
AFTER = "echo after # free"


@pytest.fixture
def unbuffered(
    tmp_path: object, tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer
) -> Iterator[tuple[Stack, Stretch]]:
    """A stack whose sessions are not buffered while the link is down."""
    stack = Stack(tmp_path_factory.mktemp("unbuffered"), 'buffer_policy = "NONE"\n' + CONFIG + AGENTS,
                  fork_server=fork_server)
    stretch = Stretch(stack.port)
    stack.runner_url = stretch.url
    try:
        stack.up()
        yield stack, stretch
    finally:
        stretch.repair()
        stack.down()
        stretch.close()


@pytest.mark.req("D-3", "D-4", "D-2", "S-3")
def test_an_output_loss_is_reported_on_the_stream_and_in_the_result(unbuffered: tuple[Stack, Stretch]) -> None:
    stack, stretch = unbuffered
    task = submit(stack, "free", SAYING, workspace=stack.workspace)
    with watching(task) as viewer:
        viewer.until_text("before\n")
        stretch.cut()
        viewer.until(lambda event: event.get("notice", {}).get("code") == "Detached")
        assert stretch.await_refused(PATIENCE_S)
        (stack.workspace / "go").touch()
        stack.until(lambda: (stack.workspace / "said").exists())
        stretch.repair()
        loss = viewer.until(lambda event: event.get("notice", {}).get("code") == "Truncated")["notice"]
        ended = task.ended()
    stream = stack.pages(f"/v1/sessions/{task.session_id}/frames", "events", view="raw")
    seqs = [event["frame"]["seq"] for event in stream if event.get("kind") == "C"]
    missing = set(range(1, max(seqs) + 1)) - set(seqs)
    assert loss["lost_frame_count"] == len(missing) > 0
    assert ended["state"] == "succeeded"
    kept = [notice for notice in ended["result"]["output"]["notices"] if notice["code"] == "Truncated"]
    assert [notice["lost_frame_count"] for notice in kept] == [len(missing)]
    again = submit(stack, "free", AFTER, session_id=task.session_id)
    assert again.ended()["state"] == "succeeded"
