"""R7: two of ten people, fifty votes and withdrawals at once: exactly one release, and only with the required votes."""

from __future__ import annotations

import asyncio
import random
import sys
from typing import Any

import msgspec

from interlock.command.policy.policy import Rule, RuleSet
from interlock.protocol.problems import PROBLEMS, Problem
from interlock.protocol.records import Principal
from interlock.protocol.resources import Actor, GrantBody
from proof import REPOSITORY

ROUNDS = 500
PEOPLE = 10
VOTES = 50
REQUIRED = 2
TWO = RuleSet([Rule(name="two", effect="ask", tool="shell", required=REQUIRED, deny_threshold=REQUIRED)])


def earned(log: list[dict[str, Any]]) -> str:
    """Count votes as a plain reader of the log would: what the first decisive one decided, or "pending"."""
    votes: dict[str, str] = {}
    for record in log:
        if record["action"] == "withdraw":
            votes.pop(record["meta"].get("vote_of", record["who"]["id"]), None)
        elif record["action"] == "vote":
            votes[record["who"]["id"]] = record["meta"]["decision"]
            if list(votes.values()).count("deny") >= REQUIRED:
                return "denied"
            if list(votes.values()).count("grant") >= REQUIRED:
                return "granted"
    return "pending"


async def race(dice: random.Random, rounds: int) -> dict[str, Any]:
    """Let people race `rounds` times: {rounds, votes, refused, granted, denied, pending, wrong}."""
    sys.path[:0] = [str(REPOSITORY / "tests")] if str(REPOSITORY / "tests") not in sys.path else []
    from engine.conversation import Table, remember

    people = [Principal(tenant_id="default", actor=Actor(type="user", id=f"p{one}"), role="approver", key_id=f"k{one}")
              for one in range(PEOPLE)]
    counted: dict[str, Any] = {"rounds": rounds, "votes": 0, "refused": 0, "granted": 0, "denied": 0, "pending": 0}
    wrong = list[str]()
    for number in range(rounds):
        table = Table(TWO)
        execute = await table.execute()
        session_id = execute.target.session_id
        await table.opened(session_id)
        await table.started(session_id)
        await table.asked(session_id, "make")
        approval_id = table.wire.last("x-interlock.interaction.held").payload.approval_id
        yes = dice.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        most = dice.choice((1, 2, PEOPLE))

        def doing(table: Table = table, approval_id: str = approval_id, yes: float = yes, most: int = most) -> Any:
            who = dice.choice(people[:most])
            if dice.random() < 0.2:
                return table.engine.withdraw(who, approval_id, remember)
            return table.engine.vote(who, approval_id, GrantBody(
                decision="grant" if dice.random() < yes else "deny"), remember)

        answers = await asyncio.gather(*(doing() for _ in range(VOTES)), return_exceptions=True)
        counted["votes"] += VOTES
        counted["refused"] += sum(isinstance(one, Problem) for one in answers)
        refusals = [one for one in answers if isinstance(one, BaseException)]
        wrong += [f"round {number}: {one!r}" for one in refusals
                  if not isinstance(one, Problem) or PROBLEMS[one.code].status >= 500]
        log = [msgspec.json.decode(one.body) for one in await table.ledger.audit("default", 0, 10_000)]
        expected = earned([one for one in log if one.get("approval_id") == approval_id])
        record = await table.ledger.approval(approval_id, "default")
        assert record is not None
        releases = [frame.payload.decision for frame in table.wire.sent
                    if frame.type == "control.interaction.response"]
        wanted = {"granted": ["allow"], "denied": ["deny"], "pending": []}[expected]
        if releases != wanted or record.approval.state != expected:
            wrong.append(f"round {number}: the log says {expected}, the approval is {record.approval.state}, and "
                         f"the agent was sent {releases}")
        counted[expected] += 1
        await table.engine.stop()
    return {**counted, "wrong": wrong}


def run(seed: int, rounds: int | None) -> bool:
    """Run it and print what it counted."""
    counted = asyncio.run(race(random.Random(seed), rounds or ROUNDS))
    wrong = counted.pop("wrong")
    print(f"  {counted}; {len(wrong)} rounds are wrong", flush=True)
    for sentence in wrong[:5]:
        print("  !", sentence)
    return not wrong
