"""`gateway.stream(…)`: a prompt as typed parts, in both shells, against a gateway and a runner of processes (Y-14)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from end_to_end.tasks import PATIENCE_S
from interlock.protocol.resources import Approval
from interlock.sdk import (
    AgentTextPart,
    ApprovalPart,
    AsyncInterlock,
    EndPart,
    Interlock,
    ToolEndPart,
    ToolOutputPart,
    ToolStartPart,
)
from proof.processes.stack import Stack

pytestmark = pytest.mark.req("Y-14")


def key_of(stack: Stack) -> str:
    return stack.headers["Authorization"].removeprefix("Bearer ")


def kinds(parts: list[Any]) -> list[type]:
    return [type(part) for part in parts]


def texts(parts: list[Any]) -> str:
    return "".join(part.text for part in parts if isinstance(part, AgentTextPart))


def test_a_prompt_streams_parts_and_ends_with_its_command(stack: Stack, workspace: Path) -> None:
    asked: list[Approval] = []

    def allow(approval: Approval) -> bool:
        asked.append(approval)
        return True

    with Interlock(stack.url, key_of(stack)) as gateway:
        parts = list(gateway.stream("echo made > made; echo done", agent="shell", workspace=str(workspace),
                                    on_approval=allow))
    assert (workspace / "made").read_text() == "made\n"
    assert [one.title for one in asked] == ["$ echo made > made; echo done"]
    found = kinds(parts)
    for kind in (ToolStartPart, ApprovalPart, ToolEndPart, AgentTextPart):
        assert kind in found, found
    assert found.count(EndPart) == 1
    assert isinstance(parts[-1], EndPart)
    assert parts[-1].command.state == "succeeded"
    assert texts(parts) == "ran 1 command"
    assert "done\n" in "".join(part.text for part in parts if isinstance(part, ToolOutputPart)) or any(
        "done" in str(part.output) for part in parts if isinstance(part, ToolEndPart))


@pytest.mark.anyio
async def test_an_awaited_function_can_deny(stack: Stack, workspace: Path) -> None:
    async def deny(_approval: Approval) -> bool:
        await asyncio.sleep(0)
        return False

    async with AsyncInterlock(stack.url, key_of(stack)) as gateway, asyncio.timeout(PATIENCE_S):
        parts = [part async for part in gateway.stream("touch made", agent="shell", workspace=str(workspace),
                                                       on_approval=deny)]
    assert not (workspace / "made").exists()
    assert isinstance(parts[-1], EndPart)
    assert [one.by for one in parts[-1].command.denials] == ["user:owner"]


@pytest.mark.anyio
async def test_an_approval_that_the_program_leaves_open_is_decided_elsewhere(stack: Stack, workspace: Path) -> None:
    states: list[str] = []
    async with AsyncInterlock(stack.url, key_of(stack)) as gateway, asyncio.timeout(PATIENCE_S):
        async for part in gateway.stream("touch made", agent="shell", workspace=str(workspace)):
            if isinstance(part, ApprovalPart):
                states.append(part.approval.state)
                if part.approval.state == "pending":
                    await gateway.approvals.grant(part.approval.id, digest=part.approval.digest)
    assert (workspace / "made").exists()
    assert states[0] == "pending"
    assert states[-1] in ("granted", "consumed")


def test_a_second_prompt_of_a_session_streams_only_its_own_parts(stack: Stack, workspace: Path) -> None:
    with Interlock(stack.url, key_of(stack)) as gateway:
        first = list(gateway.stream("echo first # free", agent="shell", workspace=str(workspace)))
        assert isinstance(first[-1], EndPart)
        session_id = first[-1].command.target.session_id
        second = list(gateway.stream("echo second # free", session_id=session_id))
    outputs = [str(part.output) for part in second if isinstance(part, ToolEndPart)]
    assert len(outputs) == 1
    assert "second" in outputs[0]
    assert texts(second) == "ran 1 command"
