"""An agent reaches nothing of Interlock itself if the host can raise walls (H-15)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from end_to_end.tasks import submit
from proof.processes.stack import Stack
from this_host import HOST

pytestmark = pytest.mark.skipif(HOST.why_none is not None, reason=str(HOST.why_none))

ASK = """
import sys, urllib.error, urllib.request
try:
    urllib.request.urlopen(sys.argv[1])
except urllib.error.HTTPError as refused:
    print(refused.code)
"""
INTERLOCK = f"{sys.executable} -m interlock"


@pytest.mark.req("H-15")
@pytest.mark.parametrize("kind", HOST.kinds)
def test_an_approved_script_cannot_answer_the_next_approval(stack: Stack, workspace: Path, kind: str) -> None:
    """It reads the key, approves by the command line, and connects to the gateway: each is refused."""
    held = submit(stack, "shell", "rm -rf everything", workspace=workspace)
    approval = held.approval()
    state, url = stack.state, stack.url
    runner, gateway = (stack.processes[part].pid for part in ("runner", "gateway"))
    (workspace / "ask.py").write_text(ASK)
    (workspace / "attempt.sh").write_text(f"""
        cat {state}/owner.key {state}/gateway.key {state}/runner/token {state}/ledger.db
        {INTERLOCK} approve @last --yes --state {state} || echo not approved
        {INTERLOCK} approve {approval["id"]} --yes --url {url} --state "$(mktemp -d)" || echo not approved
        cat /proc/{runner}/environ /proc/{gateway}/environ
        {sys.executable} ask.py {url}/v1/approvals
    """)

    task = submit(stack, f"free-{kind}", "sh attempt.sh # free", workspace=workspace)
    assert task.ended()["state"] == "succeeded"
    assert task.sent("session.capabilities")[0]["payload"]["box"]["walls"] == kind

    output = task.sent("tool.invoke.result")[0]["payload"]["output"]
    assert output.count("not approved") == 2
    assert (state / "owner.key").read_text().strip() not in output
    assert "PATH=" not in output
    assert output.endswith("401\n")
    assert stack.get(f"/v1/approvals/{approval['id']}")["state"] == "pending"
    held.vote("deny", approval)
    held.ended()


@pytest.mark.req("H-15")
def test_the_approval_names_the_walls_around_its_agent(stack: Stack, workspace: Path) -> None:
    task = submit(stack, "shell", "echo x > x", workspace=workspace)
    approval = task.approval()
    task.vote("deny", approval)
    task.ended()

    assert approval["box"] == {"walls": HOST.kinds[0]}
    offered = [agent for node in stack.get("/v1/edge/nodes")["nodes"] for agent in node["agents"]]
    assert {agent["box"]["walls"] for agent in offered if not agent["agent_id"].startswith("free-")} == {HOST.kinds[0]}


@pytest.mark.req("H-15")
def test_the_wall_keeps_a_program_that_never_asks_read_only(stack: Stack, workspace: Path) -> None:
    (workspace / "there").write_text("as it was")
    task = submit(stack, "sh", "cat there; echo x > there; echo x > new; echo over", workspace=workspace,
                  workspace_access="ro")
    task.vote("grant", task.approval())

    ended = task.ended()
    assert (ended["state"], ended.get("error")) == ("succeeded", None)
    assert task.text().startswith("as it was")
    assert [entry.name for entry in workspace.iterdir()] == ["there"]
    assert (workspace / "there").read_text() == "as it was"

