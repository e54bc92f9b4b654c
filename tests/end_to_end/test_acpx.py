"""acpx, an unmodified client of the Agent Client Protocol, at `interlock acp`: what it allows is a vote, and its
sessions are the gateway's (O-1, O-3, O-4, O-5)."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from installed import find_new_node, require
from proof.processes.stack import Stack

pytestmark = [pytest.mark.anyio, pytest.mark.needs("acpx"), pytest.mark.long,
              pytest.mark.req("O-1", "O-2", "O-3", "O-4", "O-5")]
PATIENCE_S = 90


class Ran(NamedTuple):
    """How a run of acpx ended."""

    status: int
    out: str
    err: str


async def acpx(stack: Stack, workspace: Path, *arguments: str) -> Ran:
    node = find_new_node()
    assert node is not None
    key = stack.headers["Authorization"].removeprefix("Bearer ")
    process = await asyncio.create_subprocess_exec(
        node, require("acpx"), "--agent", f"{sys.executable} -m interlock acp shell", "--ttl", "30", *arguments,
        cwd=workspace, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": f"{node.parent}:{os.environ['PATH']}", "HOME": str(stack.place), "INTERLOCK_URL": stack.url,
             "INTERLOCK_KEY": key})
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    return Ran(process.returncode or 0, out.decode(), err.decode())


async def test_a_prompt_runs_and_its_output_is_shown(stack: Stack, workspace: Path) -> None:
    ran = await acpx(stack, workspace, "exec", "echo by acpx # free")
    assert ran.status == 0, ran.err
    assert "by acpx\n" in ran.out
    assert "[done] end_turn" in ran.out


async def test_a_permission_that_acpx_allows_or_denies_is_a_vote(stack: Stack, workspace: Path) -> None:
    allowed = await acpx(stack, workspace, "--approve-all", "exec", "touch made")
    denied = await acpx(stack, workspace, "--deny-all", "exec", "touch denied")
    assert (allowed.status, denied.status) == (0, 5), allowed.err + denied.err
    assert (workspace / "made").exists()
    assert not (workspace / "denied").exists()
    votes = {one["title"]: [vote["decision"] for vote in one["votes"]]
             for one in stack.get("/v1/approvals", decided=True)["items"] if one["workspace"] == str(workspace)}
    assert votes == {"$ touch made": ["grant"], "$ touch denied": ["deny"]}


async def test_a_session_continues_and_is_listed(stack: Stack, workspace: Path) -> None:
    assert (await acpx(stack, workspace, "sessions", "new")).status == 0
    for words in ("one", "two"):
        ran = await acpx(stack, workspace, "prompt", f"echo {words} # free")
        assert ran.status == 0, ran.err
        assert f"{words}\n" in ran.out
    listed = await acpx(stack, workspace, "--format", "json", "--json-strict", "sessions", "list")
    closed = await acpx(stack, workspace, "sessions", "close")  # Its process that keeps the session ends with it.
    assert str(workspace) in listed.out, listed
    assert closed.status == 0, closed.err
    sessions = [one for one in stack.get("/v1/sessions")["items"] if one["workspace"] == str(workspace)]
    commands = [stack.get("/v1/commands", session=one["session_id"])["items"] for one in sessions]
    assert [len(one) for one in commands] == [2]
