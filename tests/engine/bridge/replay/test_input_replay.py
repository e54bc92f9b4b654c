"""A recorded log of inputs produces the same lane and the same effects again, byte for byte."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.conversation import OWNER, Table, remember, turn_uuid
from interlock.backends.memory.transcripts import MemoryTranscripts
from interlock.command.policy.policy import Rule, RuleSet
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.engine.bridge.inputs.runner import (
    AgentReported,
    FrameRun,
    FramesReceived,
    RunnerAttached,
    RunnerDetached,
)
from interlock.engine.bridge.replay.input_log import LaneDecision, LaneStart, canonical_state, read_log, write_log
from interlock.engine.bridge.replay.input_recorder import InputRecorder, LaneLog
from interlock.engine.bridge.replay.input_replay import replay
from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import Direction, decode, encode
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Target

pytestmark = pytest.mark.anyio
STEPS = ("execute", "opens", "starts", "asks", "grants", "denies", "is denied", "result", "text", "ends", "cancels",
         "pauses", "resumes", "confirms", "leaves", "returns", "waits", "heartbeat", "repeats", "patches", "closes",
         "restarts")
ASK = RuleSet([Rule(name="ask", effect="ask", door="tool")])


class Session:
    """One session that a person and a runner drive, each step as far as it fits."""

    def __init__(self, recorder: InputRecorder, transcripts: Any = None) -> None:
        self.table = Table(ASK, decide=recorder.decide, transcripts=transcripts)
        self.session_id = ""
        self.command_id = ""
        self.invocation = 0
        self.last_sent: tuple[Frame, bytes] | None = None

    async def step(self, name: str) -> None:
        """Do a step; refused and invalid ones are a part of the session too."""
        with contextlib.suppress(Problem):
            await self._step(name)

    async def _step(self, name: str) -> None:
        table, session_id = self.table, self.session_id
        if not session_id or name == "execute":
            target = Target(session_id=session_id) if session_id else Target(agent_id="shell")
            command = await table.execute(f"do {name}", target=target)
            self.command_id, self.session_id = command.id, command.target.session_id
            return
        turn, invocation = turn_uuid("t1"), f"i{self.invocation}"
        match name:
            case "opens":
                await table.opened(session_id)
            case "starts" if "control.prompt.request" in table.wire.types():
                await table.started(session_id)
            case "asks":
                self.invocation += 1
                await table.asked(session_id, f"ls {self.invocation}", invocation=f"i{self.invocation}")
            case "grants" | "denies":
                pending = await table.ledger.live_approvals(session_id, "default")
                for record in pending[:1]:
                    await table.vote(record.approval.id, "grant" if name == "grants" else "deny")
            case "is denied":
                await table.resolved(session_id, "denied", invocation)
            case "result":
                await table.result(session_id, "x" * self.invocation, invocation=invocation)
            case "text":
                await table.send(session_id, "agent.text.done", p.TextDone(
                    turn_id=turn, block_id="b", text="It is done."))
            case "ends":
                await table.ended(session_id)
            case "cancels":
                await table.cancel(self.command_id)
            case "pauses" | "resumes":
                await table.order(name[:-1], self.command_id)
            case "patches":
                await table.engine.sessions.patch(OWNER, session_id, {"label": f"label {self.invocation}"}, remember)
            case "closes":
                await table.engine.sessions.close(OWNER, session_id, "enough", remember)
            case "restarts":
                await table.restart()
            case _:
                await self._link(name)

    async def _link(self, name: str) -> None:
        table = self.table
        shell = await table.lane(self.session_id)
        state = shell.lane.state
        match name:
            case "confirms":
                await table.confirm(self.session_id, state.control_seq)
            case "leaves":
                shell.drop_link()
                await shell.call(RunnerDetached())
            case "returns":
                known = p.HelloSession(session_id=self.session_id, last_seq_sent=state.last_seq, state="idle",
                                       control_seq=state.control_seq)
                await shell.attach(table.wire, RunnerAttached(state.control_acked, table.hello.agents[0], known))
            case "waits":
                table.clock.advance(30_000)
                await shell.call(ClockTicked())
            case "heartbeat":
                await shell.call(AgentReported(is_live=False))
            case "repeats":
                # A runner that lost its outbox sends a frame again under the next number.
                events = await table.ledger.events("default", f"s/{self.session_id}", 0, 1_000)
                last = [decode(event.body, Direction.C) for event in events if event.kind == "C"][-1:]
                for frame in last:
                    again = encode(Frame(type=frame.type, payload=frame.payload, message_id=frame.message_id,
                                         session_id=frame.session_id, seq=state.last_seq + 1, timestamp=""))
                    table.seqs[self.session_id] = state.last_seq + 1
                    await shell.call(FramesReceived(state.last_seq, FrameRun([(decode(again, Direction.C), again)])))


async def driven(steps: list[str], transcripts: Any = None) -> InputRecorder:
    recorder = InputRecorder()
    session = Session(recorder, transcripts)
    for name in ["execute", *steps]:
        await session.step(name)
    await session.table.engine.stop()
    return recorder


def replayed(log: LaneLog) -> list[str]:
    """Replay a log as it is read from its file; returns which decisions came out otherwise."""
    lines = read_log(write_log(log.lines))
    return [f"{at}: {[type(one).__name__ for one in made.decision.inputs]}" for at, made in enumerate(replay(lines))
            if not made.same]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=30))
def test_a_recorded_session_is_replayed_to_the_same_state_byte_for_byte(steps: list[str]) -> None:
    recorder = asyncio.run(driven(steps))
    assert recorder.logs
    for log in recorder.logs:
        assert replayed(log) == []


WHOLE = ["opens", "starts", "asks", "grants", "result", "text", "repeats", "restarts", "asks", "denies", "result",
         "ends", "execute", "starts", "leaves", "waits", "returns", "cancels", "ends", "patches", "closes"]


async def test_a_long_session_with_a_transcript_and_a_restart_within_its_turn_is_replayed() -> None:
    recorder = await driven(WHOLE, MemoryTranscripts())
    assert sum(len(log.decisions) for log in recorder.logs) > len(WHOLE)
    for log in recorder.logs:
        assert replayed(log) == []
        *_, last = replay(log.lines)
        assert last.state == canonical_state(last.lane)
    again = [log.lines[0] for log in recorder.logs][-1]
    assert isinstance(again, LaneStart)


async def test_a_log_reveals_an_engine_that_decides_differently() -> None:
    recorder = await driven(["opens", "starts", "ends"])
    log = recorder.logs[0]
    late = [msgspec.structs.replace(line, now_ms=line.now_ms + 1) if isinstance(line, LaneDecision) else line
            for line in log.lines]
    assert not all(made.same for made in replay(late))
