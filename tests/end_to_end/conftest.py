"""A stack of real processes for each module; each test has a workspace and sessions of its own in it."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from end_to_end.tasks import SubmittedTask, submit
from proof.processes.fork_server import ForkServer
from proof.processes.stack import CLUSTER, Stack

HERE = Path(__file__).resolve().parent
OWN_GATEWAYS = frozenset({
    "test_backup.py", "test_bare_host.py", "test_builtin_page.py", "test_clocks_apart.py", "test_half_open.py",
    "test_how_to_pages.py", "test_kept_states.py", "test_pages.py", "test_set_clock.py", "test_two_gateways.py"})
"""Modules that start gateways by themselves, one or a whole cluster: on three gateways they would only be repeated."""
MISBEHAVING = Path(__file__).resolve().parents[1] / "agents" / "misbehaving.py"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not CLUSTER:
        return
    repeated = [item for item in items if item.path.parent == HERE and item.path.name in OWN_GATEWAYS]
    config.hook.pytest_deselected(items=repeated)
    items[:] = [item for item in items if item not in repeated]


CONFIG = """
[[policy.rules]]
name = "lines marked free"
effect = "allow"
door = "tool"
agent = "shell"
command = '(echo [a-z ]+|sleep [0-9]+|exit [0-9]) # free'

[[policy.rules]]
name = "agents of the tests that never ask"
effect = "allow"
door = "tool"
agent = "free*"

[[policy.rules]]
name = "lines marked never"
effect = "deny"
door = "tool"
command = ".*# never"
reason = "The line is marked never."

[[policy.rules]]
name = "lines marked soon"
effect = "ask"
door = "tool"
command = ".*# soon"
ttl = "1s"

[[policy.rules]]
name = "held agents are let through"
effect = "allow"
door = "command"
agent = "held"

[[policy.rules]]
name = "agents with staged changes are let through"
effect = "allow"
door = "command"
agent = "staging"

[[policy.rules]]
name = "builds"
effect = "allow"
door = "tool"
kind = "program"
words = "sh build.sh"
below = true

[[policy.rules]]
name = "prisoners start nothing"
effect = "deny"
door = "command"
agent = "prisoner"
reason = "It is locked up."

[[policy.rules]]
name = "guarded agents are asked for"
effect = "ask"
door = "command"
agent = "guarded"
"""


def acp(name: str, *args: str) -> str:
    """`[agents.<name>]` for the misbehaving agent with a start word."""
    given = ", ".join(f'"{arg}"' for arg in ("-S", str(MISBEHAVING), *args))
    return f'\n[agents.{name}]\nadapter = "acp"\ncommand = "{sys.executable}"\nargs = [{given}]\n'


AGENTS = (f'\n[agents.free]\nadapter = "acp"\ncommand = "{sys.executable}"\nargs = ["-m", "interlock.shell_agent"]\n'
          + "".join(f'\n[agents.free-{kind}]\nadapter = "acp"\ncommand = "{sys.executable}"\n'
                    f'args = ["-m", "interlock.shell_agent"]\n[agents.free-{kind}.box]\nwalls = "{kind}"\n'
                    'on_unavailable = "start"\n' for kind in ("namespace", "landlock"))
          + acp("misbehaving") + acp("dead", "--start=die") + acp("deaf", "--start=die-initialize")
          + acp("penniless", "--start=session-error") + acp("prisoner") + acp("guarded")
          + '\n[agents.absent]\nadapter = "acp"\ncommand = "/nowhere/at/all"\n'
          + '\n[agents.sh]\nadapter = "exec"\ncommand = "/bin/sh"\nargs = ["-c"]\n'
          + '\n[agents.held]\nadapter = "exec"\ncommand = "/bin/sh"\nargs = ["-c"]\n'
          + '[agents.held.box]\nhold = "programs"\non_unavailable = "start"\n'
          + '\n[agents.launched]\nadapter = "acp"\ncommand = "/bin/sh"\n'
          + f'args = ["-c", "{sys.executable} -m interlock.shell_agent; exit"]\n'
          + '[agents.launched.box]\nhold = "programs"\non_unavailable = "start"\n'
          + f'between_turns = ["{sys.executable} -m interlock.shell_agent"]\n'
          + '\n[agents.staging]\nadapter = "exec"\ncommand = "/bin/sh"\nargs = ["-c"]\n'
          + '[agents.staging.box]\nchanges = "staged"\non_unavailable = "start"\n')


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Generator[Stack]:
    """Gateway and runner; when the module is over nothing of any agent is left, and the audit log verifies."""
    stack = Stack(tmp_path_factory.mktemp("stack"), CONFIG + AGENTS, fork_server)
    try:
        stack.up()
        yield stack
    finally:
        stack.down()
    left, (audit_ok, _, says) = stack.leftovers(), stack.audit_ok()
    assert left == []
    assert audit_ok, says
    assert "Traceback" not in stack.log("gateway") + stack.log("runner")


@pytest.fixture
def workspace(stack: Stack, request: pytest.FixtureRequest) -> Path:
    """A directory of the test's own under the runner's root."""
    found = stack.workspace / "".join(c if c.isalnum() else "-" for c in request.node.name)
    found.mkdir()
    return found


@pytest.fixture(scope="module")
def finished(stack: Stack) -> SubmittedTask:
    """A session of the shell that stays open all along."""
    place = stack.workspace / "open"
    place.mkdir()
    task = submit(stack, "shell", "echo open # free", workspace=place)
    assert task.ended()["state"] == "succeeded"
    return task


@pytest.fixture
def usable(stack: Stack, finished: SubmittedTask) -> Generator[None]:
    """After the test, another session of the same gateway and runner still does its work."""
    yield
    again = submit(stack, "shell", "echo still here # free", session_id=finished.session_id)
    ended = again.ended()
    assert ended["state"] == "succeeded", ended.get("error")
