"""The statements that both engines are asked by: `SqlReading` and `SqlUpkeep` name them, each engine has its own."""

from __future__ import annotations

import inspect
import re
from types import ModuleType

import pytest

from interlock.backends import sql_reads, sql_upkeep
from interlock.backends.postgres import entities as postgres_entities
from interlock.backends.postgres import queries as postgres_queries
from interlock.backends.sqlite import entities as sqlite_entities
from interlock.backends.sqlite import queries as sqlite_queries

SOURCE = inspect.getsource(sql_reads.SqlReading) + inspect.getsource(sql_upkeep.SqlUpkeep)


@pytest.mark.req("C-4")
@pytest.mark.parametrize(("attribute", "module"), [
    ("_queries", sqlite_queries), ("_queries", postgres_queries),
    ("_entities", sqlite_entities), ("_entities", postgres_entities),
])
def test_each_engine_has_every_required_statement(attribute: str, module: ModuleType) -> None:
    named = set(re.findall(rf"\bself\.{attribute}\.(\w+)", SOURCE))
    assert named
    assert named - set(vars(module)) == set()


@pytest.mark.req("S-1")
def test_a_row_of_a_stream_is_an_event_of_it() -> None:
    [event] = sql_reads.events_of("s/1", [(3, "C", 7, b"{}", "m-1")])
    assert (event.stream, event.n, event.kind, event.at_ms, event.body, event.message_id) == ("s/1", 3, "C", 7, b"{}",
                                                                                           "m-1")
