"""Budgets (P-7): limits of a turn in tokens and of a day in money, and the pots that count the money.

Money is integer micro-dollars internally and a decimal string externally. The day is that of UTC. Changes of pots are
commutative, so that sessions that share one need not wait for each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

import msgspec

from interlock.command.policy.policy import QuorumGroup, duration_ms
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
    """Return an agent's figure in dollars as micro-dollars, limited to the range from zero to MAX_MICROS."""
    return round(min(max(usd, 0.0) * MICROS, MAX_MICROS))


def grown(before: float, total: float, *, estimated: bool) -> int | None:
    """Return by how many micro-dollars an agent's running total of dollars has grown since `before`. A smaller total
    started again, in a runner that lost its outbox; None if it is an estimate after a crash, where 0 means unknown."""
    if total < before and estimated:
        return None
    return measured(total) - (measured(before) if total >= before else 0)


class BudgetRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[[budgets]]`: its scope, its limit, and who may raise it.

    `agent` is a glob, or several; `session` is a glob on a session's key, or its id; an omitted field covers all.
    `usd_per_day` is one pot for each tenant, agent or session, as `each` names. `required`, `groups`, `self` and `ttl`
    are those of a rule of policy: they apply to the question whether to continue. Raises ValueError with one sentence
    that begins with the field's name.
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
        """Return `usd_per_day` in micro-dollars."""
        return None if self.usd_per_day is None else micros(self.usd_per_day)

    def covers(self, tenant_id: str, agent_id: str, session_id: str, session_key: str) -> bool:
        """Return whether a session's work is counted."""
        agents = [self.agent] if isinstance(self.agent, str) else self.agent or ["*"]
        return (
            self.tenant in (None, tenant_id)
            and any(fnmatchcase(agent_id, agent) for agent in agents)
            and (self.session is None or self.session == session_id or fnmatchcase(session_key, self.session))
        )

    def scope(self, agent_id: str, session_id: str) -> str:
        """Return which of the tenant's pots of this budget counts a session's money."""
        return {"tenant": "", "agent": agent_id, "session": session_id}[self.each]


def _amount(text: str) -> int:
    try:
        return micros(text)
    except ValueError as error:
        raise ValueError(f"usd_per_day: {error}") from None


class BudgetUse(NamedTuple):
    """The key of a pot. `day` counts from 1970-01-01, UTC."""

    tenant_id: str
    budget: str
    scope: str
    day: int


class Pot(NamedTuple):
    """The usage of a pot, and by how much its limit was raised, in micro-dollars."""

    spent_micros: int = 0
    raised_micros: int = 0

    def plus(self, record: SpendingRecord) -> Pot:
        """Return the pot with the record's usage or raise added."""
        return Pot(min(self.spent_micros + record.spent_micros, MAX_MICROS),
                   min(self.raised_micros + record.raised_micros, MAX_MICROS))


def place_of(record: SpendingRecord) -> BudgetUse:
    """Return the key of a row's pot."""
    return BudgetUse(record.tenant_id, record.budget, record.scope, record.day)


class Spending:
    """Today's pots, as they are durable."""

    def __init__(self, records: Iterable[SpendingRecord] = ()) -> None:
        self.replace(records)

    def replace(self, records: Iterable[SpendingRecord]) -> None:
        """Replace all pots by those of the ledger."""
        self._pots: dict[BudgetUse, Pot] = {}
        self._day = 0
        for record in records:
            self.take(record)

    def pot(self, place: BudgetUse) -> Pot:
        """Return a pot; an unknown one is unused."""
        return self._pots.get(place, Pot())

    def records(self) -> list[SpendingRecord]:
        """Return every pot as a row, in the order of their places."""
        return [SpendingRecord(tenant_id=place.tenant_id, budget=place.budget, scope=place.scope, day=place.day,
                               spent_micros=pot.spent_micros, raised_micros=pot.raised_micros)
                for place, pot in sorted(self._pots.items())]

    def take(self, record: SpendingRecord) -> None:
        """Add a committed row; days before the last one are dropped, since they are never read."""
        if record.day > self._day:
            self._day = record.day
            self._pots = {place: pot for place, pot in self._pots.items() if place.day >= record.day - 1}
        place = place_of(record)
        self._pots[place] = self.pot(place).plus(record)

    def of(self, tenant_id: str, budget: str, day: int) -> list[tuple[str, Pot]]:
        """Return a tenant's pots of a budget with their scopes, in order."""
        return sorted((place.scope, pot) for place, pot in self._pots.items()
                      if (place.tenant_id, place.budget, place.day) == (tenant_id, budget, day))
