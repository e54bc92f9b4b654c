"""A2: 10,000 random operations: each transition of a command or approval has exactly one record, with it."""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.backends.sqlite.ledger import LEDGER_NAME, open_ledger
from interlock.command.audit.audit_check import verify_records
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.ports.ledger import AuditAppend, Ledger, PutApproval, PutCommand, Receipt, WriteBatch
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Target
from proof import REPOSITORY

if TYPE_CHECKING:
    from engine.conversation import Table

OPERATIONS = 10_000
ON_DISK = 1_000
SESSIONS = 4
A_TABLE = 250
"""The number of operations on one engine; the next begins with an empty ledger."""
STEPS_MS = (10, 1_000, 60_000, 24 * 3_600_000)


class Watched:
    """Counts what each committed transaction moved, beside what it wrote down."""

    def __init__(self, ledger: Ledger) -> None:
        self._states: dict[str, str] = {}
        self._commit = ledger.commit
        self.transitions = 0
        self.wrong: list[str] = []
        ledger.commit = self.commit  # type: ignore[method-assign]

    async def commit(self, batch: WriteBatch) -> Receipt:
        """Commit, then compare."""
        receipt = await self._commit(batch)
        moved: Counter[tuple[str, str]] = Counter()
        written: Counter[tuple[str, str]] = Counter()
        for write in batch.writes:
            if isinstance(write, PutCommand):
                self._moved(write.record.command.id, write.record.command.state, moved)
            elif isinstance(write, PutApproval):
                self._moved(write.record.approval.id, write.record.approval.state, moved)
            elif isinstance(write, AuditAppend) and "to" in write.draft.meta:
                written[write.draft.approval_id or write.draft.command_id or "", str(write.draft.meta["to"])] += 1
        self.transitions += moved.total()
        if moved != written:
            self.wrong.append(f"moved {dict(moved - written)} without a record, recorded {dict(written - moved)} that "
                              "did not move")
        return receipt

    def _moved(self, id_: str, state: str, moved: Counter[tuple[str, str]]) -> None:
        if self._states.get(id_) != state:
            self._states[id_] = state
            moved[id_, state] += 1


async def operate(dice: random.Random, table: Table, count: int) -> int:
    """Do random operations on an engine, as persons and a runner would; returns how many were refused."""
    refused, sessions, commands = 0, list[str](), list[str]()

    async def execute() -> None:
        old = len(sessions) >= SESSIONS or (sessions and dice.random() < 0.5)
        target = Target(session_id=dice.choice(sessions)) if old else Target(agent_id="shell")
        command = await table.execute(f"say {dice.random()}", target=target, reason=dice.choice((None, "because")))
        commands.append(command.id)
        if command.target.session_id not in sessions:
            sessions.append(command.target.session_id)
            await table.opened(command.target.session_id)

    async def cancel() -> None:
        await table.cancel(dice.choice(commands))

    async def vote() -> None:
        pending = await table.ledger.approvals("default", "pending", None, 50)
        if pending:
            await table.vote(dice.choice(pending).approval.id, dice.choice(("grant", "grant", "deny")))

    async def pass_time() -> None:
        table.clock.advance(dice.choice(STEPS_MS))
        for session_id in sessions:
            await (await table.lane(session_id)).call(ClockTicked())

    async def start() -> None:
        live = [one for session in sessions for one in await table.ledger.live_commands(session, "default")
                if one.command.state == "dispatched"]
        if live:
            record = dice.choice(live)
            turn = str(uuid.UUID(int=dice.getrandbits(128), version=4))
            await table.send(record.session_id, "session.turn.start", p.TurnStart(
                turn_id=turn, turn_index=table.next_turn(record.session_id)),
                             prompt_id=record.prompt_id)

    async def in_turn(then: Callable[[str, str], Awaitable[Any]]) -> None:
        live = [one for session in sessions for one in await table.ledger.live_commands(session, "default")
                if one.command.turn_id is not None and one.command.state in ("running", "canceling")]
        if live:
            record = dice.choice(live)
            await then(record.session_id, record.command.turn_id or "")

    async def ask(session_id: str, turn_id: str) -> None:
        await table.asked(session_id, "ls", turn_id, f"i{dice.random()}")

    async def end(session_id: str, turn_id: str) -> None:
        reason = dice.choice(("end_turn", "end_turn", "error", "cancelled", "max_tokens"))
        await table.ended(session_id, reason, turn_id)

    async def late() -> None:
        if sessions:
            gone = p.TurnEnd(turn_id="gone", stop_reason="end_turn")
            await table.send(dice.choice(sessions), "session.turn.end", gone)

    async def restart() -> None:
        await table.engine.stop()
        table.begin()
        for session_id in sessions:
            await table.reattach(session_id, 0)

    doings: tuple[tuple[Callable[[], Awaitable[None]], int], ...] = (
        (execute, 5), (cancel, 1), (vote, 4), (start, 5), (lambda: in_turn(ask), 3), (lambda: in_turn(end), 3),
        (pass_time, 1), (late, 1), (restart, 1),
    )
    kinds, weights = zip(*doings, strict=True)
    for _ in range(count):
        (doing,) = dice.choices(kinds, weights)
        if doing is cancel and not commands:
            continue
        try:
            await doing()
        except Problem:
            refused += 1
    return refused


async def complete(seed: int, rounds: int, folder: Path | None = None) -> dict[str, Any]:
    """Do `rounds` operations over ledgers in memory, or one in `folder`: {operations, refused, transitions, records,
    wrong}."""
    sys.path[:0] = [str(REPOSITORY / "tests")] if str(REPOSITORY / "tests") not in sys.path else []
    from engine.conversation import Table

    dice, refused, transitions, records, wrong = random.Random(seed), 0, 0, 0, list[str]()
    for first in range(0, rounds, A_TABLE):
        table = Table(timeout_ms=30_000)
        if folder is not None:
            table.ledger = await open_ledger(folder / f"{first}-{LEDGER_NAME}", table.clock)
            table.begin()
        watched = Watched(table.ledger)
        refused += await operate(dice, table, min(A_TABLE, rounds - first))
        await table.engine.stop()
        log = await table.ledger.audit("default", 0, 1_000_000)
        checked = verify_records(log, None)
        records += checked.records
        if checked.records != len(log):
            wrong.append(checked.message)
        await table.ledger.close()
        transitions += watched.transitions
        wrong += watched.wrong
    return {"operations": rounds, "refused": refused, "transitions": transitions, "records": records, "wrong": wrong}


def run(seed: int, rounds: int | None) -> bool:
    """Run it in memory and on a disk, and print; `rounds` is the number of operations in memory."""
    passed = True
    with tempfile.TemporaryDirectory(prefix="interlock-audit-") as place:
        for name, count, folder in (("in memory", rounds or OPERATIONS, None),
                                    ("SQLite", min(rounds or ON_DISK, ON_DISK), Path(place))):
            counted = asyncio.run(complete(seed, count, folder))
            wrong = counted.pop("wrong")
            print(f"  {name}: {counted}; {len(wrong)} transactions are wrong", flush=True)
            for sentence in wrong[:5]:
                print("  !", sentence)
            passed &= not wrong
    return passed
