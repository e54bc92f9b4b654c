"""Every named read of entities (`ports.access`) as the query that a ledger is asked for, without a ledger."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from interlock.ports.access import AccessReads
from interlock.ports.entities import Entity, Op, RowCondition

SAMPLES = {"str": ("x",), "int": (1,), "bool": (False, True), "str | None": (None, "x"), "Sequence[str]": (["x"],)}
"""The arguments for each kind of parameter; the first of them while another one varies."""


class EntityRead(NamedTuple):
    """The parameters of a named read."""

    name: str
    entity: Entity[Any]
    where: tuple[tuple[str, Op], ...]
    order: tuple[str, ...] | None
    """None: it counts."""
    limited: bool


class _Recorder(AccessReads):
    def __init__(self) -> None:
        self.asked: list[tuple[Entity[Any], tuple[tuple[str, Op], ...], tuple[str, ...] | None, bool]] = []

    async def select(self, entity: Entity[Any], where: Sequence[RowCondition], order: Sequence[str], limit: int | None
                     ) -> list[Any]:
        self.asked.append((entity, tuple(one[:2] for one in where), tuple(order), limit is not None))
        return []

    async def count(self, entity: Entity[Any], *where: RowCondition) -> int:
        self.asked.append((entity, tuple(one[:2] for one in where), None, False))
        return 0


def entity_reads() -> list[EntityRead]:
    """Return them, each with and without what may be left out."""
    found: dict[str, EntityRead] = {}
    for name, method in vars(AccessReads).items():
        if name.startswith("_") or name == "usage" or not inspect.iscoroutinefunction(method):
            continue
        kinds = {one.name: SAMPLES[str(one.annotation)] for one in inspect.signature(method).parameters.values()
                 if one.name != "self"}
        first = {one: samples[0] for one, samples in kinds.items()}
        for varied in [{}, *({one: sample} for one, samples in kinds.items() for sample in samples[1:])]:
            recorder = _Recorder()
            with pytest.raises(StopIteration):  # It waits for nothing, so a loop may run or not.
                method(recorder, **(first | varied)).send(None)
            (entity, where, order, limited), = recorder.asked
            whole = f"{name}({', '.join(column for column, _ in where)})"
            found[whole] = EntityRead(whole, entity, where, order, limited)
    return list(found.values())
