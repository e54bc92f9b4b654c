"""The usage that budgets count, shared by all lanes of a gateway: kept equal to what is durable, and shown (P-7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from interlock.command.policy.budget import DAY_MS, BudgetRule, Pot, Spending, dollars, place_of
from interlock.engine.bridge.commands.budgets import next_day_ms
from interlock.ports.entities import SPENDING, USAGE
from interlock.ports.ledger import Add, Expire, Ledger, LedgerWrite, WriteBatch
from interlock.protocol import resources
from interlock.protocol.clock import iso
from interlock.protocol.limits import USAGE_DAYS as KEPT_DAYS
from interlock.protocol.records import SpendingRecord

POTS_SHOWN = 100
"""Pots of a budget that its resource lists, with the number of further ones."""


async def read_spending(spending: Spending, ledger: Ledger, now_ms: int) -> None:
    """Read today's pots at a start, and delete those whose retention has ended."""
    day = now_ms // DAY_MS
    await ledger.commit(WriteBatch([Expire(SPENDING, day - KEPT_DAYS - 1), Expire(USAGE, day - KEPT_DAYS - 1)]))
    spending.replace(await ledger.spending(day))


def settle(spending: Spending, budgets: Sequence[BudgetRule], writes: Iterable[LedgerWrite]) -> set[str]:
    """Apply committed writes; returns the tenants whose other lanes must check again: a pot is used up now, or was
    raised."""
    limits = {budget.name: budget.day_micros for budget in budgets}
    concerned: set[str] = set()
    for write in writes:
        if not isinstance(write, Add) or not isinstance(write.record, SpendingRecord):
            continue
        before = spending.pot(place_of(write.record))
        spending.take(write.record)
        limit = limits.get(write.record.budget)
        if limit is None:
            continue
        limit += before.raised_micros
        after = before.spent_micros + write.record.spent_micros
        if write.record.raised_micros or before.spent_micros < limit <= after:
            concerned.add(write.record.tenant_id)
    return concerned


def shown(budgets: Iterable[BudgetRule], spending: Spending, tenant_id: str, now_ms: int) -> list[resources.Budget]:
    """Return a tenant's budgets with their current usage."""
    return [_shown(budget, spending, tenant_id, now_ms) for budget in budgets if budget.tenant in (None, tenant_id)]


def _shown(budget: BudgetRule, spending: Spending, tenant_id: str, now_ms: int) -> resources.Budget:
    pots: list[resources.BudgetPot] = []
    left_out = 0
    if budget.day_micros is not None:
        limit = budget.day_micros
        found = spending.of(tenant_id, budget.name, now_ms // DAY_MS)
        if budget.each == "tenant" and not found:
            found = [("", Pot())]
        found.sort(key=lambda one: limit + one[1].raised_micros - one[1].spent_micros)
        left_out = max(0, len(found) - POTS_SHOWN)
        pots = [resources.BudgetPot(scope=scope, used_usd=dollars(pot.spent_micros), raised_usd=dollars(
            pot.raised_micros), limit_usd=dollars(limit + pot.raised_micros)) for scope, pot in found[:POTS_SHOWN]]
    agents = [budget.agent] if isinstance(budget.agent, str) else budget.agent or []
    return resources.Budget(
        name=budget.name, agent=agents, session=budget.session, each=budget.each,
        tokens_per_turn=budget.tokens_per_turn, usd_per_day=budget.usd_per_day,
        resets_at=iso(next_day_ms(now_ms)), pots=pots, pots_left_out=left_out,
    )
