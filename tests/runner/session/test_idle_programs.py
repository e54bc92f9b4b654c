"""Programs that an agent's box names start between turns, recorded, and no other one does (H-16)."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.ports.agent import InteractionAnswer
from interlock.ports.process import HeldProgram
from interlock.runner.journal import Journal
from interlock.runner.process.programs import ProgramDesk
from interlock.runner.session.idle_programs import MAX_REPORTED, IdlePrograms
from interlock.runner.session_state import SessionState
from runner.process.test_programs import Turn, program
from runner.turn.test_turn_writer import FrameRecorder

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-16")]


class Session:
    """A session whose box names programs; `turn` is the one that is open, if any."""

    def __init__(self, *entries: str) -> None:
        self.kept = FrameRecorder()
        self.turn: Any = None
        journal = Journal("s-1", SessionState(), self.kept, ManualClock(), secrets.token_bytes)
        program_desk = ProgramDesk(journal, lambda: self.turn)
        self.programs = IdlePrograms(entries, program_desk, journal, lambda: program_desk.is_idle)

    async def starts(self, held: HeldProgram) -> bool:
        return await self.programs.ask(1, held) != "no"

    @property
    def reported(self) -> list[str]:
        return [frame.payload.error_code for frame in self.kept.frames]


async def test_a_named_program_starts_with_more_arguments_and_others_do_not() -> None:
    session = Session("git status", "/opt/agent/bin/codex app-server")
    git, codex = program(b"git", b"status", b"-s"), program(b"codex", b"app-server", path=b"/opt/agent/bin/codex")

    assert await session.starts(git)
    assert await session.starts(codex._replace(name=b"codex"))
    assert not await session.starts(program(b"git", b"push"))
    assert not await session.starts(program(b"git"))
    assert not await session.starts(program(b"codex", b"app-server"))
    assert session.reported == ["STARTED_BETWEEN_TURNS"] * 2 + ["UNSUPPORTED_CAPABILITY"] * 3


async def test_a_name_means_the_program_on_path_and_not_one_of_the_repository() -> None:
    session = Session("git")

    assert not await session.starts(program(b"git", name=b"/srv/git", path=b"/srv/git"))
    assert not await session.starts(program(b"git")._replace(own_view=True))
    assert await session.starts(program(b"git", environment=(b"PATH=/opt",)))
    assert session.kept.frames[-1].payload.message.endswith("names it. It has its own PATH.")


async def test_in_a_turn_a_named_program_needs_a_decision_too() -> None:
    session = Session("ls")
    session.turn = Turn(InteractionAnswer(False, "deny"))

    assert not await session.starts(program(b"ls"))
    assert [what for what, *_ in session.turn.written] == ["announced", "asked", "ended"]


async def test_a_repeated_line_is_reported_once_and_all_lines_are_bounded() -> None:
    session = Session("ls")
    for number in range(MAX_REPORTED + 5):
        assert await session.starts(program(b"ls", str(number).encode()))
        assert await session.starts(program(b"ls", str(number).encode()))
    assert len(session.reported) == MAX_REPORTED
