"""Budgets (P-7): what a turn may take in tokens and a day in money, and the pots that money is counted in.

Money is whole micro-dollars inside and a decimal string outside. The day is that of UTC. What was said of pots adds up
in any order, so that sessions which share one need not wait for each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

import msgspec

from interlock.command.policy import QuorumGroup, duration_ms
from interlock.protocol.limits import APPROVAL_TTL_MAX_MS
from interlock.protocol.records import SpendingRecord

DAY_MS = 24 * 60 * 60 * 1000
MICROS = 1_000_000
MAX_MICROS = 2**53 - 1
"""Amounts above this are not distinguished (U-2 holds integers below 2^53)."""
MAX_BUDGETS = 100
"""Budgets of a config: each frame that reports money is checked against all of them."""
MAX_TOKENS = 10**12

_MONEY = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,6}))?")

Measure = Literal["tokens_per_turn", "usd_per_day"]


def micros(text: str) -> int:
    """Read "2.50" as micro-dollars. Raises ValueError."""
    found = _MONEY.fullmatch(text)
    if found is None:
        raise ValueError(f'{text!r} is not an amount of dollars: write a decimal string such as "2.50"')
    return int(found[1]) * MICROS + int((found[2] or "").ljust(6, "0"))


def dollars(amount: int) -> str:
    """Write micro-dollars as a decimal string with two places at least: "2.50", "0.000125"."""
    whole, part = divmod(amount, MICROS)
    return f"{whole}.{f'{part:06d}'.rstrip('0').ljust(2, '0')}"


def measured(usd: float) -> int:
    """Take a figure of an agent, in dollars, as micro-dollars; one below zero or beyond all money is cut."""
    return round(min(max(usd, 0.0) * MICROS, MAX_MICROS))


def grown(before: float, total: float, *, estimated: bool) -> int | None:
    """Return by how many micro-dollars an agent's running total of dollars has grown since `before`. One that has
    shrunk began again, in a runner that lost its outbox; None if it is an estimate after a crash, where 0 means
    what is not known."""
    if total < before and estimated:
        return None
    return measured(total) - (measured(before) if total >= before else 0)


class BudgetRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[[budgets]]`: whom it covers, what they may use, and who may raise it.

    `agent` is a glob, or several; `session` is a glob on a session's key, or its id; what is left out covers all.
    `usd_per_day` is one pot for each tenant, agent or session, as `each` says. `required`, `groups`, `self` and `ttl`
    are those of a rule of policy: they hold for the question whether to go on. Raises ValueError with one sentence that
    begins with the field's name.
    """

    name: str
    tenant: str | None = None
    agent: str | list[str] | None = None
    session: str | None = None
    each: Literal["tenant", "agent", "session"] = "tenant"
    tokens_per_turn: int | None = None
    usd_per_day: str | None = None
    required: int = 1
    groups: list[QuorumGroup] = []
    self_approval: bool = msgspec.field(name="self", default=True)
    ttl: str | None = None

    def __post_init__(self) -> None:
        if not 0 < len(self.name) <= 128:
            raise ValueError("name: a budget needs a name of at most 128 characters, which people are shown")
        if self.tokens_per_turn is None and self.usd_per_day is None:
            raise ValueError("tokens_per_turn: a budget limits something: tokens_per_turn, usd_per_day, or both")
        if self.tokens_per_turn is not None and not 0 < self.tokens_per_turn <= MAX_TOKENS:
            raise ValueError(f"tokens_per_turn: a number of tokens from 1 to {MAX_TOKENS}")
        if self.usd_per_day is not None and _amount(self.usd_per_day) == 0:
            raise ValueError("usd_per_day: more than nothing; to allow nothing, deny it with a rule of policy")
        if self.required < 1:
            raise ValueError("required: at least one vote is needed")
        if self.ttl is not None and not 0 < duration_ms(self.ttl) <= APPROVAL_TTL_MAX_MS:
            raise ValueError("ttl: an approval lives 30 days at most")

    @property
    def day_micros(self) -> int | None:
        """`usd_per_day` in micro-dollars."""
        return None if self.usd_per_day is None else micros(self.usd_per_day)

    def covers(self, tenant_id: str, agent_id: str, session_id: str, session_key: str) -> bool:
        """Whether a session's work is counted."""
        agents = [self.agent] if isinstance(self.agent, str) else self.agent or ["*"]
        return (
            self.tenant in (None, tenant_id)
            and any(fnmatchcase(agent_id, agent) for agent in agents)
            and (self.session is None or self.session == session_id or fnmatchcase(session_key, self.session))
        )

    def scope(self, agent_id: str, session_id: str) -> str:
        """Which of the tenant's pots of this budget a session's money comes from."""
        return {"tenant": "", "agent": agent_id, "session": session_id}[self.each]


def _amount(text: str) -> int:
    try:
        return micros(text)
    except ValueError as error:
        raise ValueError(f"usd_per_day: {error}") from None


class BudgetUse(NamedTuple):
    """Where a pot stands. `day` counts from 1970-01-01, UTC."""

    tenant_id: str
    budget: str
    scope: str
    day: int


class Pot(NamedTuple):
    """What was spent of a pot, and by how much people raised its limit, in micro-dollars."""

    spent_micros: int = 0
    raised_micros: int = 0

    def plus(self, record: SpendingRecord) -> Pot:
        """The pot with more of it spent, or raised."""
        return Pot(min(self.spent_micros + record.spent_micros, MAX_MICROS),
                   min(self.raised_micros + record.raised_micros, MAX_MICROS))


def place_of(record: SpendingRecord) -> BudgetUse:
    """Name the pot of a row."""
    return BudgetUse(record.tenant_id, record.budget, record.scope, record.day)


class Spending:
    """The pots of today, as they are durable."""

    def __init__(self, records: Iterable[SpendingRecord] = ()) -> None:
        self.replace(records)

    def replace(self, records: Iterable[SpendingRecord]) -> None:
        """Take all pots again, as the ledger has them."""
        self._pots: dict[BudgetUse, Pot] = {}
        self._day = 0
        for record in records:
            self.take(record)

    def pot(self, place: BudgetUse) -> Pot:
        """Return a pot; one of which nothing is known is untouched."""
        return self._pots.get(place, Pot())

    def records(self) -> list[SpendingRecord]:
        """Return every pot as a row, in the order of their places."""
        return [SpendingRecord(tenant_id=place.tenant_id, budget=place.budget, scope=place.scope, day=place.day,
                               spent_micros=pot.spent_micros, raised_micros=pot.raised_micros)
                for place, pot in sorted(self._pots.items())]

    def take(self, record: SpendingRecord) -> None:
        """Add what a committed row adds; days before the last one are forgotten, for nothing asks for them."""
        if record.day > self._day:
            self._day = record.day
            self._pots = {place: pot for place, pot in self._pots.items() if place.day >= record.day - 1}
        place = place_of(record)
        self._pots[place] = self.pot(place).plus(record)

    def of(self, tenant_id: str, budget: str, day: int) -> list[tuple[str, Pot]]:
        """A tenant's pots of a budget with their scopes, in their order."""
        return sorted((place.scope, pot) for place, pot in self._pots.items()
                      if (place.tenant_id, place.budget, place.day) == (tenant_id, budget, day))
