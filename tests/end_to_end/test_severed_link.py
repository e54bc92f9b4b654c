"""The link is cut, or goes silent, in the middle of output: nothing is lost, and a viewer's text equals the stored
text."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Generator, Iterator
from pathlib import Path

import httpx2
import pytest

from end_to_end.conftest import AGENTS, CONFIG
from end_to_end.severed import Stretch
from end_to_end.tasks import PATIENCE_S, SubmittedTask, Viewer, submit, watching
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack

LINES = 400
COUNTING = (f"i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo line $i; "
            "if [ $i = 100 ]; then while [ ! -e go ]; do sleep 0.02; done; fi; "
            "if [ $i = 300 ]; then while [ ! -e end ]; do sleep 0.02; done; fi; done # free")
WHOLE = "".join(f"line {number}\n" for number in range(1, LINES + 1))


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Iterator[tuple[Stack, Stretch]]:
    """A stack whose runner reaches its gateway through a stretch of network."""
    stack = Stack(tmp_path_factory.mktemp("far"), CONFIG + AGENTS, fork_server=fork_server)
    stretch = Stretch(stack.port)
    stack.runner_url = stretch.url
    try:
        stack.up()
        yield stack, stretch
    finally:
        stretch.repair()
        stack.down()
        stretch.close()
    left, (audit_ok, _, says) = stack.leftovers(), stack.audit_ok()
    assert left == []
    assert audit_ok, says


@pytest.fixture
def place(far: tuple[Stack, Stretch], request: pytest.FixtureRequest) -> Path:
    """A directory of the test's own."""
    found = far[0].workspace / "".join(c if c.isalnum() else "-" for c in request.node.name)
    found.mkdir()
    return found


@contextlib.contextmanager
def counting(stack: Stack, place: Path) -> Generator[tuple[SubmittedTask, Viewer]]:
    """A task in the middle of its output, and a viewer that has received the first hundred lines."""
    task = submit(stack, "free", COUNTING, workspace=place)
    with watching(task) as viewer:
        viewer.until_text("line 100\n")
        yield task, viewer


def check(task: SubmittedTask, viewer: Viewer) -> None:
    """Everything is there, once, in order, and what was shown is what is kept."""
    assert task.ended()["state"] == "succeeded"
    viewer.until_frame("session.usage")
    kept = {name: text for name, text in task.texts().items() if name.endswith("/stdout")}
    assert list(kept.values()) == [WHOLE]
    for name, text in viewer.blocks.items():
        assert task.texts()[name].startswith(text)
    assert [event["n"] for event in viewer.events if "n" in event] == [event["n"] for event in task.frames()][
        : len([event for event in viewer.events if "n" in event])]


@pytest.mark.req("D-1", "D-2", "D-7", "C-7", "E-3", "S-3")
def test_a_link_reset_in_mid_output_loses_nothing(far: tuple[Stack, Stretch], place: Path) -> None:
    stack, stretch = far
    with counting(stack, place) as (task, viewer):
        stretch.cut()
        viewer.until(lambda event: event.get("notice", {}).get("code") == "Detached")
        (place / "go").touch()
        assert stretch.await_refused(PATIENCE_S)
        assert task.command()["state"] == "running"  # Losing the link is not losing the agent.
        stretch.repair()
        viewer.until(lambda event: event.get("notice", {}).get("code") == "Reattached")
        viewer.until_text("line 300\n")
        (place / "end").touch()

        check(task, viewer)


@pytest.mark.req("D-2", "L-5", "C-7")
def test_a_dead_link_that_only_the_runner_detects_is_replaced(far: tuple[Stack, Stretch], place: Path) -> None:
    stack, stretch = far
    with counting(stack, place) as (task, viewer):
        taken = stretch.taken
        stretch.half_open()  # The gateway's end stays open: it learns of it by the runner's next link.
        (place / "go").touch()
        viewer.until_text("line 300\n")
        assert stretch.taken > taken
        (place / "end").touch()

        check(task, viewer)


@pytest.mark.req("D-2", "D-7", "E-3")
def test_a_link_that_is_cut_repeatedly_loses_nothing(far: tuple[Stack, Stretch], place: Path) -> None:
    stack, stretch = far
    with counting(stack, place) as (task, viewer):
        (place / "go").touch()
        for _ in range(4):
            seen = len(viewer.notices())
            stretch.cut()
            stretch.repair()
            viewer.until(lambda _event, seen=seen: viewer.notices()[seen:].count("Reattached") > 0)
        viewer.until_text("line 300\n")
        (place / "end").touch()

        check(task, viewer)


@pytest.mark.req("A-5", "P-6", "D-7", "C-7")
@pytest.mark.parametrize("decision", ["grant", "deny"])
def test_an_approval_is_answered_while_the_link_is_down(
    far: tuple[Stack, Stretch], place: Path, decision: str
) -> None:
    stack, stretch = far
    task = submit(stack, "shell", "echo written > written", workspace=place)
    approval = task.approval()
    with watching(task) as viewer:
        stretch.cut()
        viewer.until(lambda event: event.get("notice", {}).get("code") == "Detached")
        assert task.vote(decision, approval).status_code == 200
        assert not (place / "written").exists()
        stretch.repair()

        task.ended()

    assert (place / "written").exists() == (decision == "grant")
    states = {"grant": "consumed", "deny": "denied"}
    assert stack.get(f"/v1/approvals/{approval['id']}")["state"] == states[decision]


@pytest.mark.req("C-2", "C-7", "D-7")
def test_a_cancel_while_the_link_is_down_is_applied_after_reconnect(far: tuple[Stack, Stretch], place: Path) -> None:
    stack, stretch = far
    with counting(stack, place) as (task, viewer):
        stretch.cut()
        viewer.until(lambda event: event.get("notice", {}).get("code") == "Detached")
        cancel = task.cancel()
        assert task.command()["state"] == "canceling"
        stretch.repair()

        assert task.ended()["state"] == "canceled"
        assert cancel.ended()["state"] == "succeeded"
    again = submit(stack, "free", "echo again # free", session_id=task.session_id)
    assert again.ended()["state"] == "succeeded"


@pytest.mark.req("S-1", "S-3")
def test_a_returning_viewer_receives_each_missed_event_once(
    far: tuple[Stack, Stretch], place: Path
) -> None:
    stack, _ = far
    with counting(stack, place) as (task, viewer):
        viewer.until_frame("tool.invoke.request")
    url = f"{stack.url}/v1/sessions/{task.session_id}/frames?view=raw"
    headers = {**stack.headers, "Accept": "text/event-stream"}
    cursor, seen = None, []
    for _ in range(3):  # Reads two durable events, leaves, comes back with its cursor.
        more = {**headers, **({"Last-Event-ID": cursor} if cursor else {})}
        with httpx2.stream("GET", url, headers=more, timeout=PATIENCE_S) as answer:
            got = 0
            for line in answer.iter_lines():
                if line.startswith("id:"):
                    cursor = line[3:].strip()
                elif line.startswith("data:") and "n" in (event := json.loads(line[5:])):
                    seen.append(event["n"])
                    got += 1
                    if got == 2:
                        break
    assert seen == [1, 2, 3, 4, 5, 6]
    (place / "go").touch()
    (place / "end").touch()
    assert task.ended()["state"] == "succeeded"


@pytest.mark.req("D-6", "C-4", "L-5")
def test_a_runner_stopped_by_the_kernel_continues_where_it_was(far: tuple[Stack, Stretch], place: Path) -> None:
    stack, _ = far
    with counting(stack, place) as (task, viewer):
        runner = stack.processes["runner"]
        runner.send_signal(signal.SIGSTOP)
        (place / "go").touch()
        again = threading.Timer(0.5, os.kill, (runner.pid, signal.SIGCONT))
        again.start()
        viewer.until_text("line 300\n")
        (place / "end").touch()
        again.join()

        check(task, viewer)
