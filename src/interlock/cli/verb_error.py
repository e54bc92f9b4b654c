"""The error that ends a verb without its result: one sentence with what happened, where, and what to do."""

from __future__ import annotations

import re

from interlock.cli.exit_status import BY_CODE, ExitStatus

SHOWN_CHARS = 200
_LONG_WORD = re.compile("[!-~]{400,}")
"""Longer than any path or address that a person reads: an argument that is repeated, such as a file's content."""


class Trouble(Exception):
    """Printed as `error[code]: sentence remedy`; `status` is the exit status, by default the code's own."""

    def __init__(self, code: str, sentence: str, remedy: str = "", status: ExitStatus | None = None, *,
                 retry_after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.remedy = remedy
        self.retry_after_s = retry_after_s
        """Delay before a retry that the gateway requested (K-3), in seconds; None if it requested none."""
        self.status = status if status is not None else BY_CODE.get(code, ExitStatus.FAILED)

    @property
    def label(self) -> str:
        """Return the beginning of the error's line, the only coloured part."""
        return f"error[{self.code}]:"

    def line(self) -> str:
        """Return the line for standard error."""
        from interlock.protocol.problems import full_sentence

        line = f"error[{self.code}]: {full_sentence(self.sentence)} {self.remedy}".rstrip()
        return _LONG_WORD.sub(lambda word: f"{word[0][:SHOWN_CHARS]}…", line)


def usage(sentence: str, remedy: str = "") -> Trouble:
    """Return the error for a wrong argument, option, file or setting: exit status 2."""
    return Trouble("Usage", sentence, remedy)
