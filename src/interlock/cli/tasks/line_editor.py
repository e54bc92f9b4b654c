"""The editor of `interlock chat`: one input line below the conversation, for messages and for answers (Y-7).

Output that is printed while the editor is open appears above it, in complete lines; an incomplete line is shown as a
part of the editor until it ends.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.patch_stdout import StdoutProxy

from interlock.cli.approvals.approval_prompt import Answers

PROMPT = "> "
CONTINUATION = "  "
STATUS_EVERY_S = 0.5
MAX_HISTORY_BYTES = 1_000_000
"""A larger history begins empty."""


class EditedLines(Answers):
    """Lines that a person edits. `words` are the chat's own commands, completed by Tab; `interrupt` is called for
    Ctrl-C on an empty line, `unfold` for Ctrl-O; `status` returns the row below the input, "" for none."""

    def __init__(
        self, history: Path, words: Sequence[str], interrupt: Callable[[], None], status: Callable[[], str],
        *, unfold: Callable[[], None] | None = None, **terminal: Any,
    ) -> None:
        self._interrupt = interrupt
        self._unfold = unfold
        self._question: str | None = None
        self._draft = Document()
        self._output = _LinesAbove(raw=True)
        self._status = status
        self._session: PromptSession[str] = PromptSession(
            history=_Messages(history, lambda: self._question is None), completer=_Words(words),
            complete_while_typing=False, key_bindings=self._keys(), multiline=True, prompt_continuation=CONTINUATION,
            enable_open_in_editor=True, enable_suspend=True, **terminal)

    async def line(self, question: str = "") -> str | None:
        """Wait for an entry, which may have several lines; None at Ctrl-D or the end of the terminal."""
        if question:
            self.show_question(question)
        draft = self._take_draft() if self._question is None else Document()
        redrawing = asyncio.create_task(self._redraw())
        try:
            return await self._session.prompt_async(self._message, default=draft)
        except EOFError:
            return None
        finally:
            redrawing.cancel()

    async def _redraw(self) -> None:
        """Redraw the row below the input while there is one; nothing is written to an idle terminal."""
        while True:
            status = self._status() or None
            if status != self._session.bottom_toolbar:
                self._session.bottom_toolbar = status
                self._session.app.invalidate()
            await asyncio.sleep(STATUS_EVERY_S)

    def show_question(self, question: str | None) -> None:
        """Show a question in place of the prompt. An unfinished message is saved, and restored after the answer."""
        buffer = self._session.default_buffer
        was_asked, self._question = self._question is not None, question
        if self._session.app.is_running and was_asked != (question is not None):
            if was_asked:
                buffer.set_document(self._take_draft())
            else:
                self._draft = buffer.document
                buffer.reset()
        self._session.app.invalidate()

    def _take_draft(self) -> Document:
        draft, self._draft = self._draft, Document()
        return draft

    @contextmanager
    def below_output(self) -> Generator[None]:
        """Print above the editor all that is written to standard output and standard error."""
        before = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = (cast("TextIO", _Stream(self._output)) for _ in before)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before
            self._output.close()

    def _message(self) -> AnyFormattedText:
        partial = self._output.partial()
        return ANSI((partial + "\n" if partial else "") + (self._question or PROMPT))

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        @keys.add("escape", "enter")
        @keys.add("escape", "c-j")  # While a line is printed above the editor, the terminal converts Alt-Enter to this.
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        @keys.add(Keys.SIGINT)  # While a line is printed above the editor, the terminal converts the key to a signal.
        def _(event: KeyPressEvent) -> None:
            if event.current_buffer.text:
                event.current_buffer.reset()
            else:
                self._interrupt()

        @keys.add("c-o")
        def _(_: KeyPressEvent) -> None:
            if self._unfold is not None:
                self._unfold()

        return keys


class _LinesAbove(StdoutProxy):
    """Standard output and error while the editor is open. An incomplete line is held back: drawing the editor would
    erase text that precedes it on the same row."""

    def partial(self) -> str:
        """Return the line that has not ended."""
        with self._lock:
            return "".join(self._buffer)

    def flush(self) -> None:
        """Show the line that has not ended, as a part of the editor."""
        with suppress(AttributeError):
            self.app_session.app.invalidate()  # pyright: ignore[reportOptionalMemberAccess] - none between two entries

    def close(self) -> None:
        """Write what is held back, and close."""
        if not self.closed:
            super().flush()
        super().close()


class _Stream:
    """Standard output or standard error above the editor. There are two objects, since code that ends a row before it
    switches streams compares them."""

    def __init__(self, above: _LinesAbove) -> None:
        self._above = above

    def __getattr__(self, name: str) -> Any:
        return getattr(self._above, name)


class _Messages(FileHistory):
    """The messages of earlier chats, without answers to questions."""

    def __init__(self, path: Path, keeps: Callable[[], bool]) -> None:
        self._keeps = keeps
        with suppress(OSError):
            path.touch(mode=0o600)
            if path.stat().st_size > MAX_HISTORY_BYTES:
                path.write_bytes(b"")
        super().__init__(str(path))

    def append_string(self, string: str) -> None:
        if self._keeps() and string.strip():
            super().append_string(string)

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


class _Words(Completer):
    """Completes the chat's own commands at the start of a message, and otherwise paths."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Generator[Completion]:
        before = document.text_before_cursor
        last = before.split(" ")[-1].split("\n")[-1]
        if before == last and last.startswith("/"):
            found = [word for word in self._words if word.startswith(last)]
            yield from (Completion(word, -len(last)) for word in found)
            if found:
                return
        yield from self._paths.get_completions(Document(last, len(last)), complete_event)
