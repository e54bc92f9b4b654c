"""The statements of entities on SQLite, built from their declarations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import apsw
import msgspec

from interlock.backends import entity_rows
from interlock.backends.sqlite.database import Row, SqliteDatabase, Value
from interlock.ports.entities import DECLARED, OF_ANOTHER_TENANT, Column, Entity, Op, RowCondition, entity_of
from interlock.ports.ledger import NameTaken, Spent
from interlock.ports.writes import Add, Change, Drop, Expire, Note, Put, Redeem
from interlock.protocol.records import Record

R = TypeVar("R", bound=Record)
EntityWrite = Put | Add | Change | Note | Redeem | Expire | Drop
_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table'"


def apply(connection: SqliteDatabase, write: EntityWrite) -> None:
    """Write in the open transaction. Raises NameTaken, Spent."""
    match write:
        case Put(record) | Add(record):
            _put(connection, entity_of(record), record)
        case Change(record):
            entity = entity_of(record)
            values = dict(zip(entity_rows.names(entity, "sqlite"), entity_rows.row_of(entity, record, "sqlite"),
                              strict=True))
            names = entity_rows.changed_by_change(entity, "sqlite")
            connection.execute(change_sql(entity), [values[name] for name in (*names, "tenant_id", *entity.key)])
            _found(connection, entity)
        case Note(entity, tenant_id, key, at_ms):
            connection.execute(note_sql(entity), (at_ms, tenant_id, key))
        case Redeem(entity, tenant_id, key, now_ms):
            connection.execute(redeem_sql(entity), (tenant_id, key, now_ms))
            _found(connection, entity)
        case Expire(entity, until):
            connection.execute(expire_sql(entity), (until,))
        case Drop(entity, key):
            connection.execute(drop_sql(entity), key)


def make_missing_tables(connection: SqliteDatabase) -> None:
    """Create the tables of entities that this file does not have yet, in one transaction."""
    there = {row[0] for row in connection.execute(_TABLES).fetchall()}
    missing = [entity for entity in DECLARED if entity.table not in there]
    if missing:
        sql = ";\n".join(entity_rows.table_sql(entity, "sqlite") for entity in missing)
        connection.execute(f"BEGIN IMMEDIATE;\n{sql};\nCOMMIT")


@cache
def select_sql(entity: Entity[Any], where: tuple[tuple[str, Op], ...], order: tuple[str, ...], *, limited: bool) -> str:
    """Return the statement that reads rows."""
    return entity_rows.select(entity, [RowCondition(*one, None) for one in where], order, _mark,
                              f"?{len(where) + 1}" if limited else "")


@cache
def count_sql(entity: Entity[Any], where: tuple[tuple[str, Op], ...]) -> str:
    """Return the statement that counts rows."""
    return entity_rows.count(entity, [RowCondition(*one, None) for one in where], _mark)


@cache
def put_sql(entity: Entity[Any]) -> str:
    """Return the statement of `Put` or `Add`."""
    names = entity_rows.names(entity, "sqlite")
    return (f"INSERT INTO {entity.table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))}) "
            f"{entity_rows.on_conflict(entity, 'sqlite')}")


@cache
def change_sql(entity: Entity[Any]) -> str:
    """Return the statement of `Change`."""
    changed = ", ".join(f"{name} = ?" for name in entity_rows.changed_by_change(entity, "sqlite"))
    return f"UPDATE {entity.table} SET {changed} WHERE tenant_id = ? AND {_equal(entity.key)}"


@cache
def note_sql(entity: Entity[Any]) -> str:
    """Return the statement of `Note`."""
    assert entity.noted is not None, f"{entity.table} declares no noted column"
    return f"UPDATE {entity.table} SET {entity.noted.name} = ? WHERE tenant_id = ? AND {_equal(entity.key)}"


@cache
def redeem_sql(entity: Entity[Any]) -> str:
    """Return the statement of `Redeem`."""
    return f"DELETE FROM {entity.table} WHERE tenant_id = ? AND {_equal(entity.key)} AND {entity.expires} > ?"


@cache
def expire_sql(entity: Entity[Any]) -> str:
    """Return the statement of `Expire`."""
    return f"DELETE FROM {entity.table} WHERE {entity.expires} <= ?"


@cache
def drop_sql(entity: Entity[Any]) -> str:
    """Return the statement of `Drop`."""
    return f"DELETE FROM {entity.table} WHERE {_equal(entity.key)}"


def _put(connection: SqliteDatabase, entity: Entity[Any], record: Record) -> None:
    try:
        connection.execute(put_sql(entity), entity_rows.row_of(entity, record, "sqlite"))
    except apsw.ConstraintError as error:
        # The message names the column, as "api_key.key_sha256".
        sentences = [column.unique for column in entity.columns
                     if column.unique and f"{entity.table}.{column.name}" in str(error)]
        raise NameTaken((sentences or [entity.once or f"A name in this batch exists already: {error}."])[0]) from error
    if not connection.changes():
        raise NameTaken(OF_ANOTHER_TENANT)


def _found(connection: SqliteDatabase, entity: Entity[Any]) -> None:
    if not connection.changes():
        raise Spent(entity.missing)


def _equal(columns: Sequence[str]) -> str:
    return " AND ".join(f"{name} = ?" for name in columns)


def _mark(where: RowCondition, number: int, column: Column) -> str:
    if where.op == "in":
        return f"{column.name} IN (SELECT value FROM json_each(?{number}))"
    return f"{column.name} {where.op} ?{number}"


def bound(where: Sequence[RowCondition]) -> Row:
    """Return the values of conditions."""
    return tuple(_value(one.value) for one in where)


def _value(value: Value | Sequence[str]) -> Value:
    return value if isinstance(value, str | int | bytes | None) else msgspec.json.encode(list(value)).decode()
