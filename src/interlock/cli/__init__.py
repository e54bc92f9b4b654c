"""The command line. `main` converts every outcome to output, one sentence at most, and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main"]

INTERRUPTED = 130
"""The same as in `Exit`, which is not imported yet."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one verb and end the process with its exit status; never shows a traceback unless INTERLOCK_DEBUG is set."""
    try:
        _open_what_is_closed()
        sys.exit(_run(list(sys.argv[1:] if argv is None else argv)))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)  # While the first modules are imported; later `dispatch` handles it.


def _run(words: list[str]) -> int:
    from interlock.cli.dispatch import discard, dispatch, unwritten

    status = dispatch(words)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)  # The reader has gone.
    except OSError as error:
        status = unwritten(error)
    return status


def _open_what_is_closed() -> None:
    """Open closed standard streams to /dev/null: otherwise the first opened file or socket would get their number, and
    receive output meant for people."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # Gets the lowest free number, which is this one.
            name, mode = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))[number]
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - open as long as we are
