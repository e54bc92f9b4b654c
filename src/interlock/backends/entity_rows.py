"""Conversion between entities and rows of a database, and the parts of SQL that the databases share."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol, TypeVar

import msgspec

from interlock.ports.entities import Column, Engine, Entity, Op, RowCondition, with_noted
from interlock.protocol.records import Record

R = TypeVar("R", bound=Record)
Row = tuple[Any, ...]
_encode = msgspec.json.Encoder().encode


class Marks(Protocol):
    """Returns a database's SQL for a value that is bound later."""

    def __call__(self, where: RowCondition, number: int, column: Column) -> str:
        """Return the condition that a column has with the value of this number."""
        ...


def row_of(entity: Entity[Any], record: Record, engine: Engine) -> Row:
    """Return a record's columns, as `names` names them."""
    values = [column.value(record) for column in entity.columns_in(engine)]
    return (*values, _encode(record)) if entity.body else tuple(values)


def searched(entity: Entity[Any], engine: Engine, record: Record) -> Row:
    """Return the columns that a row is found by; those of a row are compared with its body's (H-5)."""
    return tuple(column.value(record) for column in entity.columns_in(engine) if not column.noted)


def names(entity: Entity[Any], engine: Engine) -> list[str]:
    """Return the names of the columns that a row is written with."""
    return [*(column.name for column in entity.columns_in(engine)), *(["body"] if entity.body else [])]


def record_of(entity: Entity[R], row: Row) -> R:
    """Read the columns that `selected` names. Raises msgspec.MsgspecError."""
    if not entity.body:
        return entity.record(**{column.name: value for column, value in zip(entity.columns, row, strict=True)})
    record: R = _decoder(entity).decode(row[0])
    return with_noted(entity, record, row[1]) if entity.noted is not None else record


def selected(entity: Entity[Any]) -> str:
    """Return the columns that a record is read from."""
    if not entity.body:
        return ", ".join(column.name for column in entity.columns)
    return "body" if entity.noted is None else f"body, {entity.noted.name}"


def shape(where: Sequence[RowCondition]) -> tuple[tuple[str, Op], ...]:
    """Return conditions without their values: a statement is built once for each shape."""
    return tuple(one[:2] for one in where)


def select(entity: Entity[Any], where: Sequence[RowCondition], order: Sequence[str], marks: Marks, limit: str) -> str:
    """Return the statement that reads rows; `limit` is the mark of the last value, or ""."""
    conditions = _where(entity, where, marks)
    ordered = ", ".join(f"{name[1:]} DESC" if name.startswith("-") else name for name in order)
    return (f"SELECT {selected(entity)} FROM {entity.table}{conditions}"
            f"{f' ORDER BY {ordered}' if ordered else ''}{f' LIMIT {limit}' if limit else ''}")


def count(entity: Entity[Any], where: Sequence[RowCondition], marks: Marks) -> str:
    """Return the statement that counts rows."""
    return f"SELECT count(*) FROM {entity.table}{_where(entity, where, marks)}"


def on_conflict(entity: Entity[Any], engine: Engine) -> str:
    """Return the clause for a row that is put again; "" if that is refused."""
    if entity.once:
        return ""
    if entity.adds:
        changed = [f"{name} = {entity.table}.{name} + excluded.{name}" for name in entity.adds]
    else:
        changed = [f"{name} = excluded.{name}" for name in changed_by_put(entity, engine)]
    if engine == "postgres":  # By its tenant: the form in which rows can be distributed.
        return f"ON CONFLICT ({', '.join(tenant_key(entity))}) DO UPDATE SET {', '.join(changed)}"
    own = f" WHERE {entity.table}.tenant_id = excluded.tenant_id" if "tenant_id" not in entity.key else ""
    return f"ON CONFLICT ({', '.join(entity.key)}) DO UPDATE SET {', '.join(changed)}{own}"


def tenant_key(entity: Entity[Any]) -> list[str]:
    """Return the columns that find a row of a tenant."""
    return ["tenant_id", *(name for name in entity.key if name != "tenant_id")]


def changed_by_put(entity: Entity[Any], engine: Engine) -> list[str]:
    """Return the columns that a later `Put` replaces. A row's tenant does not change."""
    fixed = {*entity.key, "tenant_id", *(column.name for column in entity.columns if column.kept)}
    return [name for name in names(entity, engine) if name not in fixed]


def changed_by_change(entity: Entity[Any], engine: Engine) -> list[str]:
    """Return the columns that `Change` replaces."""
    noted = entity.noted
    return [name for name in changed_by_put(entity, engine) if noted is None or name != noted.name]


def table_sql(entity: Entity[Any], engine: Engine) -> str:
    """Return the statements that create an entity's table."""
    kinds = _KINDS[engine]
    lines = [f"{column.name} {kinds[column.kind]}{'' if column.optional else ' NOT NULL'}"
             for column in entity.columns_in(engine)]
    unique = [f"UNIQUE ({column.name})" for column in entity.columns if column.unique]
    key = f"({', '.join(entity.key)})"
    if entity.ordered and engine == "sqlite":
        lines.insert(0, "place INTEGER PRIMARY KEY")
        unique.insert(0, f"UNIQUE {key}")
    elif entity.ordered:
        lines.insert(0, "place bigint GENERATED ALWAYS AS IDENTITY")
    if entity.body:
        lines.append(f"body {kinds[bytes]} NOT NULL")
    if not (entity.ordered and engine == "sqlite"):
        unique.insert(0, f"PRIMARY KEY {key}")
    if engine == "postgres" and "tenant_id" not in entity.key and not entity.once:
        unique.append(f"UNIQUE ({', '.join(tenant_key(entity))})")
    indexes = [*([] if entity.key[0] == "tenant_id" else [("tenant_id", *entity.order)]), *entity.indexes,
               *([(entity.expires,)] if entity.expires else [])]
    made = [f"CREATE INDEX {entity.table}_by_{'_'.join(one)} ON {entity.table} ({', '.join(one)})" for one in indexes]
    return ";\n".join([f"CREATE TABLE {entity.table} ({', '.join([*lines, *unique])})", *made])


def _where(entity: Entity[Any], where: Sequence[RowCondition], marks: Marks) -> str:
    columns = {column.name: column for column in entity.columns}
    conditions = [marks(one, number, columns[one.column]) for number, one in enumerate(where, 1)]
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


@cache
def _decoder(entity: Entity[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(entity.record)


_KINDS: dict[Engine, dict[type, str]] = {
    "sqlite": {str: "TEXT", int: "INTEGER", bool: "INTEGER", bytes: "BLOB"},
    "postgres": {str: 'text COLLATE "C"', int: "bigint", bool: "boolean", bytes: "bytea"},
}
