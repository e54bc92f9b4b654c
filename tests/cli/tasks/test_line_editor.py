"""The editor of `interlock chat`, on a terminal in memory: drafts, answers, history, Ctrl-C, output above it (Y-7)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from interlock.cli.tasks.line_editor import EditedLines, _LinesAbove

pytestmark = [pytest.mark.anyio, pytest.mark.req("Y-7")]
WORDS = ("/status", "/stop", "/new")


class Chat:
    """An editor and the keys that a person presses."""

    def __init__(self, keys: PipeInput, history: Path) -> None:
        self.keys = keys
        self.interrupts = 0
        self.editor = EditedLines(history, WORDS, self._interrupt, lambda: "", input=keys, output=DummyOutput())
        self.buffer = self.editor._session.default_buffer

    async def typed(self, keys: str) -> str | None:
        """The line that these keys make."""
        self.keys.send_text(keys)
        return await self.editor.line()

    async def holds(self, text: str) -> None:
        """Wait until the editor has this text."""
        while self.buffer.text != text:
            await asyncio.sleep(0)

    def _interrupt(self) -> None:
        self.interrupts += 1


class Recorded(DummyOutput):
    """A terminal that keeps what was written."""

    def __init__(self) -> None:
        self.text = ""

    def write_raw(self, data: str) -> None:
        self.text += data


@asynccontextmanager
async def chat(history: Path) -> AsyncGenerator[Chat]:
    with create_pipe_input() as keys:
        yield Chat(keys, history)


async def test_enter_sends_and_alt_enter_begins_another_row(tmp_path: Path) -> None:
    async with chat(tmp_path / "history") as person:
        assert await person.typed("hello\r") == "hello"
        assert await person.typed("one\x1b\rtwo\r") == "one\ntwo"
        assert await person.typed("one\x1b\ntwo\n") == "one\ntwo"  # As a terminal in line mode sends them.
        assert await person.typed("\x04") is None


async def test_a_pasted_text_of_several_rows_is_one_message(tmp_path: Path) -> None:
    async with chat(tmp_path / "history") as person:
        assert await person.typed("\x1b[200~one\r\ntwo\x1b[201~\r") == "one\ntwo"


async def test_ctrl_c_clears_a_line_first_and_then_ends_the_turn(tmp_path: Path) -> None:
    async with chat(tmp_path / "history") as person:
        assert await person.typed("never sent\x03still here\r") == "still here"
        assert person.interrupts == 0
        assert await person.typed("\x03more\r") == "more"
        assert person.interrupts == 1


async def test_a_question_saves_the_draft_and_restores_it(tmp_path: Path) -> None:
    async with chat(tmp_path / "history") as person:
        line = asyncio.create_task(person.editor.line())
        person.keys.send_text("half a mess")
        await person.holds("half a mess")
        person.editor.show_question("Allow it? ")
        assert person.buffer.text == ""  # What was begun as a message cannot be sent as an answer.
        person.keys.send_text("y\r")
        assert await line == "y"
        person.editor.show_question(None)
        line = asyncio.create_task(person.editor.line())
        await person.holds("half a mess")
        person.keys.send_text("age\r")
        assert await line == "half a message"


async def test_the_history_keeps_messages_privately_and_no_answers(tmp_path: Path) -> None:
    history = tmp_path / "history"
    async with chat(history) as person:
        assert await person.typed("run the tests\r") == "run the tests"
        person.editor.show_question("Allow it? ")
        assert await person.typed("n\r") == "n"
        person.editor.show_question(None)
    assert history.stat().st_mode & 0o777 == 0o600
    async with chat(history) as person:
        assert await person.typed("\x1b[A\r") == "run the tests"


@pytest.mark.parametrize(("typed", "completed"), [
    ("/sta", "/status"), ("read {place}/not", "read {place}/notes.txt"), ("{place}/not", "{place}/notes.txt")])
async def test_tab_completes_commands_at_the_start_and_paths_anywhere(
    tmp_path: Path, typed: str, completed: str
) -> None:
    (tmp_path / "notes.txt").write_text("")
    async with chat(tmp_path / "history") as person:
        line = asyncio.create_task(person.typed(typed.format(place=tmp_path) + "\t"))
        await person.holds(completed.format(place=tmp_path))
        person.keys.send_text("\r")
        assert await line == completed.format(place=tmp_path)


async def test_a_history_that_cannot_be_written_has_no_other_effect(tmp_path: Path) -> None:
    async with chat(tmp_path / "missing" / "history") as person:
        assert await person.typed("hello\r") == "hello"


async def test_a_line_that_has_not_ended_is_held_back_until_it_has() -> None:
    terminal = Recorded()
    with create_app_session(output=terminal):
        above = _LinesAbove(raw=True)
    above.write("whole\nhalf")
    above.flush()
    assert above.partial() == "half"
    above.write(" done\nrest")
    assert above.partial() == "rest"
    above.close()
    assert above.partial() == ""
    assert terminal.text == "whole\nhalf done\nrest"


async def test_standard_streams_are_restored_afterwards(tmp_path: Path) -> None:
    async with chat(tmp_path / "history") as person:
        before = sys.stdout, sys.stderr
        with person.editor.below_output():
            assert sys.stdout is not sys.stderr
            assert sys.stdout not in before
            sys.stdout.write("held")
            assert person.editor._output.partial() == "held"
        assert (sys.stdout, sys.stderr) == before
