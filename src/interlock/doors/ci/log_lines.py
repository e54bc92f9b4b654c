"""Write lines for the log of a pipeline, in which text of agents and people cannot act as a command of the CI system.

A CI system reads commands from a job's output. GitHub's runner accepts `::name::` at the beginning of a line, after any
white space, and `##[name]` anywhere in a line, and also splits lines at a carriage return; Azure Pipelines accepts
`##vso[`, GitLab accepts `section_start:` between escape characters, Buildkite accepts `---` and `+++` at the beginning.
So each line of text from others begins with a bar, control characters are written as their code points, and `##` is
split before a bracket. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from interlock.command.card.text import one_line, visible

LogStyle = Literal["github", "plain"]
Level = Literal["notice", "warning", "error"]

BAR = "| "
"""Prefix of each line of text from others."""
MAX_LINE_CHARS = 2_000
"""A longer line is continued on the next one."""
MAX_BLOCK_LINES = 400
"""A longer block is reduced to its first and last lines, half of this each."""
MESSAGE_CHARS = 1_000
TITLE_CHARS = 120

_COMMAND = re.compile(r"#(?=#[A-Za-z0-9_.-]*\[)")


def harmless(text: str) -> str:
    """Make text from others visible and free of commands, on as many lines as it has."""
    return _COMMAND.sub("# ", visible(text.replace("\r\n", "\n")))


def phrase(text: str, limit: int = MESSAGE_CHARS) -> str:
    """Make text from others a part of a sentence of ours: on one line, cut, and without a command."""
    return _COMMAND.sub("# ", one_line(text, limit))


def block(text: str) -> Iterator[str]:
    """Yield text from others as lines of a log."""
    lines = harmless(text).rstrip("\n").split("\n")
    left_out = len(lines) - MAX_BLOCK_LINES
    if left_out > 0:
        half = MAX_BLOCK_LINES // 2
        lines = [*lines[:half], f"[{left_out} lines are left out here]", *lines[-half:]]
    for line in lines:
        for at in range(0, max(1, len(line)), MAX_LINE_CHARS):
            yield BAR + line[at:at + MAX_LINE_CHARS]


class LogWriter:
    """Writes our own lines in the style of the CI system. Each method returns whole lines without their ends."""

    def __init__(self, style: LogStyle) -> None:
        self._style: LogStyle = style

    @property
    def annotates(self) -> bool:
        """Return whether the CI system shows annotations beside the job; elsewhere they are lines like others."""
        return self._style == "github"

    def annotation(self, level: Level, title: str, message: str) -> str:
        """Return a line that the CI system shows beside the job; title and message may contain text from others."""
        title, message = phrase(title, TITLE_CHARS), phrase(message)
        if self._style == "github":
            return f"::{level} title={_property(title)}::{_data(message)}"
        return f"{level}: {title}: {message}"

    def opened(self, title: str) -> list[str]:
        """Begin a section of the log that a reader can fold."""
        title = phrase(title, TITLE_CHARS)
        return [f"::group::{_data(title)}"] if self._style == "github" else [f"== {title}"]

    def closed(self) -> list[str]:
        """End that section."""
        return ["::endgroup::"] if self._style == "github" else []


def _data(text: str) -> str:
    """Escape a workflow command's message, as GitHub's own toolkit does."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escape a value among a workflow command's properties."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
