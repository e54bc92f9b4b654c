"""Entities in dicts, according to their declarations."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from interlock.ports.entities import ENTITIES, OF_ANOTHER_TENANT, Entities, Entity, Op, RowCondition, entity_of
from interlock.ports.ledger import NameTaken, Spent
from interlock.ports.writes import Add, Change, Drop, Expire, LedgerWrite, Note, Put, Redeem
from interlock.protocol.records import Record

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R", bound=Record)
Undo = list[Callable[[], object]]
Table = dict[tuple[Any, ...], Any]
_HOLDS: dict[Op, Callable[[Any, Any], bool]] = {
    "=": operator.eq, ">": operator.gt, "<=": operator.le, "in": lambda value, those: value in those}


class MemoryEntities(Entities):
    """Reads entities."""

    def __init__(self) -> None:
        self._tables: dict[str, Table] = {entity.table: {} for entity in ENTITIES}

    async def select(self, entity: Entity[R], where: Sequence[RowCondition], order: Sequence[str], limit: int | None
                     ) -> list[R]:
        found = self._fitting(entity, where)
        for name in reversed(order):
            if name.removeprefix("-") == "place":
                found = found[::-1] if name.startswith("-") else found
            else:
                found.sort(key=_value(entity, name.removeprefix("-")), reverse=name.startswith("-"))
        return found[:limit]

    async def count(self, entity: Entity[R], *where: RowCondition) -> int:
        return len(self._fitting(entity, where))

    def _fitting(self, entity: Entity[R], where: Sequence[RowCondition]) -> list[R]:
        table = self._tables[entity.table]
        equal = {one.column: one.value for one in where if one.op == "="}
        if all(name in equal for name in entity.key):  # One row, found by its key.
            row = table.get(tuple(equal[name] for name in entity.key))
            rows: Iterable[Any] = () if row is None else (row,)
        else:
            rows = table.values()
        conditions = [(_value(entity, one.column), _HOLDS[one.op], one.value) for one in where]
        return [row for row in rows if all(
            (value := read(row)) is not None and holds(value, wanted) for read, holds, wanted in conditions)]

    def write_entity(self, write: LedgerWrite, undo: Undo) -> bool:
        """Apply a write of an entity; returns false for another write. Raises NameTaken, Spent."""
        match write:
            case Put(record) | Add(record):
                self._put(entity_of(record), record, undo)
            case Change(record):
                entity = entity_of(record)
                old = self._own(entity, entity.key_of(record), entity_tenant(entity, record))
                if old is None:
                    raise Spent(entity.missing)
                noted = entity.noted
                kept = {} if noted is None else {noted.name: getattr(old, noted.name)}
                put(self._tables[entity.table], entity.key_of(record), msgspec.structs.replace(record, **kept), undo)
            case Note(entity, tenant_id, key, at_ms):
                old = self._own(entity, (key,), tenant_id)
                if old is not None and entity.noted is not None:
                    seen = msgspec.structs.replace(old, **{entity.noted.name: at_ms})
                    put(self._tables[entity.table], (key,), seen, undo)
            case Redeem(entity, tenant_id, key, now_ms):
                old = self._own(entity, (key,), tenant_id)
                if old is None or _value(entity, entity.expires)(old) <= now_ms:
                    raise Spent(entity.missing)
                drop(self._tables[entity.table], [(key,)], undo)
            case Expire(entity, until):
                expires, table = _value(entity, entity.expires), self._tables[entity.table]
                drop(table, [key for key, record in table.items() if expires(record) <= until], undo)
            case Drop(entity, key):
                drop(self._tables[entity.table], [key], undo)
            case _:
                return False
        return True

    def _put(self, entity: Entity[Any], record: Record, undo: Undo) -> None:
        table, key = self._tables[entity.table], entity.key_of(record)
        old = table.get(key)
        if old is not None and entity.once:
            raise NameTaken(entity.once)
        if old is not None and entity_tenant(entity, old) != entity_tenant(entity, record):
            raise NameTaken(OF_ANOTHER_TENANT)
        for column in entity.columns:
            if column.unique and any(column.value(other) == column.value(record) and entity.key_of(other) != key
                                     for other in table.values()):
                raise NameTaken(column.unique)
        if old is not None and entity.adds:
            sums = {name: getattr(old, name) + getattr(record, name) for name in entity.adds}
            record = msgspec.structs.replace(old, **sums)
        elif old is not None and entity.noted is not None and entity.noted.kept:
            record = msgspec.structs.replace(record, **{entity.noted.name: getattr(old, entity.noted.name)})
        put(table, key, record, undo)

    def _own(self, entity: Entity[Any], key: tuple[Any, ...], tenant_id: str) -> Any:
        record = self._tables[entity.table].get(key)
        return record if record is not None and entity_tenant(entity, record) == tenant_id else None


def entity_tenant(entity: Entity[Any], record: Record) -> str:
    """Return a row's tenant."""
    return str(_value(entity, "tenant_id")(record))


def put(table: dict[K, V], key: K, record: V, undo: Undo) -> None:
    """Insert or replace a row."""
    if key in table:
        undo.append(lambda old=table[key]: table.__setitem__(key, old))
    else:
        undo.append(lambda: table.pop(key))
    table[key] = record


def drop(table: dict[K, V], keys: Iterable[K], undo: Undo) -> None:
    """Forget rows."""
    whole = dict(table)

    def restore() -> None:
        # The order of the previous rows is part of what is restored.
        table.clear()
        table.update(whole)

    undo.append(restore)
    for key in keys:
        table.pop(key, None)


def _value(entity: Entity[Any], name: str) -> Callable[[Any], Any]:
    return next(column.value for column in entity.columns if column.name == name)
