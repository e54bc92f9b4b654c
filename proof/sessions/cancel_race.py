"""R8: a cancel, the turn's own end and the timeout coincide, in every order: there is one end, and all records of it
agree.

The engine is the real one over a ledger in memory; the proof plays the runner, and sets the clock to the deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from collections import Counter
from typing import Any, NamedTuple

import msgspec

from interlock.command.machine import TERMINAL
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.protocol.identifiers import command_stream
from interlock.protocol.problems import Problem
from proof import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests"))

ROUNDS = 1_000
TIMEOUT_MS = 1_000
MANY = 20
"""Fewer races than this may all end alike."""
MOST_STEPS = 12
"""Each of the three starts up to this many steps of the loop later, so that they meet at every point."""
ENDS = {"succeeded": "complete", "canceled": "cancel", "timed_out": "timeout"}
"""How such a command may end, and the record of it."""


class Races(NamedTuple):
    """What the races showed."""

    states: Counter[str]
    wrong: list[str]


async def races(rounds: int, seed: int) -> Races:
    """Run this many races, each in its own session."""
    from engine.conversation import Table

    draw = random.Random(seed)
    table = Table(timeout_ms=TIMEOUT_MS)
    states: Counter[str] = Counter()
    wrong: list[str] = []
    commands: list[str] = []
    for number in range(rounds):
        command = await _race(table, draw, number)
        commands.append(command)
        state = await table.state(command)
        states[state] += 1
        if state not in ENDS:
            wrong.append(f"race {number} ended as {state}")
    records: dict[str, list[str]] = {}
    after = 0
    while page := await table.ledger.audit("default", after, 500):
        for record in page:
            body: dict[str, Any] = msgspec.json.decode(record.body)
            if body.get("meta", {}).get("to") in TERMINAL:
                records.setdefault(body["command_id"], []).append(body["action"])
        after = page[-1].seq
    for number, command in enumerate(commands):
        state = await table.state(command)
        events = [msgspec.json.decode(event.body) for event in
                  await table.ledger.events("default", command_stream(command), 0, 500)]
        ends = [event["state"] for event in events if event["event"] == "state" and event["state"] in TERMINAL]
        if ends != [state] or events[-1].get("state") != state:
            wrong.append(f"race {number}: the row says {state}, the stream {ends}")
        if records.get(command) != [ENDS.get(state)]:
            wrong.append(f"race {number}: the row says {state}, the audit log {records.get(command)}")
    await table.engine.stop()
    return Races(states, wrong)


async def _race(table: Any, draw: random.Random, number: int) -> str:
    """One command whose cancel, end and timeout are pushed in a drawn order, some of them in one decision."""
    command = await table.execute()
    session_id, turn = command.target.session_id, f"t{number}"
    await table.opened(session_id)
    await table.started(session_id, turn)
    lane = await table.lane(session_id)
    table.clock.advance(TIMEOUT_MS - draw.choice((0, 0, 1)))

    async def dawdle() -> None:
        for _ in range(draw.randrange(MOST_STEPS)):
            await asyncio.sleep(0)

    async def cancel() -> None:
        await dawdle()
        with contextlib.suppress(Problem):  # Too late is an answer, too.
            await table.cancel(command.id)

    async def complete() -> None:
        await dawdle()
        # An agent that received the cancel in time ends its turn as cancelled.
        sent = any(frame.type == "control.turn.cancel" and frame.session_id == session_id
                   for frame in table.wire.sent[-4:])
        await table.ended(session_id, draw.choice(("end_turn", "cancelled")) if sent else "end_turn", turn)

    async def time_out() -> None:
        await dawdle()
        await lane.call(ClockTicked())

    ways = [cancel(), complete(), time_out()]
    draw.shuffle(ways)
    await asyncio.gather(*ways)
    return command.id


def run(seed: int, rounds: int | None) -> bool:
    """Run the races and print how they ended."""
    seen = asyncio.run(races(rounds or ROUNDS, seed))
    print(f"{seen.states.total()} races: {dict(sorted(seen.states.items()))}")
    for sentence in seen.wrong[:20]:
        print("  !", sentence)
    passed = not seen.wrong and (len(seen.states) > 1 or seen.states.total() < MANY)
    print("passed" if passed else f"FAILED; repeat with --seed {seed}")
    return passed
