"""R10 in a cluster: a stream cut at every position in four ways to read, and resumed at a random gateway.

One of the three has the session; the others read its stream from the ledger they share. The events and cursors of each
are the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import tempfile
from collections import Counter
from pathlib import Path

from proof.processes.cluster import ClusterStack
from proof.processes.gateways import GATEWAYS
from proof.sessions.stream_resume import EVENTS, Findings, Ways, cut_everywhere, lengthen, one_session, print_findings
from proof.workload.clients import CONFIG


def resume(place: Path, seed: int, events: int) -> tuple[Findings, Counter[int]]:
    """Create a stream of this many events, cut each reader after every one, and return the requests by gateway."""
    draw, asked = random.Random(seed), Counter[int]()
    stack = ClusterStack(place, CONFIG)
    gateways = stack.gateways

    def drawn() -> tuple[str, Path]:
        number = draw.randrange(GATEWAYS)
        asked[number] += 1
        return gateways.url(number), gateways.home(number)

    try:
        session_id = one_session(stack, seed)
        for number in range(GATEWAYS):  # The owner of the session would not know of rows that are written beside it.
            gateways.kill(number)
        asyncio.run(lengthen(gateways.home(0), session_id, events))
        for number in range(GATEWAYS):
            gateways.start(number)
            stack.until(lambda number=number: gateways.answers(number))
        stack.ready()
        with contextlib.closing(Ways(stack, session_id, drawn)) as ways:
            return cut_everywhere(ways.named(), draw, events), asked
    finally:
        stack.down()


def run(seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; `rounds` is the length of the stream."""
    with tempfile.TemporaryDirectory(prefix="interlock-r10-") as place:
        seen, asked = resume(Path(place), seed, rounds or EVENTS)
    print(f"reads begun at the three gateways: {[asked[number] for number in range(GATEWAYS)]}")
    return print_findings(seen, seed)
