"""Differences between the door as a process beside an editor and the door at the gateway (O-1, O-7)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Surface:
    """The door's location, as far as its client notices."""

    auth_methods: tuple[Mapping[str, Any], ...]
    """ACP's `authMethods`."""
    choice: str
    """How a client names an agent, as the end of a sentence that begins with "Name one"."""
    report: Callable[[str], None]
    """Writes a line for the operator of the door; its client does not see it."""
    is_local: bool
    """Whether the client's directories are on this machine, so that links in them can be resolved here."""


def _print(line: str) -> None:
    print(f"interlock acp: {line}", file=sys.stderr, flush=True)


PROCESS = Surface(
    auth_methods=({"id": "interlock", "name": "Start or name a gateway", "type": "terminal",
                   "description": "Start a gateway on this machine with `interlock up`, or set INTERLOCK_URL and "
                                  "INTERLOCK_KEY.", "args": ["doctor"]},),
    choice="behind `interlock acp`", report=_print, is_local=True)
"""`interlock acp` on standard input and output."""
