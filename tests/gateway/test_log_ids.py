"""Ids in a line of the log: tenant, session, command and frame, at the gateway and at the runner (N-3)."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from gateway.raw_runner import Server
from interlock import log
from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.objects import MemoryObjects
from interlock.backends.memory.outbox import MemoryOutbox
from interlock.command.policy.policy import PolicySubject, PolicyVerdict, RuleSet
from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.limits import OUTBOX_BYTES
from interlock.runner.link.inbound import Inbound
from interlock.runner.link.outflow import Outflow

TURN = "7d444840-9dc0-41d5-bff0-12c3f7b6a5e1"
pytestmark = pytest.mark.anyio


class Broken(RuleSet):
    """Rules that no one can ask."""

    def decide(self, subject: PolicySubject) -> PolicyVerdict:
        raise RuntimeError(f"no word on {subject.tool_name}")


@pytest.fixture
def lines(tmp_path: Path, logs_as_before: None) -> Iterator[Any]:
    file = log.configure(tmp_path / "log")
    yield lambda: [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    file.close()


async def test_a_log_line_about_a_frame_names_tenant_session_command_and_frame(lines: Any) -> None:
    server = Server()
    await server.pair()
    async with server.session() as (runner, session_id, command_id):
        runner.send("session.turn.start", p.TurnStart(turn_id=TURN, turn_index=0), session_id=session_id, seq=2,
                    metadata={"prompt_id": command_id})
        server.engine.policy = Broken()
        asked = {"interaction_id": "x", "interaction_type": "PERMISSION", "title": "ls",
                 "context": {"tool_name": "shell", "input": {"a": 1}}}
        runner.send("agent.interaction.request", asked, session_id=session_id, seq=3)
        async with asyncio.timeout(10):
            while (await runner.next())["type"] != "websocket.close":
                pass  # The lane breaks, and its link with it.
    [failure] = [line for line in lines() if line["event"] == "lane failed"]
    assert (failure["tenant_id"], failure["session_id"], failure["command_id"], failure["seq"]) == (
        "default", session_id, command_id, 3)
    assert failure["message_id"].startswith("r")
    [attached] = [line for line in lines() if line["event"] == "runner attached"]
    assert (attached["tenant_id"], attached["runner_id"]) == ("default", "local")


async def test_a_runners_log_lines_name_the_session_and_the_requesting_frame() -> None:
    bound: list[dict[str, Any]] = []
    outbox = MemoryOutbox()
    flow = Outflow(outbox, clock=ManualClock(), entropy=secrets.token_bytes, outbox_bytes=OUTBOX_BYTES)
    flowing = asyncio.create_task(flow.run())
    given = asyncio.Event()

    async def control(*_: Any) -> None:
        bound.append(structlog.contextvars.get_contextvars())
        given.set()

    inbound = Inbound(outbox, MemoryObjects(), flow, ManualClock(), secrets.token_bytes, control)
    inbound.join("gw_1")
    frame = Frame(type="control.session.close", payload=p.SessionClose(reason="over"), message_id="m-7",
                  session_id="s-1", seq=1, timestamp="")
    await inbound.take([encode(frame)])
    async with asyncio.timeout(10):
        await given.wait()
    await inbound.close()
    flowing.cancel()
    assert bound == [{"session_id": "s-1", "message_id": "m-7", "seq": 1}]
    assert structlog.contextvars.get_contextvars() == {}, "and nobody else's lines do"
