"""The statements of entities on PostgreSQL, built from their declarations. Rows are passed as one array for each
column."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

from interlock.backends import entity_rows
from interlock.backends.postgres.database import PostgresConnection
from interlock.backends.postgres.operations import Row, RowOperation, keyed, summed, unkeyed
from interlock.backends.postgres.texts import encoded
from interlock.ports.entities import DECLARED, Column, Entity, Op, RowCondition, entity_of
from interlock.ports.ledger import Spent
from interlock.ports.writes import Add, Change, Drop, Expire, LedgerWrite, Note, Put, Redeem
from interlock.protocol.records import Record

R = TypeVar("R", bound=Record)
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
_ARRAYS: dict[type, str] = {str: "text[]", int: "bigint[]", bool: "boolean[]", bytes: "bytea[]"}


async def missing_tables(connection: PostgresConnection) -> list[Entity[Any]]:
    """Return the entities without a table in this database."""
    there = {row[0] for row in await connection.fetch(_TABLES)}
    return [entity for entity in DECLARED if entity.table not in there]


def operation_of(write: LedgerWrite) -> RowOperation | None:
    """Return the statement for a write of an entity; None for another write."""
    match write:
        case Put(record) | Add(record):
            return put_operation(entity_of(record))
        case Change(record):
            return change_operation(entity_of(record))
        case Note(entity):
            return note_operation(entity)
        case Redeem(entity):
            return redeem_operation(entity)
        case Expire(entity):
            return expire_operation(entity)
        case Drop(entity):
            return drop_operation(entity)
        case _:
            return None


@cache
def put_operation(entity: Entity[Any]) -> RowOperation:
    """Return the statement of `Put` or `Add`."""
    names = ", ".join(entity_rows.names(entity, "postgres"))
    sql = (f"INSERT INTO {entity.table} ({names}) SELECT * FROM unnest({_arrays(_kinds(entity))})\n"
           f"{entity_rows.on_conflict(entity, 'postgres')}")

    def row(write: Any) -> Row:
        return entity_rows.row_of(entity, write.record, "postgres")

    if entity.once:
        return RowOperation(entity.table, sql, unkeyed(row))
    made = RowOperation(entity.table, sql, keyed(row, len(entity.key)))
    first = len(entity.columns_in("postgres")) - len(entity.adds)
    return made._replace(merge=summed(first)) if entity.adds else made


@cache
def change_operation(entity: Entity[Any]) -> RowOperation:
    """Return the statement of `Change`."""
    names = [*entity_rows.tenant_key(entity), *entity_rows.changed_by_change(entity, "postgres")]
    kinds = dict(zip(entity_rows.names(entity, "postgres"), _kinds(entity), strict=True))
    changed = ", ".join(f"{name} = args.{name}" for name in entity_rows.changed_by_change(entity, "postgres"))
    sql = (f"UPDATE {entity.table} SET {changed}\nFROM unnest({_arrays([kinds[name] for name in names])}) "
           f"AS args ({', '.join(names)})\nWHERE {_joined(entity)} RETURNING 1")

    def row(write: Any) -> Row:
        values = dict(zip(kinds, entity_rows.row_of(entity, write.record, "postgres"), strict=True))
        return tuple(values[name] for name in names)

    return RowOperation(entity.table, sql, unkeyed(row), every=lambda: Spent(entity.missing))


@cache
def note_operation(entity: Entity[Any]) -> RowOperation:
    """Return the statement of `Note`."""
    assert entity.noted is not None, f"{entity.table} declares no noted column"
    names = ", ".join(entity_rows.tenant_key(entity))
    sql = (f"UPDATE {entity.table} SET {entity.noted.name} = args.at_ms\n"
           f"FROM unnest($1::text[], $2::text[], $3::bigint[]) AS args ({names}, at_ms)\n"
           f"WHERE {_joined(entity)}")
    return RowOperation(entity.table, sql, keyed(lambda write: (write.tenant_id, write.key, write.at_ms), 2))


@cache
def redeem_operation(entity: Entity[Any]) -> RowOperation:
    """Return the statement of `Redeem`."""
    names = ", ".join(entity_rows.tenant_key(entity))
    sql = (f"DELETE FROM {entity.table} "
           f"USING unnest($1::text[], $2::text[], $3::bigint[]) AS args ({names}, now_ms)\n"
           f"WHERE {_joined(entity)} AND {entity.table}.{entity.expires} > args.now_ms RETURNING 1")
    return RowOperation(entity.table, sql, unkeyed(lambda write: (write.tenant_id, write.key, write.now_ms)),
                     every=lambda: Spent(entity.missing))


@cache
def expire_operation(entity: Entity[Any]) -> RowOperation:
    """Return the statement of `Expire`."""
    sql = (f"DELETE FROM {entity.table} "
           f"WHERE {entity.expires} <= (SELECT max(until) FROM unnest($1::bigint[]) AS until)")
    return RowOperation(entity.table, sql, keyed(lambda write: (write.until,), 1))


@cache
def drop_operation(entity: Entity[Any]) -> RowOperation:
    """Return the statement of `Drop`."""
    arrays = _arrays(_kinds(entity)[: len(entity.key)])
    sql = (f"DELETE FROM {entity.table} USING unnest({arrays}) AS args ({', '.join(entity.key)})\nWHERE "
           + " AND ".join(f"{entity.table}.{name} = args.{name}" for name in entity.key))
    return RowOperation(entity.table, sql, keyed(lambda write: write.key, len(entity.key)))


@cache
def select_sql(entity: Entity[Any], where: tuple[tuple[str, Op], ...], order: tuple[str, ...], *, limited: bool) -> str:
    """Return the statement that reads rows."""
    return entity_rows.select(entity, [RowCondition(*one, None) for one in where], order, _mark,
                              f"${len(where) + 1}" if limited else "")


@cache
def count_sql(entity: Entity[Any], where: tuple[tuple[str, Op], ...]) -> str:
    """Return the statement that counts rows."""
    return entity_rows.count(entity, [RowCondition(*one, None) for one in where], _mark)


def _joined(entity: Entity[Any]) -> str:
    return " AND ".join(f"{entity.table}.{name} = args.{name}" for name in entity_rows.tenant_key(entity))


def _kinds(entity: Entity[Any]) -> list[type]:
    return [*(column.kind for column in entity.columns_in("postgres")), *([bytes] if entity.body else [])]


def _arrays(kinds: Sequence[type]) -> str:
    return ", ".join(f"${number}::{_ARRAYS[kind]}" for number, kind in enumerate(kinds, 1))


def _mark(where: RowCondition, number: int, column: Column) -> str:
    return f"{column.name} = ANY (${number}::text[])" if where.op == "in" else f"{column.name} {where.op} ${number}"


def bound(where: Sequence[RowCondition]) -> list[Any]:
    """Return the values of conditions."""
    return [[encoded(item) for item in one.value] if isinstance(one.value, list | tuple) else one.value
            for one in where]
