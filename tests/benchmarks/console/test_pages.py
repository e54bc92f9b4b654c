"""`python -m benchmarks console`: its table (J-3)."""

from __future__ import annotations

import pytest

from benchmarks.console.pages import Figure, Measured, table

pytestmark = pytest.mark.req("J-3")


def test_each_figure_is_shown_beside_its_limit_and_the_load_beside_all() -> None:
    shown = table(Measured([Figure("sessions: first screen", 312.4, "ms", 1_000),
                            Figure("sessions: elements in the document", 640, ""),
                            Figure("stream: characters lost", 0, "", 0)], 2.25))
    assert [" ".join(line.split()) for line in shown.splitlines()] == [
        "sessions: first screen 312 ms at most 1,000", "sessions: elements in the document 640",
        "stream: characters lost 0 at most 0",
        "load of the machine at the end 2.2"]
