"""A tool's output at the terminal, folded to its first lines (Y-6). Pure."""

from __future__ import annotations

FOLD_LINES = 10
FOLD_CHARS = 2_000
"""Lines that are long are folded earlier."""
KEPT_CHARS = 200_000
"""Maximum characters of hidden output that are kept for a person who unfolds it."""


class Fold:
    """One tool call's output: its beginning is shown, the other lines are counted."""

    def __init__(self) -> None:
        self._lines = FOLD_LINES
        self._chars: int = FOLD_CHARS
        self._hidden = 0
        self._kept = list[str]()
        self._room = KEPT_CHARS
        self._is_open = False
        """Whether the last hidden line is not ended."""

    @property
    def hidden_lines(self) -> int:
        """Return the number of lines that are hidden or shown incompletely."""
        return self._hidden

    def unfolded(self) -> tuple[str, bool]:
        """Return what is hidden, and whether that is complete."""
        return "".join(self._kept), self._room > 0

    def add(self, text: str) -> str:
        """Add output; return the part of it that is shown."""
        end = 0
        while end < len(text) and self._lines and self._chars:
            found = text.find("\n", end, end + self._chars)
            upto = found + 1 if found >= 0 else min(len(text), end + self._chars)
            self._chars -= upto - end
            self._lines -= int(found >= 0)
            end = upto
        hidden = text[end:]
        if hidden:
            self._hidden += hidden.count("\n") + (not hidden.endswith("\n")) - self._is_open
            self._is_open = not hidden.endswith("\n")
            if self._room:
                self._kept.append(hidden[:self._room])
                self._room -= len(self._kept[-1])
        return text[:end]
