"""Programs that may start while the agent works on no command: those in its config's `between_turns` (H-16).

An agent that is a launcher, or that inspects its repository at its start, cannot open a session without them. At that
time there is no command and so no approver: the config decides, and the session's stream records what started.
"""

from __future__ import annotations

import os
import posixpath
import shlex
from collections.abc import Callable, Sequence

from interlock.ports.process import Decision, HeldProgram, Programs, StartedBelow
from interlock.protocol.codes import Code
from interlock.runner.journal import Journal

MAX_REPORTED = 20
"""Command lines reported as started between turns, per opening; later ones start without a report."""


class IdlePrograms:
    """Allows the configured programs between turns, and leaves every other decision to `others`.

    An entry is the beginning of a command line. Its first word is a bare name, found on the agent's own PATH, or an
    absolute path. Programs that it starts are held in turn, so its variables do not matter; a process that sees other
    files than the agent was started with never matches.
    """

    def __init__(self, entries: Sequence[str], others: Programs, journal: Journal, is_idle: Callable[[], bool]) -> None:
        self._entries = [_entry(one) for one in entries]
        self._others = others
        self._journal = journal
        self._is_idle = is_idle
        self._reported: set[tuple[bytes, ...]] = set()

    async def ask(self, token: int, program: HeldProgram) -> Decision:
        """Decide; `others` refuses a program between turns that no entry names."""
        if not self._is_idle() or not any(covers(entry, program) for entry in self._entries):
            return await self._others.ask(token, program)
        if program.argv not in self._reported and len(self._reported) < MAX_REPORTED:
            self._reported.add(program.argv)
            await self._journal.write(self._journal.agent_error(
                "warning", Code.STARTED_BETWEEN_TURNS, sentence(program)))
        return "once"

    async def ended(self, token: int, below: StartedBelow | None) -> None:
        """Forward to `others`."""
        await self._others.ended(token, below)

    async def other(self, token: int, ran: tuple[bytes, ...]) -> None:
        """Forward to `others`: a program other than the allowed one is reported and ends the opening."""
        await self._others.other(token, ran)

    async def refused(self, why: str) -> None:
        """Forward to `others`."""
        await self._others.refused(why)


def covers(entry: tuple[bytes, ...], program: HeldProgram) -> bool:
    """Return whether an entry names a program. Pure."""
    first = entry[0]
    named = first in (program.path, program.name) if first.startswith(b"/") else first == program.name
    return named and not program.own_view and program.argv[1:len(entry)] == entry[1:]


def sentence(program: HeldProgram) -> str:
    """Name the program that was started, and variables that change what its command line does. Pure."""
    line = shlex.join(part.decode("utf-8", "backslashreplace") for part in (program.path, *program.argv[1:]))
    names = sorted(one.partition(b"=")[0].decode("utf-8", "backslashreplace") for one in program.environment)
    variables = f" It has its own {', '.join(names)}." if names else ""
    return (f"The agent started {line} while it worked on no command: `between_turns` of its box names it.{variables}")


def _entry(line: str) -> tuple[bytes, ...]:
    first, *more = shlex.split(line)
    if first.startswith("~/"):
        first = posixpath.expanduser(first)
    return tuple(os.fsencode(word) for word in (first, *more))
