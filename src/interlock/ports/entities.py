"""Entities of the ledger, each declared once with its table, columns and keys; the backends derive the statements.

An entity is a record that is stored, read and deleted by itself: a key, a runner, a rule. To add one, write its record
and its declaration here; every ledger creates its table when it is opened next, `Put` and `Entities.rows` support it,
and `interlock migrate` copies it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from interlock.protocol.records import (
    USAGE_FIGURES,
    BrowserLoginRecord,
    DeliveryRecord,
    DrainRecord,
    KeyRecord,
    PairingRecord,
    Record,
    RuleRecord,
    RunnerRecord,
    SigningKeyRecord,
    SpendingRecord,
    TenantRecord,
    UsageRecord,
)

R = TypeVar("R", bound=Record)
Value = str | int | bytes | None
Engine = Literal["sqlite", "postgres"]


class Column(NamedTuple):
    """A column in addition to the body. `value` reads it from a record."""

    name: str
    value: Callable[[Any], Any]
    kind: type[str | int | bool] = str
    optional: bool = False
    unique: str = ""
    """The error message for a second row with this value; "" if several are allowed."""
    noted: bool = False
    """Whether it is written by `Note` only, and overrides the record's field of the same name when read."""
    kept: bool = False
    """Whether a later `Put` of the row leaves the column unchanged."""
    engine: Engine | None = None
    """The only engine whose table has this column."""


def text(name: str, at: str = "", **more: Any) -> Column:
    """Declare a text column, read from the record's field of this name, or from the path `at`."""
    return Column(name, _reader(at or name), **more)


def number(name: str, at: str = "", **more: Any) -> Column:
    """Declare an integer column."""
    return Column(name, _reader(at or name), int, **more)


@dataclass(frozen=True, eq=False)
class Entity(Generic[R]):
    """The declaration of how a record is stored. The key's columns come first in `columns`."""

    table: str
    record: type[R]
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    body: bool = True
    """Whether the record is stored as JSON; otherwise its fields are the columns."""
    ordered: bool = False
    """Whether rows keep their order of insertion (`place`)."""
    once: str = ""
    """The error message for a second row of the same key; "" if a later one replaces it."""
    adds: tuple[str, ...] = ()
    """Columns to which a later `Add` of the same key adds."""
    expires: str = ""
    """The column that `Expire` compares, and `Redeem`."""
    missing: str = ""
    """The error message of `Spent`: the row does not exist, or has expired."""
    indexes: tuple[tuple[str, ...], ...] = ()
    """Further indexes of a table that is created from this declaration."""

    @property
    def order(self) -> tuple[str, ...]:
        """Return the columns by which rows are listed in order."""
        return ("place",) if self.ordered else self.key

    @property
    def noted(self) -> Column | None:
        """Return the column that `Note` writes."""
        return next((column for column in self.columns if column.noted), None)

    def columns_in(self, engine: Engine) -> tuple[Column, ...]:
        """Return the columns that the table has in a database, without `place` and `body`."""
        return tuple(column for column in self.columns if column.engine in (None, engine))

    def key_of(self, record: R) -> tuple[Value, ...]:
        """Return a record's key."""
        return tuple(column.value(record) for column in self.columns[: len(self.key)])


Op = Literal["=", ">", "<=", "in"]


class RowCondition(NamedTuple):
    """A condition on a column; all conditions of a query must hold."""

    column: str
    op: Op
    value: Value | Sequence[str]


class Entities(Protocol):
    """Reads of entities. The ledger's guarantees apply."""

    async def select(self, entity: Entity[R], where: Sequence[RowCondition], order: Sequence[str], limit: int | None
                     ) -> list[R]:
        """Return the rows that fit, ordered by these columns ("-place": the last first)."""
        ...

    async def count(self, entity: Entity[R], *where: RowCondition) -> int:
        """Return how many rows fit."""
        ...

    async def rows(self, entity: Entity[R], *where: RowCondition) -> list[R]:
        """Return the rows that fit, in the entity's order."""
        return await self.select(entity, where, entity.order, None)

    async def one(self, entity: Entity[R], *where: RowCondition) -> R | None:
        """Return the row that matches, of which there is at most one; None if there is none."""
        found = await self.select(entity, where, (), 1)
        return found[0] if found else None


def equal(column: str, value: Value) -> RowCondition:
    """Build a condition: the column has this value."""
    return RowCondition(column, "=", value)


def equal_if_set(column: str, value: Value) -> tuple[RowCondition, ...]:
    """Build the same condition, or none without a value."""
    return () if value is None else (RowCondition(column, "=", value),)


def _reader(path: str) -> Callable[[Any], Any]:
    first, *names = path.split(".")

    def read(record: Any) -> Any:
        value = getattr(record, first)
        for name in names:
            value = getattr(value, name)
        return value

    return read


def _last_used_ms(record: KeyRecord) -> int:
    return record.last_used_ms or 0


def _revoked(record: RuleRecord) -> bool:
    return record.rule.revoked_at is not None


def _drained(record: DrainRecord) -> str:
    return record.drain.id or ""


RUNNERS = Entity(
    "runner", RunnerRecord, ("runner_id",), ordered=True,
    columns=(text("runner_id"), text("tenant_id"), text("token_sha256", unique="Another runner has this token."),
             number("last_seen_ms", noted=True)))
"""Paired runners (L-3). The time of last contact is stored beside the body: a `Note` never restores an older token."""
PAIRINGS = Entity(
    "pairing", PairingRecord, ("code_sha256",), once="This code is in use already.", expires="expires_ms",
    missing="This code is not known, or no longer good.",
    columns=(text("code_sha256"), text("tenant_id"), number("expires_ms")))
"""One-time codes that pair a runner (L-3)."""
BROWSER_LOGINS = Entity(
    "browser_login", BrowserLoginRecord, ("id",), once="This browser session or code exists already.",
    expires="expires_ms", missing="This browser session or code is not known, or no longer good.",
    columns=(text("id"), text("tenant_id"), number("expires_ms"), number("last_used_ms", noted=True)))
"""Browser sessions, and the one-time codes that open them (J-10, J-15)."""
KEYS = Entity(
    "api_key", KeyRecord, ("key_id",),
    columns=(text("key_id"), text("key_sha256", unique="Another key has this secret."), text("tenant_id"),
             Column("last_used_ms", _last_used_ms, int, noted=True, kept=True)))
"""API keys (K-1). `last_used_ms` is 0 for a key that was never used."""
TENANTS = Entity("tenant", TenantRecord, ("tenant_id",), columns=(text("tenant_id"),))
RULES = Entity(
    "remembered_rule", RuleRecord, ("id",), ordered=True,
    columns=(text("id", "rule.id"), text("tenant_id", "rule.tenant_id"),
             Column("revoked", _revoked, bool)))
"""Remembered rules (A-9); revoked rules stay visible."""
SIGNING_KEYS = Entity(
    "signing_key", SigningKeyRecord, ("key_id",), ordered=True,
    columns=(text("key_id", "key.key_id"), text("tenant_id", "key.tenant_id")))
"""Public keys for signed votes (P-4)."""
DRAINS = Entity(
    "drain", DrainRecord, ("tenant_id", "scope", "name"), ordered=True,
    columns=(text("tenant_id"), text("scope", "drain.scope"), Column("name", _drained)))
"""Scopes that start no new work for now (C-5). `name` is "" if the scope is the whole gateway."""
DELIVERIES = Entity(
    "delivery", DeliveryRecord, ("id",), ordered=True,
    columns=(text("id", "delivery.id"), text("tenant_id", "delivery.tenant_id"), text("state", "delivery.state"),
             number("due_ms", optional=True), text("created_at", "delivery.created_at", kept=True, engine="postgres")))
"""Outgoing notices to approvers (P-8); `due_ms` is None after a delivery has ended."""
SPENDING = Entity(
    "spending", SpendingRecord, ("tenant_id", "budget", "scope", "day"), body=False, expires="day",
    adds=("spent_micros", "raised_micros"),
    columns=(text("tenant_id"), text("budget"), text("scope"), number("day"), number("spent_micros"),
             number("raised_micros")))
"""Usage that budgets count (P-7): a row for each tenant, budget, scope and day."""
USAGE = Entity(
    "daily_usage", UsageRecord, ("tenant_id", "day", "agent_id", "model", "session_id", "person"), body=False,
    expires="day", adds=USAGE_FIGURES,
    columns=(text("tenant_id"), number("day"), text("agent_id"), text("model"), text("session_id"), text("person"),
             *(number(name) for name in USAGE_FIGURES)))
"""Usage that agents reported per day (J-13)."""

MIGRATED: tuple[Entity[Any], ...] = (
    RUNNERS, PAIRINGS, BROWSER_LOGINS, KEYS, RULES, DRAINS, SIGNING_KEYS, SPENDING, USAGE, TENANTS, DELIVERIES)
"""Entities whose tables the numbered migrations create."""
DECLARED: tuple[Entity[Any], ...] = ()
"""Entities whose tables are created from their declarations when a ledger that lacks them is opened."""
ENTITIES = MIGRATED + DECLARED
"""All, in the order in which a transaction locks their rows."""
BOUND: tuple[Entity[Any], ...] = (KEYS, RULES, SIGNING_KEYS, TENANTS, RUNNERS, DRAINS)
"""Entities whose rows the audit log binds by digest (H-5), and that stay until a request removes them."""
_BY_RECORD: dict[type[Record], Entity[Any]] = {entity.record: entity for entity in ENTITIES}


OF_ANOTHER_TENANT = "Another tenant has a row of this name."
"""The error message for a `Put` that would take over another tenant's row."""


def entity_of(record: Record) -> Entity[Any]:
    """Return how a record is stored."""
    return _BY_RECORD[type(record)]


def with_noted(entity: Entity[R], record: R, value: int) -> R:
    """Return a record with the value of its noted column; 0 leaves the record's own value."""
    column = entity.noted
    return record if column is None or not value else msgspec.structs.replace(record, **{column.name: value})
