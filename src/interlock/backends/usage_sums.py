"""The statement that sums usage, grouped as requested (J-13): the same for every database but for its parameters."""

from __future__ import annotations

from collections.abc import Sequence, Set

from interlock.ports.usage import UsageQuery, UsageSums
from interlock.protocol.records import USAGE_FIGURES, UsageRecord
from interlock.protocol.resources import UsageDimension

_PLACE: tuple[tuple[UsageDimension, str, str], ...] = (
    ("day", "day", "0"), ("agent", "agent_id", "''"), ("model", "model", "''"), ("session", "session_id", "''"),
    ("person", "person", "''"),
)
"""Each dimension of usage, its column, and the value of the column if usage is not grouped by it."""


def usage_sums(by: Set[UsageDimension], values: Sequence[str]) -> str:
    """Write the statement; `asked` are its parameters, as the database writes them, in the order of `parameters`. Each
    row has a place, its figures, and how many rows there are without the limit."""
    tenant_id, first_day, last_day, agent_id, model, session_id, person, limit = values
    apart = [column for name, column, _ in _PLACE if name in by]
    places = ", ".join(column if name in by else f"{nothing} AS {column}" for name, column, nothing in _PLACE)
    sums = ", ".join(f"CAST(coalesce(sum({name}), 0) AS bigint) AS {name}" for name in USAGE_FIGURES)
    return f"""
SELECT found.*, count(*) OVER () FROM (
    SELECT {places}, {sums} FROM daily_usage
    WHERE tenant_id = {tenant_id} AND day BETWEEN {first_day} AND {last_day}
      AND ({agent_id} IS NULL OR agent_id = {agent_id}) AND ({model} IS NULL OR model = {model})
      AND ({session_id} IS NULL OR session_id = {session_id}) AND ({person} IS NULL OR person = {person})
    {f"GROUP BY {', '.join(apart)}" if apart else ""}
) AS found
ORDER BY day DESC, input_tokens + output_tokens DESC, agent_id, model, session_id, person LIMIT {limit}
"""


def parameters(query: UsageQuery) -> tuple[str | int | None, ...]:
    """Return the query's values, in the order of the statement."""
    return (query.tenant_id, query.first_day, query.last_day, query.agent_id, query.model, query.session_id,
            query.person, query.limit)


def read(query: UsageQuery, found: Sequence[Sequence[str | int]], whole: Sequence[str | int]) -> UsageSums:
    """Read the rows of the statement, and of the one that keeps nothing apart."""
    return UsageSums([_record(query.tenant_id, row) for row in found], int(found[0][-1]) if found else 0,
                     _record(query.tenant_id, whole))


def _record(tenant_id: str, row: Sequence[str | int]) -> UsageRecord:
    day, agent_id, model, session_id, person, *figures = row
    return UsageRecord(
        tenant_id=tenant_id, day=int(day), agent_id=str(agent_id), model=str(model), session_id=str(session_id),
        person=str(person), **{name: int(one) for name, one in zip(USAGE_FIGURES, figures[:-1], strict=True)})
