"""Programs that an agent's processes start: policy and approvers decide on each as on a tool call (H-16).

The supervisor holds the processes (`box.gate`); this module handles its lines in the runner.
"""

from __future__ import annotations

import asyncio
import binascii
import posixpath
import shlex
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from interlock.ports.agent import AgentQuestion, InteractionAnswer, Option
from interlock.ports.process import Decision, HeldProgram, Programs, StartedBelow
from interlock.protocol.codes import Code
from interlock.protocol.hold import BELOW, PROGRAM
from interlock.runner.journal import Journal

TOOL = KIND = PROGRAM
"""Name and kind of the tool call for a program's start; no agent's own call has this kind."""
ONCE, NO = "start", "deny"
MAX_OUTSIDE = 20
"""Command lines outside of a turn that are reported, each once; later ones are refused without a report."""
OPTIONS = [
    Option(ONCE, "Start it", "allow_once"),
    Option(BELOW, "Start it, and let it start any program", "allow_once"),
    Option(NO, "Do not start it", "reject_once"),
]


class ProgramLines:
    """The supervisor's lines about held programs, as calls. `send` answers the supervisor."""

    def __init__(self, programs: Programs, send: Callable[[bytes], None]) -> None:
        self._programs = programs
        self._send = send
        self._asked: dict[int, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, words: list[str]) -> None:
        """Handle one line, split into words."""
        match words:
            case ["P", token, encoded]:
                number, task = int(token), asyncio.create_task(self._ask(int(token), held_program(encoded)))
                self._asked[number] = task
                task.add_done_callback(lambda _: self._asked.pop(number, None))
            case ["V", token]:
                if (question := self._asked.get(int(token))) is not None:
                    question.cancel()
                self._keep(self._programs.ended(int(token), None))
            case ["X", token, encoded]:
                self._keep(self._programs.ended(int(token), started_below(encoded)))
            case ["M", token, encoded]:
                self._keep(self._programs.other(int(token), _fields(encoded)))
            case ["N", encoded]:
                self._keep(self._programs.refused(_fields(encoded)[0].decode()))
            case _:
                raise ValueError(f"The supervisor sent {words!r}, which has no meaning.")

    def close(self) -> None:
        """Cancel all questions: the supervisor is gone, and every process with it."""
        for task in list(self._asked.values()):
            task.cancel()

    async def _ask(self, token: int, program: HeldProgram) -> None:
        decision: Decision = "no"
        try:
            decision = await self._programs.ask(token, program)
        finally:
            self._send(f"A {token} {decision}\n".encode())

    def _keep(self, coroutine: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class NoPrograms:
    """Refuses every program."""

    async def ask(self, token: int, program: HeldProgram) -> Decision:
        """Return a no."""
        return "no"

    async def ended(self, token: int, below: StartedBelow | None) -> None: ...

    async def other(self, token: int, ran: tuple[bytes, ...]) -> None: ...

    async def refused(self, why: str) -> None: ...


class AsksAboutPrograms(Protocol):
    """The part of a turn that programs need."""

    async def announce_program(self, invocation_id: str, input_json: bytes, title: str) -> None:
        """Write the tool call."""
        ...

    async def ask_program(self, question: AgentQuestion) -> InteractionAnswer:
        """Ask, and wait; return a no after a cancel."""
        ...

    async def end_program(self, invocation_id: str, output: str | None, *, started: bool) -> None:
        """Write the tool call's result."""
        ...


class ProgramDesk:
    """Asks about the programs of one session's agent. Outside of a turn no command runs that could be asked about: no
    program starts."""

    def __init__(self, journal: Journal, turn: Callable[[], AsksAboutPrograms | None]) -> None:
        self._journal = journal
        self._turn = turn
        self._outside: set[str] = set()
        self._calls: dict[int, tuple[AsksAboutPrograms, str]] = {}

    async def ask(self, token: int, program: HeldProgram) -> Decision:
        """Ask, and wait without a limit. Any error on the way is a no (A-5)."""
        turn = self._turn()
        if turn is None:
            line = command_line(program._replace(name=program.path))
            if line not in self._outside and len(self._outside) < MAX_OUTSIDE:
                self._outside.add(line)
                await self.refused(f"{line}: the agent works on no command. If it needs this program then, name it in "
                                   "`between_turns` of the agent's box")
            return "no"
        invocation_id = f"program-{self._journal.new_uuid()}"
        question = program_question(program, invocation_id)
        await turn.announce_program(invocation_id, question.input_json, command_line(program))
        answer = await turn.ask_program(question)
        if not answer.allow:
            await turn.end_program(invocation_id, None, started=False)
            return "no"
        self._calls[token] = turn, invocation_id
        return "below" if answer.option_id == BELOW else "once"

    @property
    def is_idle(self) -> bool:
        """Return whether the agent works on no command."""
        return self._turn() is None

    async def ended(self, token: int, below: StartedBelow | None) -> None:
        """Close an allowed program's tool call with the programs that started below it."""
        turn, invocation_id = self._calls.pop(token, (None, ""))
        if turn is not None:
            output = summary(below) if below is not None and below.total else None
            await turn.end_program(invocation_id, output, started=below is not None)

    async def other(self, token: int, ran: tuple[bytes, ...]) -> None:
        """Report a program that was killed because another one was allowed (H-3)."""
        words = " ".join(shlex.quote(word.decode("utf-8", "backslashreplace")) for word in ran)
        await self._error(Code.RAN_OTHER_THAN_ALLOWED,
                          f"Another program than the allowed one was about to run, and was killed: {words}")

    async def refused(self, why: str) -> None:
        """Report a start that was refused without a question."""
        turn = self._journal.state.turn
        await self._journal.write(self._journal.agent_error(
            "warning", Code.UNSUPPORTED_CAPABILITY, f"Interlock refused to start {why}.",
            turn.turn_id if turn is not None else None))

    async def _error(self, code: Code, sentence: str) -> None:
        turn = self._journal.state.turn
        await self._journal.write(self._journal.agent_error(
            "error", code, sentence, turn.turn_id if turn is not None else None))


def program_question(program: HeldProgram, invocation_id: str) -> AgentQuestion:
    """Return the question whether a program may start."""
    return AgentQuestion(invocation_id, TOOL, TOOL, program_input(program), OPTIONS, KIND)


def program_input(program: HeldProgram) -> bytes:
    """Return the subject's input as JSON: it contains the whole argument vector. Pure.

    `command` has the program (by its name if the agent's PATH finds it there, else its path) and its arguments. `env`
    are variables that change what it does, `argv0` is its argument zero if that differs, `mount_namespace` is present
    if its process sees other files than the agent was started with, and the members in base64 have the exact bytes of
    what is not UTF-8, which `command` and `env` show escaped.
    """
    first = program.name
    found: dict[str, Any] = {"command": [_text(word) for word in (first, *program.argv[1:])],
                             "cwd": _text(program.directory)}
    if program.environment:
        pairs = [one.partition(b"=") for one in program.environment]
        found["env"] = {_text(name): _text(value) for name, _, value in pairs}
    if program.own_view:
        found["mount_namespace"] = "its own: a path may be another file than elsewhere"
    called = program.argv[0] if program.argv else b""
    if posixpath.basename(called).removeprefix(b"-") != posixpath.basename(program.path):
        found["argv0"] = _text(called)
    exact = {"argv_base64": (program.path, program.directory, *program.argv), "env_base64": program.environment}
    for name, parts in exact.items():
        if not all(map(_is_utf8, parts)):
            found[name] = [binascii.b2a_base64(part, newline=False).decode() for part in parts]
    return msgspec.json.encode(found)


def command_line(program: HeldProgram) -> str:
    """Return a program as a shell command line. Pure."""
    return shlex.join([_text(word) for word in (program.name, *program.argv[1:])])


def summary(below: StartedBelow) -> str:
    """Return the programs started below an allowed one, in one line and a digest."""
    named = ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in below.names)
    programs = "1 program" if below.total == 1 else f"{below.total} programs"
    return f"{programs} started below it: {named}\nsha256 of their argument vectors, in order: {below.digest}"


def held_program(encoded: str) -> HeldProgram:
    """Decode the supervisor's data about a held program."""
    path, directory, name, own_view, number, *rest = _fields(encoded)
    variables = int(number)
    return HeldProgram(path, directory, name, tuple(rest[:variables]), tuple(rest[variables:]), own_view == b"1")


def started_below(encoded: str) -> StartedBelow:
    """Decode the supervisor's data about an allowed program that ended."""
    total, digest, *pairs = _fields(encoded)
    names = tuple((_text(name), int(often)) for name, often in zip(pairs[::2], pairs[1::2], strict=True))
    return StartedBelow(int(total), digest.decode(), names)


def _fields(encoded: str) -> tuple[bytes, ...]:
    return tuple(binascii.a2b_base64(encoded).split(b"\0"))


def _text(part: bytes) -> str:
    return part.decode("utf-8", "backslashreplace")


def _is_utf8(part: bytes) -> bool:
    try:
        part.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
