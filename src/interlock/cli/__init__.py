"""The command line. `main` turns whatever happens into output, one sentence at most, and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one verb and end the process with its exit status; never shows a traceback unless INTERLOCK_DEBUG is set."""
    from interlock.cli.dispatch import dispatch

    status = dispatch(list(sys.argv[1:] if argv is None else argv))
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has gone; the interpreter's own flush at exit must not complain about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)
