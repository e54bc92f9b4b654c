"""The meaning of an exit (A-2). An `interlock.ports.agent.Exit` has exactly one of code and signal."""

from __future__ import annotations

import os
import signal
from enum import StrEnum

from interlock.ports.agent import ProcessExit

SIGNAL_BASE = 128
"""A shell reports the death of its child by signal N as 128+N."""
MAX_SIGNAL = 64


class ExitKind(StrEnum):
    """A-2: `ok` ends a turn with end_turn, `error` is PROCESS_EXIT, `signal` is SIGNAL_EXIT."""

    OK = "ok"
    ERROR = "error"
    SIGNAL = "signal"


def exit_from_status(status: int) -> ProcessExit:
    """Return the exit for a status of waitpid."""
    code = os.waitstatus_to_exitcode(status)
    return ProcessExit(code, None) if code >= 0 else ProcessExit(None, -code)


def signal_of(ended: ProcessExit) -> int | None:
    """Return the signal that ended it, reported by the kernel or by a shell as 128+N (N 1-64); None for neither."""
    if ended.signal is not None:
        return ended.signal
    number = (ended.code or 0) - SIGNAL_BASE
    return number if 1 <= number <= MAX_SIGNAL else None


def kind_of(ended: ProcessExit) -> ExitKind:
    """Classify an exit (A-2): 0 is ok, 128+N (N 1-64) and death by signal are signal, everything else is error."""
    if ended.code == 0:
        return ExitKind.OK
    return ExitKind.ERROR if signal_of(ended) is None else ExitKind.SIGNAL


def sentence_of(ended: ProcessExit) -> str:
    """Return a sentence for the user: "The agent was ended by SIGKILL." or "The agent ended with exit code 3."."""
    number = signal_of(ended)
    if number is None:
        return f"The agent ended with exit code {ended.code}."
    known = {known.value: known.name for known in signal.Signals}
    return f"The agent was ended by {known.get(number, f'signal {number}')}."
