"""The mapping between rows of the ledger's file and those of PostgreSQL: one line per table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from interlock.backends.entity_rows import record_of
from interlock.backends.postgres.texts import decoded, encoded
from interlock.ports.entities import ENTITIES, Entity

Row = tuple[Any, ...]
STREAM_BITS = 32
"""`event.place` of the file is the stream's number shifted by this, plus n."""


class MigratedTable(NamedTuple):
    """`name` is the same on both sides. Columns with the same name and meaning are `columns`; `there` are further ones
    of PostgreSQL, which `make` derives from a row of the file and `back` removes. `order` is that of the file."""

    name: str
    columns: tuple[str, ...]
    order: str
    there: tuple[str, ...] = ()
    make: Callable[[Row], Row] = lambda row: row
    back: Callable[[Row], Row] = lambda row: row
    counter: str = ""
    """The column that PostgreSQL counts by itself, to continue after the moved rows."""


class _Created(msgspec.Struct):
    created_ms: int


class _File(msgspec.Struct):
    objects: list[str]


_created = msgspec.json.Decoder(_Created)
_file = msgspec.json.Decoder(_File)


def _event_there(row: Row) -> Row:
    place, *rest = row
    return place >> STREAM_BITS, place & (2**STREAM_BITS - 1), *rest


def _event_here(row: Row) -> Row:
    stream_id, n, *rest = row
    return (stream_id << STREAM_BITS) + n, *rest


def _personal_there(row: Row) -> Row:
    return (*row[:-1], row[-1].encode())


def _personal_here(row: Row) -> Row:
    return (*row[:-1], bytes(row[-1]).decode())


def _command_there(row: Row) -> Row:
    return (*row, _created.decode(row[-1]).created_ms)


def _file_there(row: Row) -> Row:
    return (*row, _file.decode(row[-1]).objects)


def _without_last(row: Row) -> Row:
    return row[:-1]


def _of_entity(entity: Entity[Any]) -> MigratedTable:
    """Return the mapping of an entity's rows: as declared, with PostgreSQL's additional columns derived from the
    body."""
    place = ("place",) if entity.ordered else ()
    both = entity.columns_in("sqlite")
    only = [column for column in entity.columns_in("postgres") if column not in both]
    flags = [len(place) + number for number, column in enumerate(both) if column.kind is bool]

    def kinds(row: Row, kind: type[int]) -> Row:
        return tuple(kind(value) if number in flags else value for number, value in enumerate(row))

    def there(row: Row) -> Row:
        further = [column.value(record_of(entity, (row[-1], 0))) for column in only]
        return (*kinds(row, bool), *further)

    def back(row: Row) -> Row:
        return kinds(row[: len(row) - len(only)], int)

    return MigratedTable(
        entity.table, (*place, *(column.name for column in both), *(["body"] if entity.body else [])),
        ", ".join(entity.order), tuple(column.name for column in only), there, back, "place" if entity.ordered else "")


_EVENT = ("kind", "at_ms", "message_id", "body")
TABLES = (
    MigratedTable("store", ("name", "value"), "name"),
    MigratedTable("lane", ("name", "epoch"), "name"),
    MigratedTable("session",
                  ("place", "session_id", "tenant_id", "session_key", "agent_id", "runner_id", "workspace", "state",
                              "created_ms", "updated_ms", "deadline_ms", "usage", "machine"), "place", counter="place"),
    MigratedTable("command",
                  ("place", "id", "tenant_id", "session_id", "state", "agent_id", "actor_id", "ended_ms", "type",
                              "body"), "place", ("created_ms",), _command_there, _without_last, "place"),
    # After sessions and commands: PostgreSQL finds the tenant of a stream by them, and that of an event by its stream.
    MigratedTable("stream", ("id", "name", "head"), "id", counter="id"),
    MigratedTable("event", ("place", *_EVENT), "place", ("stream_id", "n", *_EVENT), _event_there, _event_here),
    MigratedTable("approval", ("place", "id", "tenant_id", "session_id", "state", "body"), "place", counter="place"),
    MigratedTable("control", ("session_id", "seq", "message_id", "body"), "session_id, seq"),
    MigratedTable("file", ("place", "session_id", "transfer_id", "body"), "place", ("objects",),
                  _file_there, _without_last, "place"),
    MigratedTable("idempotency", ("scope", "fingerprint", "status", "headers", "created_ms", "command_id", "body"),
                  "scope"),
    *map(_of_entity, ENTITIES),
    MigratedTable("audit", ("tenant_id", "seq", "hash", "body"), "tenant_id, seq"),
    MigratedTable("audit_node", ("tenant_id", "level", "place", "hash"), "tenant_id, level, place"),
    MigratedTable("audit_head", ("tenant_id", "count", "last_hash", "peaks"), "tenant_id"),
    MigratedTable("audit_personal", ("tenant_id", "seq", "name", "who", "salt", "value"), "tenant_id, seq, name", (),
                  _personal_there, _personal_here),
)
NOT_MOVED = ("instance", "runner_link", "transcript_pending")
"""The ledger's current users, and lines that wait for a file: those go to the transcripts themselves."""


def columns_there(table: MigratedTable) -> tuple[str, ...]:
    """Return PostgreSQL's columns."""
    return table.there if table.there and table.there[-1] in table.columns else (*table.columns, *table.there)


def row_there(table: MigratedTable, row: Row) -> Row:
    """Convert a row of the file to one of PostgreSQL."""
    return tuple(encoded(one) if isinstance(one, str) else one for one in table.make(tuple(row)))


def row_here(table: MigratedTable, row: Row) -> Row:
    """Convert a row of PostgreSQL to one of the file."""
    return table.back(tuple(decoded(one) if isinstance(one, str) else one for one in row))
