"""`interlock budgets`: what the budgets allow, and what today has used of them (P-7)."""

from __future__ import annotations

import asyncio

import msgspec

from interlock.cli.columns import Layout
from interlock.cli.exit_status import ExitStatus
from interlock.cli.gateway_link import GatewayLink
from interlock.cli.lists import Json
from interlock.cli.place import NOWHERE, Here, Where
from interlock.cli.terminal import print_json, print_table, say
from interlock.cli.values import until
from interlock.protocol.answers import BudgetList
from interlock.protocol.api.webhooks import LIST_BUDGETS
from interlock.protocol.resources import Budget

COLUMNS = ("BUDGET", "COVERS", "POT", "USED TODAY", "OF", "TOKENS A TURN", "RESETS")
LAYOUT = Layout(text=("COVERS", "POT"), extra=("TOKENS A TURN",), drop=("RESETS", "COVERS"))


def budgets(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List budgets, and what today has used of them."""
    return asyncio.run(_budgets(where, json=json))


async def _budgets(where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        raw = await link.get(LIST_BUDGETS.at())
    if json:
        print_json(raw)
        return ExitStatus.DONE
    found = msgspec.json.decode(raw, type=BudgetList).budgets
    if not found:
        say("no budgets; give some as [[budgets]] in the gateway's config", "dim")
        return ExitStatus.DONE
    print_table([row for budget in found for row in _rows(budget)], COLUMNS, LAYOUT)
    return ExitStatus.DONE


def _rows(budget: Budget) -> list[list[str]]:
    covers = ", ".join(budget.agent) or "all agents"
    if budget.session is not None:
        covers += f" in {budget.session}"
    head = [budget.name, covers]
    tokens = str(budget.tokens_per_turn) if budget.tokens_per_turn is not None else ""
    if budget.usd_per_day is None:
        return [[*head, "", "", "", tokens, ""]]
    rows = [[*head, pot.scope or "tenant", f"${pot.used_usd}",
             f"${pot.limit_usd}" + (f" (raised by ${pot.raised_usd})" if pot.raised_usd != "0.00" else ""), tokens,
             until(budget.resets_at)] for pot in budget.pots]
    if budget.pots_left_out:
        rows.append(["", "", f"and {budget.pots_left_out} more", "", "", "", ""])
    return rows or [[*head, f"each {budget.each}", "$0.00", f"${budget.usd_per_day}", tokens, until(budget.resets_at)]]
