"""`interlock budgets`: the budgets' limits, and today's usage (P-7)."""

from __future__ import annotations

from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.columns import Layout
from interlock.cli.display.values import until
from interlock.cli.options import Json
from interlock.cli.verb_answer import ListTable, print_answer
from interlock.protocol.answers import BudgetList
from interlock.protocol.api.webhooks import LIST_BUDGETS
from interlock.protocol.resources import Budget
from interlock.sdk.requests.base import read

BUDGETS = ListTable[BudgetList](
    header=("BUDGET", "COVERS", "POT", "USED TODAY", "OF", "TOKENS A TURN", "RESETS"),
    rows=lambda answer: [row for budget in answer.budgets for row in _rows(budget)],
    layout=Layout(text=("COVERS", "POT"), extra=("TOKENS A TURN",), drop=("RESETS", "COVERS")),
    empty="no budgets; give some as [[budgets]] in the gateway's config")


def budgets(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List budgets, and their use today."""
    return print_answer(where, read(LIST_BUDGETS), BUDGETS.show, json=json)


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
