"""Wait for the end of acknowledged commands for as long as any of them moves: how long that takes is the machine's.

A command without progress is lost only if commands submitted after it end meanwhile, several times. If they do not end
either, the stack is slow or down, and the command is late.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from proof.workload.clients import TERMINAL

LATER_COMMANDS = 30
"""If this many later commands end while none of the earlier ones moves, the earlier ones are lost."""
LONGEST_S = 3_600.0
"""A command that has not ended after this time is late, also if it still moves."""
REST_S = 0.05
GONE = "gone"
"""The state of a command that no gateway knows."""


class Completion(NamedTuple):
    """How commands ended, by state, and which have not."""

    states: Counter[str]
    lost: list[str]
    late: list[str]


def wait_for_ends(commands: Iterable[str], state_of: Callable[[str], str], give_another: Callable[[], bool], *,
                  clock: Callable[[], float] = time.monotonic,
                  rest: Callable[[float], None] = time.sleep) -> Completion:
    """Wait until every command has ended, or is lost, or late. `give_another` gives a new command, waits for its end
    and returns whether it came."""
    before = dict.fromkeys(commands, "")
    states = Counter[str]()
    lost: list[str] = []
    later, until = 0, clock() + LONGEST_S
    while before and clock() < until:
        now = {one: state_of(one) for one in before}
        later = 0 if now != before else later + give_another()
        states.update(state for state in now.values() if state in TERMINAL)
        lost += [one for one, state in now.items() if state == GONE]
        before = {one: state for one, state in now.items() if state not in TERMINAL and state != GONE}
        if later == LATER_COMMANDS:
            return Completion(states, [*lost, *before], [])
        rest(REST_S)
    return Completion(states, lost, list(before))
