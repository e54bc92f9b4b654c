"""Notification of a person when something waits for an answer: the terminal's bell, and a desktop notice (Y-6)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from interlock.cli.display.terminal import is_terminal, write

VARIABLE = "INTERLOCK_BELL"
OFF = frozenset({"off", "no", "0", "false"})
_OSC_9_PROGRAMS = frozenset({"iTerm.app", "WezTerm", "ghostty"})
_OSC_9_TERMS = frozenset({"xterm-kitty", "xterm-ghostty", "wezterm"})
_OSC_777_TERMS = ("foot", "rxvt-unicode")
_MULTIPLEXERS = ("TMUX", "STY")


def ring(notice: str) -> None:
    """Ring the bell of the terminal at standard error, and have it show `notice`, a text of Interlock's own, if it is
    known to support that. Does nothing without a terminal, or if INTERLOCK_BELL is off."""
    if is_terminal(sys.stderr):
        write(sys.stderr, signal_of(notice, os.environ), safe=True)


def signal_of(notice: str, environment: Mapping[str, str]) -> str:
    """Return what is written to the terminal of this environment; "" if nothing is."""
    term = environment.get("TERM", "dumb")
    if term in ("", "dumb") or environment.get(VARIABLE, "").strip().lower() in OFF:
        return ""
    if any(environment.get(name) for name in _MULTIPLEXERS):
        return "\a"  # They forward a bell, and may print an unknown sequence.
    if term in _OSC_9_TERMS or environment.get("TERM_PROGRAM") in _OSC_9_PROGRAMS:
        return f"\x1b]9;{notice}\x1b\\\a"
    return f"\x1b]777;notify;Interlock;{notice}\x1b\\\a" if term.startswith(_OSC_777_TERMS) else "\a"
