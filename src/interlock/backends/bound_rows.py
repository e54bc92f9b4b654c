"""The rows beside the audit log that a verification compares with it, read the same way from both databases (H-5)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, TypeVar

import msgspec

from interlock.backends.entity_rows import record_of, searched
from interlock.backends.rows import Row, approval_of, approval_row, command_of, command_row
from interlock.command.audit.register import BoundRecord
from interlock.ports.entities import BOUND, Engine, Entity
from interlock.protocol.records import ApprovalRecord, CommandRecord

R = TypeVar("R")


class BoundRows(ABC):
    """Rows whose columns match their bodies. Another row is omitted, and so counts as removed."""

    _engine: ClassVar[Engine]

    @abstractmethod
    def _rows(self, sql: str) -> Iterable[Row]:
        """Return all rows of a query."""

    def bound(self) -> list[BoundRecord]:
        """Read the rows that the log binds."""
        return [record for entity in BOUND for record in self._entities(entity)]

    def live_commands(self) -> list[CommandRecord]:
        """Read every command that has not ended."""
        return self._read("body, NULL, id, tenant_id, session_id, state FROM command WHERE ended_ms IS NULL",
                          command_of, command_row)

    def live_approvals(self) -> list[ApprovalRecord]:
        """Read every approval that is pending or granted."""
        return self._read("body, NULL, id, tenant_id, session_id, state FROM approval "
                          "WHERE state IN ('pending', 'granted')", approval_of, approval_row)

    def _entities(self, entity: Entity[Any]) -> list[Any]:
        columns = ", ".join(column.name for column in entity.columns_in(self._engine) if not column.noted)
        noted = entity.noted.name if entity.noted is not None else "NULL"
        return self._read(f"body, {noted}, {columns} FROM {entity.table}", partial(record_of, entity),
                          partial(searched, entity, self._engine))

    def _read(self, wanted: str, read: Callable[[Row], R], columns: Callable[[R], Row]) -> list[R]:
        """Read each body with what else `read` needs, then the columns that the row is found by."""
        found: list[R] = []
        for row in self._rows(f"SELECT {wanted}"):
            with suppress(msgspec.MsgspecError, TypeError):
                record = read(row)
                if columns(record)[: len(row) - 2] == row[2:]:
                    found.append(record)
        return found
