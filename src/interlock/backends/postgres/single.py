"""A whole transaction as one statement, and so in one round trip: locks, rows, events, audit records, and the commit.

It is a `WITH` whose parts are the statements of `tables` and `statements`. All of its parts see the database as it was
before the statement, so a group has this form only if none of its parts reads what another one writes. The conditions
are checked by the statement itself, which fails as a whole if one is violated: the lanes have the expected epochs
(C-4), the audit heads are the ones that the records were sealed behind (U-2), and it was not decided that this
transaction never happened (`DECIDE_WRITER`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

NOTED = """
INSERT INTO writer (id, number, heads)
SELECT $1::text, $2::bigint, coalesce((SELECT array_agg(head ORDER BY name COLLATE "C") FROM grown), '{}')
ON CONFLICT (id) DO UPDATE SET number = excluded.number, heads = excluded.heads, at = excluded.at
WHERE writer.number < excluded.number RETURNING heads
"""
NOTED_CHANGE = """
INSERT INTO writer (id, number, heads) SELECT $1::text, $2::bigint, ARRAY[(SELECT count(*) FROM changed)]
ON CONFLICT (id) DO UPDATE SET number = excluded.number, heads = excluded.heads, at = excluded.at
WHERE writer.number < excluded.number RETURNING heads
"""
NOTED_NUMBERS = """
INSERT INTO writer (id, number, heads) SELECT $1::text, $2::bigint, (SELECT numbers FROM changed)
ON CONFLICT (id) DO UPDATE SET number = excluded.number, heads = excluded.heads, at = excluded.at
WHERE writer.number < excluded.number RETURNING heads
"""
HELD = """
SELECT 1 FROM lane JOIN unnest($1::text[], $2::text[], $3::bigint[]) AS args (tenant_id, name, epoch)
    USING (tenant_id, name)
WHERE lane.epoch = args.epoch ORDER BY lane.name FOR SHARE OF lane
"""
MOVE_HEADS = """
UPDATE audit_head SET count = args.count, last_hash = args.last_hash, peaks = args.peaks
FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bytea[], $5::bigint[], $6::text[])
    AS args (tenant_id, count, last_hash, peaks, old_count, old_hash)
WHERE audit_head.tenant_id = args.tenant_id AND audit_head.count = args.old_count
  AND audit_head.last_hash = args.old_hash AND NOT audit_head.frozen
RETURNING 1
"""
_NUMBER = re.compile(r"\$(\d+)")


Check = Literal["fenced", "head", "decided", "transcript", "refused"]
Reason = Check | Literal["work", "writes", "bound"]
"""Why a group is committed step by step: a lane has another epoch or owner; another gateway moved an audit head; the
number was abandoned; a transcript may not have begun; it is work that needs a transaction; its writes depend on each
other; a log may be at its bound; or a batch was refused, which is identified step by step."""
CHECKS: tuple[Check, ...] = get_args(Check)


class NotedChange(NamedTuple):
    """A statement that changes rows: its parts number their values together, and `noted` reads the one named
    `changed`."""

    parts: Sequence[tuple[str, str]]
    values: Sequence[Any]
    noted: str = NOTED_CHANGE


class NotAtOnce(Exception):
    """Raised if a group cannot be committed as one statement. Nothing of it was committed."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


class Single:
    """A builder of the statement. What is added first locks its rows first."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._parts: list[str] = []
        self._columns: list[str] = []

    def add(self, parts: Sequence[tuple[str, str]], values: Sequence[Any]) -> None:
        """Add named parts that number their values together."""
        first = len(self.values)
        self.values.extend(values)
        self._parts.extend(f"{name} AS ({_NUMBER.sub(lambda found: f'${int(found[1]) + first}', sql)})"
                           for name, sql in parts)

    def change(self, name: str, sql: str, values: Sequence[Any]) -> None:
        """Add a part that changes rows, in this place of the order in which rows are locked."""
        self.add([(name, sql if "RETURNING" in sql else f"{sql} RETURNING 1")], values)
        self._columns.append(f"(SELECT count(*) FROM {name})")

    def check(self, reason: Check, part: str, expected: int) -> None:
        """Fail the statement unless a part has the `expected` number of rows."""
        # A cast that cannot be done needs no function in the schema.
        self._columns.append(f"CAST(CASE WHEN (SELECT count(*) FROM {part}) = ${self._value(expected)}::bigint "
                             f"THEN '0' ELSE '{reason}' END AS integer)")

    def sql(self) -> str:
        """Return the statement. The last value of its one row is the new heads of the streams, ordered by name."""
        # Each value runs its part in its turn, from the left: the parts lock in one order in every statement.
        return f"WITH {', '.join(self._parts)} SELECT {', '.join(self._columns)}, (SELECT heads FROM noted)"

    def _value(self, value: Any) -> int:
        self.values.append(value)
        return len(self.values)
