"""A drain on one line: what it covers, since when, by whom and why, without control characters."""

from __future__ import annotations

import pytest

from interlock.cli.operations.drain_line import drained
from interlock.protocol.drains import Drain

AT = "2026-01-01T00:00:00.000Z"


def drain(scope: str, id_: str | None, reason: str | None = None) -> Drain:
    return Drain(scope=scope, id=id_, at=AT, by="user:kim", reason=reason)  # pyright: ignore[reportArgumentType]


@pytest.mark.req("C-6")
def test_a_drain_shows_its_scope_author_and_reason() -> None:
    line = drained(drain("runner", "box-1", "a new kernel"))

    assert line.startswith("draining runner box-1 · began ")
    assert line.endswith(" · by user:kim · a new kernel")


def test_the_drain_of_a_tenant_shows_nothing_else_and_a_missing_reason_no_separator() -> None:
    line = drained(drain("tenant", None))

    assert line.startswith("draining tenant · began ")
    assert line.endswith("by user:kim")


def test_a_reason_cannot_break_the_line_or_write_to_the_terminal() -> None:
    line = drained(drain("runner", "box-1", "first\nsecond \x1b[2J" + "x" * 500))

    assert line.isprintable()
    assert len(line) < 300
