"""The question about a program that an agent's process starts (H-16)."""

from __future__ import annotations

import asyncio
import binascii
import json
import secrets

import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.command.facts.request import AgentRequest, facts
from interlock.command.policy.policy import Rule, RuleSet
from interlock.command.policy.rule import PolicySubject
from interlock.engine.bridge.approvals.policy_subjects import request_subject
from interlock.ports.agent import AgentQuestion, InteractionAnswer
from interlock.ports.process import Decision, HeldProgram, StartedBelow
from interlock.runner.journal import Journal
from interlock.runner.process.programs import (
    MAX_OUTSIDE,
    ProgramDesk,
    ProgramLines,
    command_line,
    program_input,
    summary,
)
from interlock.runner.session_state import SessionState
from runner.turn.test_turn_writer import FrameRecorder

pytestmark = pytest.mark.anyio


def program(*argv: bytes, name: bytes = b"", path: bytes = b"", environment: tuple[bytes, ...] = ()) -> HeldProgram:
    return HeldProgram(path or b"/usr/bin/" + argv[0], b"/srv", name or argv[0], environment, argv)


def subject(held: HeldProgram) -> PolicySubject:
    return request_subject(
        AgentRequest(program_input(held), "/srv"), "", tenant_id="t", agent_id="a", origin="user", permission="never",
        at_ms=0, tool_name="program", tool_kind="program")


@pytest.mark.req("H-16")
def test_the_subject_is_the_whole_argument_vector() -> None:
    assert json.loads(program_input(program(b"ls", b"-l", "é\n".encode(), b""))) == {
        "command": ["ls", "-l", "é\n", ""], "cwd": "/srv"}
    assert command_line(program(b"ls", b"a b")) == "ls 'a b'"


@pytest.mark.req("H-16")
def test_bytes_that_are_not_text_are_shown_escaped_and_bound_exactly() -> None:
    escaped, spelled = program(b"rm", b"\xff"), program(b"rm", b"\\xff")
    shown = json.loads(program_input(escaped))

    assert shown["command"] == ["rm", "\\xff"] == json.loads(program_input(spelled))["command"]
    assert binascii.a2b_base64(shown["argv_base64"][-1]) == b"\xff"
    assert program_input(escaped) != program_input(spelled)


@pytest.mark.req("H-16")
def test_a_command_rule_covers_only_the_program_on_path() -> None:
    policy = RuleSet([Rule(name="look", effect="allow", door="tool", words="ls **")])

    def effect(held: HeldProgram) -> str:
        return policy.decide(subject(held)).effect

    assert effect(program(b"ls", b"-l", b"src")) == "allow"
    assert effect(program(b"ls", name=b"/srv/ls", path=b"/srv/ls")) == "ask"
    assert effect(program(b"rm", name=b"ls", path=b"/bin/ls")) == "ask"
    assert effect(program(b"ls", b"\xff")) == "ask"
    assert effect(program(b"ls", environment=(b"LD_PRELOAD=/tmp/x.so",))) == "ask"
    assert effect(program(b"ls", b"/etc/shadow")) == "ask"
    assert effect(program(b"ls", b"-l")._replace(own_view=True)) == "ask"
    assert facts(AgentRequest(program_input(program(b"-ls", path=b"/bin/ls", name=b"ls")), "/srv")).beside == ()


@pytest.mark.req("H-16")
def test_only_an_explicit_rule_covers_programs_that_a_program_starts() -> None:
    plain = Rule(name="make", effect="allow", door="tool", words="make -s")
    wide = Rule(name="builds", effect="allow", door="tool", words="make -s", below=True)

    assert RuleSet([plain]).decide(subject(program(b"make", b"-s"))).below is False
    assert RuleSet([wide]).decide(subject(program(b"make", b"-s"))).below is True
    with pytest.raises(ValueError, match="below: it lets an allowed program start others"):
        Rule(name="no", effect="deny", words="make -s", below=True)


class Turn:
    """A turn with scripted answers that records the written frames."""

    def __init__(self, answer: InteractionAnswer) -> None:
        self.answer = answer
        self.written: list[tuple[object, ...]] = []

    async def announce_program(self, invocation_id: str, input_json: bytes, title: str) -> None:
        self.written.append(("announced", title))

    async def ask_program(self, question: AgentQuestion) -> InteractionAnswer:
        self.written.append(("asked", question.kind, [option.option_id for option in question.options]))
        return self.answer

    async def end_program(self, invocation_id: str, output: str | None, *, started: bool) -> None:
        self.written.append(("ended", output, started))


@pytest.mark.req("H-16")
@pytest.mark.parametrize(("answer", "decision"), [
    (InteractionAnswer(True, "start"), "once"), (InteractionAnswer(True, "below"), "below"),
    (InteractionAnswer(False, "deny"), "no"),
    (InteractionAnswer(False, "below"), "no"),
])
async def test_an_answer_becomes_a_decision(answer: InteractionAnswer, decision: Decision) -> None:
    turn = Turn(answer)

    class Ids:
        def new_uuid(self) -> str:
            return "1"

    asks = ProgramDesk(Ids(), lambda: turn)  # type: ignore[arg-type]
    assert await asks.ask(1, program(b"ls", b"-l")) == decision
    await asks.ended(1, StartedBelow(2, "ab", (("cc", 2),)))

    ended = ("ended", summary(StartedBelow(2, "ab", (("cc", 2),))), True) if answer.allow else ("ended", None, False)
    assert turn.written == [("announced", "ls -l"), ("asked", "program", ["start", "below", "deny"]), ended]


@pytest.mark.req("H-16")
async def test_outside_a_turn_no_program_starts_and_the_first_ones_are_reported() -> None:
    kept = FrameRecorder()
    asks = ProgramDesk(Journal("s-1", SessionState(), kept, ManualClock(), secrets.token_bytes), lambda: None)
    numbers = [str(number).encode() for number in range(MAX_OUTSIDE + 5)]
    decisions = [await asks.ask(1, program(b"ls", number)) for number in numbers for _ in range(2)]

    assert set(decisions) == {"no"}
    assert len(kept.frames) == MAX_OUTSIDE
    assert "Interlock refused to start /usr/bin/ls 0: the agent works on no command." in kept.frames[0].payload.message


class Slow:
    """Decides only on request."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.seen: list[object] = []

    async def ask(self, token: int, program: HeldProgram) -> Decision:
        self.seen.append(program)
        await self.go.wait()
        return "below"

    async def ended(self, token: int, below: StartedBelow | None) -> None:
        self.seen.append(below)

    async def other(self, token: int, ran: tuple[bytes, ...]) -> None:
        self.seen.append(ran)

    async def refused(self, why: str) -> None:
        self.seen.append(why)


def encoded(*parts: bytes) -> str:
    return binascii.b2a_base64(b"\0".join(parts), newline=False).decode()


@pytest.mark.req("H-16")
async def test_supervisor_lines_become_questions_and_a_vanished_process_a_denial() -> None:
    slow, sent = Slow(), list[bytes]()
    lines = ProgramLines(slow, sent.append)
    held = encoded(b"/bin/ls", b"/", b"ls", b"0", b"1", b"LD_X=1", b"ls", b"", b"\xff")
    lines.take(["P", "1", held])
    lines.take(["P", "2", held])
    await asyncio.sleep(0)
    lines.take(["V", "1"])
    await asyncio.sleep(0)
    slow.go.set()
    lines.take(["X", "2", encoded(b"3", b"ff", b"cc", b"2", b"ld", b"1")])
    for _ in range(5):
        await asyncio.sleep(0)

    assert slow.seen[0] == HeldProgram(b"/bin/ls", b"/", b"ls", (b"LD_X=1",), (b"ls", b"", b"\xff"))
    assert sent == [b"A 1 no\n", b"A 2 below\n"]
    assert slow.seen[2:] == [None, StartedBelow(3, "ff", (("cc", 2), ("ld", 1)))]
