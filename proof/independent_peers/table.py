"""The table of clauses: the text, the conversation, and the behaviour of the other side."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from proof.independent_peers.profile import Broken

Acted: TypeAlias = Callable[[Any], Awaitable[str]]
"""A play's function: it is given the `stage.Stage`, and returns what the other side did."""


class Play(NamedTuple):
    """One line. `against`: the side of ours that must hold the clause. `run` returns what that side did."""

    clause: str
    against: str
    played: str
    run: Acted
    slow: bool = False
    """It waits for a clock of more than ten seconds; the short form leaves it out."""

    @property
    def name(self) -> str:
        """How a play is called in the table of breaks."""
        return self.run.__name__


class NotPlayed(Exception):
    """Something that a play needs is not installed; one sentence."""


class Line(NamedTuple):
    """A play, and how it went."""

    play: Play
    did: str
    verdict: str


HOLDS, FAILS, SKIPPED = "holds", "does not hold", "not played"
AT_ONCE = 12
"""Plays that run beside each other."""


def play(plays: list[Play], clause: str, against: str, played: str, *, slow: bool = False) -> Callable[[Acted], Acted]:
    """Put a function into a list of plays."""
    def add(function: Acted) -> Acted:
        plays.append(Play(clause, against, played, function, slow))
        return function
    return add


def unless(misfits: Iterable[str]) -> None:
    """Raise Broken with what does not fit, if anything does not."""
    found = list(misfits)
    if found:
        raise Broken("; ".join(found))


def must(holds: object, otherwise: str) -> None:
    """Raise Broken with a sentence if something does not hold."""
    if not holds:
        raise Broken(otherwise)


async def perform(stage: Any, plays: list[Play]) -> list[Line]:
    """Play all, several beside each other; the lines come in the order of the plays."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(each: Play) -> Line:
        async with turns:
            try:
                return Line(each, await each.run(stage), HOLDS)
            except Broken as broken:
                return Line(each, str(broken), FAILS)
            except NotPlayed as reason:
                return Line(each, str(reason), SKIPPED)
            except Exception as error:  # noqa: BLE001 - A peer that fails is a finding, too: the other lines are still wanted.
                at = traceback.extract_tb(error.__traceback__)[-1]
                return Line(each, f"the peer failed: {type(error).__name__}: {error} ({at.name}:{at.lineno})", FAILS)

    return list(await asyncio.gather(*map(one, plays)))
