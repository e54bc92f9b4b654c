"""A runner, a gateway and a client written from the published text alone, played against our gateway and our runner.

`python -m proof seeds [--break NAME]` prints the table: clause, conversation, behaviour of the other side, and whether
the clause holds. The peers import nothing of Interlock (a test asserts it); `profile` defines what the text leaves
open. With --break a relay breaks something on the way, and the table must notice it.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from proof.independent_peers.report import counted, printed
from proof.independent_peers.table import FAILS, Line, Play, perform


async def play(place: Path, plays: list[Play], broken: str | None = None) -> list[Line]:
    """Play some plays on a stage of their own."""
    from proof.independent_peers.breaks import BREAKS, HONEST
    from proof.independent_peers.stage import stage

    async with stage(place) as found:
        return await perform(found.under(BREAKS[broken]() if broken else HONEST), plays)


def all_plays() -> list[Play]:
    """Every line of the table, in order."""
    from proof.independent_peers import (
        gateway_adapters,
        gateway_sessions,
        racp_commands,
        racp_records,
        runner_adapters,
        runner_sessions,
    )

    modules = (gateway_sessions, gateway_adapters, runner_sessions, runner_adapters, racp_commands, racp_records)
    return [each for module in modules for each in module.PLAYS]


def run(seed: int, rounds: int | None, broken: str | None = None) -> bool:
    """Play everything and print the table; with `broken` also whether that was noticed. False if a line fails."""
    from proof.independent_peers.breaks import BREAKS

    del seed, rounds
    with tempfile.TemporaryDirectory(prefix="interlock-seeds-") as place:
        lines = asyncio.run(play(Path(place), all_plays(), broken))
    print(printed(lines))
    print(counted(lines))
    if broken is not None:
        noticed = {line.play.name for line in lines if line.verdict == FAILS} & set(BREAKS[broken].noticed_by)
        print(f"broken: {BREAKS[broken].says}; {'noticed' if noticed else 'NOT NOTICED'}")
    return all(line.verdict != FAILS for line in lines)
