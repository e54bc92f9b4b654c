"""A session's frames at the terminal: the result on standard output, all other output on standard error (G-7).

The text of a block is shown once, even if it is sent several times: a viewer that reconnects receives the text so far
again, and the end of a block repeats all of it (E-4, S-1).
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, cast

import msgspec

from interlock.cli.approvals.approval_card import INDENT, rows_of, screen_columns, show
from interlock.cli.display.diff_colours import diffs_of
from interlock.cli.display.fold import Fold
from interlock.cli.display.prose import MarkdownStream, rendered
from interlock.cli.display.terminal import (
    MIN_COLUMNS,
    has_colour,
    is_terminal,
    one_line,
    printable,
    say,
    styled,
    terminal_width,
    write,
)
from interlock.cli.display.values import count
from interlock.command.card.call_words import call_words
from interlock.command.card.lines import CONTEXT_LINES, CardLine, lines
from interlock.command.card.request import ReceivedRequest
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.resources import VERBOSE_NOTICES, Notice
from interlock.session.store.entry import Verbosity

SHELL = "shell"
"""The agent whose tool output is the result, and whose text comments on it."""
AT_WORK = frozenset({"dispatched", "running", "resuming"})
"""The states of a command in which its agent is at work, or is about to be."""
CANCELED = "cancel"
"""The reason of a `control.turn.cancel` that a person requested; other reasons are limits and lost connections."""
MAX_ERRORS = 20
"""The newest errors; they are kept until the end of the command."""
INPUT_CHARS = 300
"""Maximum characters of a tool's input in the stream; an approval's card shows all of it."""

MAX_DIFFED_BYTES = 200_000
"""The change of a larger input is not shown in the stream."""
DIFF_ROWS = 10


class ScreenBlock:
    """How much of a block the screen shows. `text` is None if only its length is known."""

    def __init__(self, shown: int = 0) -> None:
        self.shown = shown
        self.text: str | None = "" if shown == 0 else None

    def news(self, offset: int, text: str) -> str:
        """Add a delta; returns the part of it that is new. Missing text before it is skipped (E-4)."""
        if offset > self.shown:
            self.text = None
            self.shown = offset
        fresh = text[self.shown - offset:]
        self._add(fresh)
        return fresh

    def rest(self, whole: str) -> str | None:
        """Add a block's complete text; returns the part of it that is new, or None if it differs from what was
        shown."""
        if self.text is not None and not whole.startswith(self.text):
            return None
        return whole[self.shown:]

    def _add(self, text: str) -> None:
        self.shown += len(text)
        if self.text is not None:
            self.text += text


class Screen:
    """Shows one session's frames. `agent_id` decides what is a result and what is a remark; `detail` decides what of
    the agent's thoughts and tools is shown (the session's `verboseLevel`, I-4); failures are always shown. On a
    terminal the agent's text is rendered as Markdown, and with `fold` the output of its tools is folded (Y-6)."""

    def __init__(self, agent_id: str, *, quiet: bool = False, detail: Verbosity = "full",
                 fold: bool = True) -> None:
        self._is_shell = agent_id == SHELL
        self._detail: Verbosity = detail
        self._quiet = quiet
        self._blocks: dict[str, ScreenBlock] = {}
        self._tools: dict[str, str] = {}
        self._edits: dict[str, list[CardLine]] = {}
        """The diff of each running tool call that edits files without an approval: an approval's card shows the diff
        itself.
        """
        self._streamed: dict[str, ScreenBlock] = {}
        """Each tool call's complete output, over its channels."""
        self._folds: dict[str, Fold] = {}
        """The output of each tool call, if it is folded."""
        self._last_fold: Fold | None = None
        """The output of the newest ended tool call, if part of it is hidden."""
        self._can_fold = fold and self._detail == "full" and not self._is_shell and is_terminal(sys.stderr)
        self._is_folded = self._can_fold
        self._unfold_hint = "--full"
        """How a person has folded output shown."""
        self._prose = MarkdownStream()
        self._prose_block = ""
        """The text block whose Markdown is being rendered."""
        self._has_markdown = not self._is_shell and not quiet and has_colour(sys.stdout)
        self._is_asking = False
        self._state = "running"
        self._is_canceled = False
        """Whether a person canceled the command, which explains why a tool call ended early."""
        self.tokens = 0
        """Tokens of the turn, as far as the agent reported them."""
        self._open: TextIO | None = None
        """The stream whose last line is incomplete."""
        self._errors: deque[tuple[str, str]] = deque(maxlen=MAX_ERRORS)
        """Errors (message, line), which usually are also the reason for the end of the command."""
        self._show: dict[type[p.Payload], Callable[[Any], None]] = {
            p.ToolRequest: self._tool_request, p.ToolStream: self._tool_stream, p.ToolResult: self._tool_result,
            p.InteractionRequest: self._asked,
            p.AgentError: self._agent_error, p.SessionError: self._session_error, p.FileTransfer: self._file,
            p.Usage: self._usage, p.TurnCancel: self._turn_cancel,
        }

    def hint_unfold(self, hint: str) -> str:
        """Show `hint` as the way to unfold output; returns the previous hint."""
        before, self._unfold_hint = self._unfold_hint, hint
        return before

    # --- what was shown ---
    def shown(self) -> dict[str, int]:
        """Return how much of each open block is on the screen."""
        left = {self._prose_block: self._prose.pending}
        return {name: block.shown - left.get(name, 0) for name, block in self._blocks.items()
                if block.shown > left.get(name, 0)}

    def restore(self, shown: dict[str, int]) -> None:
        """Continue from what an earlier terminal showed."""
        self._blocks = {name: ScreenBlock(length) for name, length in shown.items()}

    def current_tool(self) -> str:
        """Return the name of the newest tool call that has not ended, "" for none."""
        return next(reversed(self._tools.values()), "")

    def enter(self, state: str) -> None:
        """Set the state of the command (CommandState)."""
        self._state = state

    def status_word(self) -> str:
        """Return the activity of the command in a word: `working`, or the state in which it waits."""
        return "working" if self._state in AT_WORK else self._state.replace("_", " ")

    def toggle_fold(self) -> None:
        """Unfold the output of the running tool call, otherwise of the newest, and stop folding; or fold again."""
        if not self._can_fold or self._is_asking or self._quiet:
            return
        self._is_folded = not self._is_folded
        if self._is_folded:
            self.remark("output is folded again")
            return
        folds = [fold for fold in self._folds.values() if fold.hidden_lines]
        if not folds and self._last_fold is not None:
            folds = [self._last_fold]
            self.remark("the newest folded output continues:")
        self._folds.clear()
        self._last_fold = None
        for fold in folds:
            text, whole = fold.unfolded()
            self._write(sys.stderr, text, dim=True)
            if not whole:
                self.remark(f"{INDENT}… the rest is no longer kept here (interlock attach --from-start --full)")

    @property
    def is_free(self) -> bool:
        """Return whether the last row is empty, so that a line may be shown in it temporarily."""
        return self._open is None and not self._is_asking and not self._quiet

    @contextmanager
    def asking(self) -> Generator[None]:
        """Hand the terminal over to a question."""
        self.end_line()
        self._is_asking = True
        try:
            yield
        finally:
            self._is_asking = False

    # --- frames ---
    def frame(self, frame_type: str, payload: p.Payload) -> None:
        """Show a frame; a frame that is not meant for people is skipped."""
        if frame_type in ("agent.text.delta", "agent.thinking.delta"):
            self._delta(frame_type, cast("p.TextDelta", payload))
        elif frame_type in ("agent.text.done", "agent.thinking.done"):
            self._done(frame_type, cast("p.TextDone", payload))
        elif show := self._show.get(type(payload)):
            show(payload)

    def notice(self, notice: Notice) -> None:
        """Show a notice: lost events are counted and reported."""
        if notice.code in VERBOSE_NOTICES:
            if self._detail != "off":
                self.remark(notice.message)
            return
        lost = f" ({count(notice.lost_frame_count, 'frame')} lost)" if notice.lost_frame_count else ""
        self.remark(f"notice[{notice.code}]: {notice.message}{lost}", "bold", f"notice[{notice.code}]:")

    def remark(self, text: str, style: str | None = "dim", word: str | None = None) -> None:
        """Print a remark on standard error, on a line of its own; `word` is the coloured part."""
        if self._quiet:
            return
        self._end_row()
        say(text, style, word)

    def end_line(self) -> None:
        """Write text that was held back, and end an open line on a terminal; nothing is added to a result in a pipe."""
        self._write_prose(self._prose.rest())
        self._end_row()

    def _end_row(self) -> None:
        if self._open is not None:
            if self._open is sys.stderr or is_terminal(self._open):
                write(self._open, "\n")
            self._open = None

    # --- text ---
    def _delta(self, frame_type: str, delta: p.TextDelta) -> None:
        block = self._blocks.setdefault(delta.block_id, ScreenBlock())
        self._text(frame_type, block.news(delta.offset, delta.text), delta.block_id)

    def _done(self, frame_type: str, done: p.TextDone) -> None:
        block = self._blocks.pop(done.block_id, None) or ScreenBlock()
        rest = block.rest(done.text)
        if rest is None:
            self._end_prose()
            self.remark("the agent replaced its text:")
            rest = done.text
        ended = "" if not done.text or done.text.endswith("\n") else "\n"
        self._text(frame_type, rest + ended, done.block_id)
        if done.block_id == self._prose_block:
            self._end_prose()

    def _text(self, frame_type: str, text: str, block_id: str) -> None:
        thinking = frame_type.startswith("agent.thinking")
        if thinking and self._detail != "full":
            return
        if self._has_markdown and not thinking:
            if block_id != self._prose_block:
                self._end_prose()
                self._prose_block = block_id
            self._write_prose(self._prose.add(text))
            return
        self._write(sys.stderr if thinking or self._is_shell else sys.stdout, text, dim=thinking or self._is_shell)

    def _write_prose(self, blocks: Sequence[str]) -> None:
        for block in blocks:
            self._end_row()
            write(sys.stdout, rendered(block, terminal_width() or MIN_COLUMNS), safe=True)

    def _end_prose(self) -> None:
        self._write_prose(self._prose.reset())
        self._prose_block = ""

    def _write(self, stream: TextIO, text: str, *, dim: bool = False) -> None:
        if not text or self._quiet:
            return
        if self._open is not None and self._open is not stream:
            self.end_line()
        if dim:
            write(stream, styled(printable(text), "dim", stream), safe=True)
        else:
            write(stream, text)
        self._open = None if text.endswith("\n") else stream

    # --- tools ---
    def _tool_request(self, call: p.ToolRequest) -> None:
        self._write_prose(self._prose.rest())  # Text written before the call is above it.
        self._tools[call.invocation_id] = call.tool_name
        if self._detail != "off":
            raw = bytes(call.input)
            words = summary(call.tool_name, raw, call.title)
            name = f"▸ {call.tool_name}:" if words else f"▸ {call.tool_name}"
            self.remark(f"{name} {words}".rstrip(), "cyan", name)
            shown = not self._is_shell and len(raw) <= MAX_DIFFED_BYTES
            diff = diffs_of(lines(ReceivedRequest(call.tool_name, raw), CONTEXT_LINES)) if shown else []
            if diff:
                self._edits[call.invocation_id] = diff

    def _asked(self, interaction: p.InteractionRequest) -> None:
        self._edits.pop(interaction.context.invocation_id or "", None)

    def _diff(self, invocation_id: str) -> None:
        """Show what a tool changed, folded (Y-2)."""
        diff = self._edits.pop(invocation_id, None)
        if diff is None or self._quiet:
            return
        self.end_line()
        rows = rows_of(diff, screen_columns() - 1)
        show(rows[:DIFF_ROWS])
        if len(rows) > DIFF_ROWS:
            self.remark(f"{INDENT}… and {count(len(rows) - DIFF_ROWS, 'more line')} of the change")

    def _tool_stream(self, piece: p.ToolStream) -> None:
        block = self._blocks.setdefault(f"{piece.invocation_id}/{piece.channel}", ScreenBlock())
        fresh = block.news(piece.offset, piece.text)
        streamed = self._streamed.setdefault(piece.invocation_id, ScreenBlock())
        streamed.news(streamed.shown, fresh)
        self._tool_text(piece.channel, fresh, piece.invocation_id)

    def _tool_text(self, channel: str, text: str, invocation_id: str) -> None:
        if self._is_shell:
            self._write(sys.stdout if channel == "stdout" else sys.stderr, text)
        elif self._detail == "full":
            if self._is_folded:
                text = self._folds.setdefault(invocation_id, Fold()).add(text)
            self._write(sys.stderr, text, dim=True)

    def _end_fold(self, invocation_id: str) -> None:
        fold = self._folds.pop(invocation_id, None)
        if fold is not None and fold.hidden_lines:
            self._last_fold = fold
            self.remark(f"{INDENT}… {count(fold.hidden_lines, 'more line')} ({self._unfold_hint})")

    def _tool_result(self, result: p.ToolResult) -> None:
        streamed = self._streamed.pop(result.invocation_id, None)
        earlier = self._forget(result.invocation_id)
        name = self._tools.pop(result.invocation_id, "tool")
        if result.status != "ok":
            self._edits.pop(result.invocation_id, None)
        if result.status == "ok":
            self._diff(result.invocation_id)
            whole = result.output if isinstance(result.output, str) else ""
            # Text streamed while no terminal was attached is in the result; after a change of terminal its length shows
            # that.
            is_whole = result.truncated is None or streamed is None
            rest = (streamed or ScreenBlock(earlier)).rest(whole) if is_whole else ""
            self._tool_text("stdout", rest or "", result.invocation_id)
        elif streamed is not None and streamed.text and isinstance(result.output, str) and result.truncated is None:
            # A failed tool's output may be a sentence about the failure instead of what it streamed.
            self._tool_text("stdout", streamed.rest(result.output) or "", result.invocation_id)
        self._end_fold(result.invocation_id)
        if result.truncated is not None:
            cut = result.truncated
            self.remark(f"{name}: {cut.bytes_total} bytes of output, of which {cut.bytes_kept} are kept", "cyan",
                        f"{name}:")
        if result.status != "ok":
            # Here, or by the earlier terminal; if outputs are not shown, the failure's output is.
            shown = (streamed is not None or earlier > 0) and (self._is_shell or self._detail == "full")
            already_shown = one_line(result.output) if isinstance(result.output, str) and not shown else ""
            why = f": {already_shown}" if already_shown else ""
            ended = "was canceled" if result.status == "cancelled" and self._is_canceled else _ENDED[result.status]
            self.remark(f"✗ {name} {ended}{why}", "red", f"✗ {name}")
        elif not self._is_shell:
            self.end_line()

    def _turn_cancel(self, cancel: p.TurnCancel) -> None:
        self._is_canceled = cancel.reason == CANCELED

    def _forget(self, invocation_id: str) -> int:
        names = [name for name in self._blocks if name.startswith(invocation_id + "/")]
        return sum(self._blocks.pop(name).shown for name in names)

    def _usage(self, usage: p.Usage) -> None:
        self.tokens = usage.token_usage.input_tokens + usage.token_usage.output_tokens

    # --- mishaps ---
    def _agent_error(self, error: p.AgentError) -> None:
        line = f"agent {error.severity}[{error.error_code}]: {error.message}"
        if error.severity == "warning":
            self.remark(line, "bold", line.partition(":")[0])
        else:
            self._errors.append((error.message, line))

    def _session_error(self, error: p.SessionError) -> None:
        answered = not error.fatal and error.error_code == Code.SESSION_NOT_FOUND
        if answered or error.error_code in _ASKED_BY_GATEWAY:
            return  # The gateway asks, and sends the prompt again; if that fails, the command's end reports it.
        self._errors.append((error.message, f"session error[{error.error_code}]: {error.message}"))

    def show_errors(self, already_shown: str | None = None) -> None:
        """Show the errors of agent and session up to the one that the command's last line reports: the errors after
        that one are its consequences."""
        for message, line in self._errors:
            if message == already_shown:
                break
            self.remark(line, "red", line.partition("]:")[0] + "]:")
        self._errors.clear()

    def _file(self, file: p.FileTransfer) -> None:
        if file.chunk is None or file.chunk.index == 0:
            self.remark(f"file: {one_line(file.name, 80)} ({one_line(file.media_type, 60)}, {file.size} bytes) · "
                        f"interlock sessions save @last {file.transfer_id[:8]}")


_ASKED_BY_GATEWAY = (Code.WORKSPACE_NOT_TRUSTED, Code.NOT_ASKING, Code.NOT_BOXED)
"""Refusals by a runner after which the gateway asks a person, who sees an approval."""
_ENDED = {"error": "failed", "denied": "was not allowed", "cancelled": "was cut short"}


def summary(tool_name: str, raw_input: bytes, title: str | None) -> str:
    """Return a tool's input on one line: what it does (`call_words`), otherwise the input itself; "" if it is empty."""
    try:
        value: Any = msgspec.json.decode(raw_input)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = None
    rest = "" if value == {} else raw_input.decode("utf-8", "replace")
    return one_line(call_words(tool_name, value, title) or rest, INPUT_CHARS)
