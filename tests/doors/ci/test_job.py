"""Output of a job in its log, against a gateway that answers from a script (O-10)."""

from __future__ import annotations

import itertools
from typing import Any

import httpx2
import msgspec
import pytest

from cli.scripted import Script, answer, problem, stream
from cli.tasks.test_follower import APPROVAL, COMMAND, FRAMES, STATUS, approval, asks, command, frames, state
from interlock.doors.ci.job import PipelineJob
from interlock.doors.ci.log_lines import LogWriter
from interlock.protocol.resources import Command
from interlock.sdk import AsyncInterlock, problems
from interlock.sdk.requests import commands

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-10")]
COMMANDS = "/v1/commands"


def not_found(_: httpx2.Request) -> httpx2.Response:
    """A stream of which all was read."""
    return httpx2.Response(204)


def job(script: Script, lines: list[str], seconds: int = 0) -> tuple[AsyncInterlock, PipelineJob]:
    """A job whose clock advances by this many seconds with each read."""
    clock = itertools.count(0, seconds)
    client = AsyncInterlock("http://127.0.0.1:7", "ilk_test", transport=httpx2.MockTransport(script))
    return client, PipelineJob(client, "https://gate.example", LogWriter("github"), lines.append, approval_limit_s=60,
                               clock=lambda: float(next(clock)))


def of(value: dict[str, Any]) -> Command:
    return msgspec.json.decode(msgspec.json.encode(value), type=Command)


async def test_an_approval_and_its_decision_are_named_once() -> None:
    lines: list[str] = []
    status = stream(state("running"), asks("pending"), asks("granted"), asks("consumed"), state("succeeded"),
                    breaks=False)
    client, at = job(Script({
        f"GET {STATUS} sse": [status, not_found],
        f"GET {FRAMES} sse": [stream(frames("::error::x"), breaks=False), not_found],
        f"GET {COMMAND}": [answer(command())],
        f"GET {APPROVAL}": [answer(approval(agent_title="::error::y")),
                            answer(approval("consumed", decided_by="user:ann"))]}), lines)
    async with client:
        ended = await at.follow(of(command("running")))
    assert ended.state == "succeeded"
    assert [line for line in lines if "apr_a" in line] == [
        '::notice title=Approval needed::$ rm -rf build, which the agent calls "::error::y" · rule: ask · answer at '
        "https://gate.example/a/apr_a",
        "apr_a is granted by user:ann: $ rm -rf build"]
    assert "| ::error::x" in lines
    assert at.progress.answer == "::error::x"


async def test_a_job_without_output_reports_that_it_continues() -> None:
    lines: list[str] = []
    client, at = job(Script({
        f"GET {STATUS} sse": [stream(state("running"), state("succeeded"), breaks=False), not_found],
        f"GET {FRAMES} sse": [stream(frames(), breaks=False), not_found], f"GET {COMMAND}": [answer(command())]}),
        lines, seconds=1_000)
    async with client:
        await at.follow(of(command("running")))
    assert "still going on: the agent works" in lines


@pytest.mark.parametrize(("states", "used"), [
    (["running"], 1), (["succeeded"], 1), (["failed", "running"], 2), (["canceled", "failed", "queued"], 3),
    (["failed", "failed", "failed"], 3)])
async def test_the_first_running_or_successful_task_is_followed(states: list[str], used: int) -> None:
    lines: list[str] = []
    script = Script({f"POST {COMMANDS}": [answer(command(), 202)],
                     f"GET {COMMAND}": [answer(command(one)) for one in states]})
    client, at = job(script, lines)
    async with client:
        found = await at.submit(commands.submit("x", agent="shell"), [f"ci-key-number-{n}" for n in range(3)])
    keys = [asked.headers["Idempotency-Key"] for asked in script.asked if asked.method == "POST"]
    assert keys == [f"ci-key-number-{n}" for n in range(used)]
    assert found.state == states[used - 1]
    assert len(lines) == used - 1


async def test_a_refusal_ends_the_job() -> None:
    client, at = job(Script({f"POST {COMMANDS}": [problem(403, "Forbidden", "a viewer commands nothing")]}), [])
    async with client:
        with pytest.raises(problems.Forbidden, match="a viewer commands nothing"):
            await at.submit(commands.submit("x", agent="shell"), ["ci-key-number-1"])
