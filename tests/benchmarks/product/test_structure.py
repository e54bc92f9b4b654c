"""The counts of the source's structure: what each one counts, and that the traced paths are those of a gateway."""

from __future__ import annotations

import ast
import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from benchmarks.product import path_trace, structure
from benchmarks.product.path_trace import Entry

HOME, OTHER = structure.SOURCE / "engine/lanes/lanes.py", structure.SOURCE / "app/gateway.py"


def trees(home: str, other: str = "") -> dict[Path, ast.Module]:
    return {HOME: ast.parse(home), OTHER: ast.parse(other)}


@pytest.mark.parametrize(("name", "gerund"), [
    ("judging", True), ("asking_people", False), ("row_sharing", True), ("archived", True),
    ("string", False), ("seed", False), ("lane", False), ("pending_ring", False),
])
def test_a_module_named_by_an_activity_is_a_gerund(name: str, gerund: bool) -> None:
    assert structure.is_gerund(name) == gerund


def test_a_class_name_counts_as_repeated_when_two_modules_define_it() -> None:
    both = trees("class Told: ...\nclass Lane: ...\nclass _Job: ...", "class Told: ...\nclass _Job: ...")

    assert structure.repeated_classes(both) == {"Told": ["interlock.engine.lanes.lanes", "interlock.app.gateway"]}


def test_an_attribute_that_another_module_sets_over_a_placeholder_is_named() -> None:
    lanes = """
class Lanes:
    def __init__(self, size):
        self.on_delivery = lambda: None
        self.watchers = []
        self.size = size
        self._hidden = None
        self.mine: int | None = None

    def grow(self):
        self.mine = 1
"""
    imported = "from interlock.engine.lanes.lanes import Lanes\n"
    assembled = "lanes.on_delivery = notify\nlanes.size = 4\nlanes._hidden = 1\nlanes.watchers.append(1)"

    found = structure.assigned_elsewhere(trees(lanes, imported + assembled))
    assert found.over_placeholders == ["Lanes.on_delivery"]
    assert found.over_any == ["Lanes.on_delivery", "Lanes.size"]
    # Another object, whose attribute has the same name.
    assert structure.assigned_elsewhere(trees(lanes, assembled)) == ([], [])
    assert structure.assigned_elsewhere(trees(lanes.replace("Lanes", "_Lanes"), imported + assembled)) == ([], [])
    assert structure.assigned_elsewhere(trees(lanes + "\n" + assembled)) == ([], [])
    others_own = "class Other:\n def f(self):\n  self.size = 3"
    assert structure.assigned_elsewhere(trees(lanes, imported + others_own)) == ([], [])


REST, KEYS = "gateway/rest/app.py", "gateway/access/keys.py"
LANES, SHELL = "engine/lanes/lanes.py", "engine/lanes/lane_shell.py"


def test_a_move_is_a_call_into_another_package_and_a_return_is_none() -> None:
    entered = [Entry(REST, None), Entry(KEYS, REST), Entry(LANES, KEYS), Entry(SHELL, LANES), Entry(KEYS, REST)]

    path = path_trace.summary("a path", entered)

    assert (path.files, path.rooms, path.moves, path.changes) == (4, 2, 1, 2)
    assert path.moved == ["gateway/access/keys.py > engine/lanes/lanes.py"]


def test_consecutive_calls_between_two_modules_are_one_move() -> None:
    again = [Entry(LANES, REST), Entry(KEYS, REST), Entry(LANES, REST)]
    between = [*again, Entry("protocol/clock.py", REST), Entry(LANES, REST)]

    assert path_trace.summary("a path", [Entry(REST, None), *again]).moves == 1
    assert path_trace.summary("a path", [Entry(REST, None), *between]).moves == 3


def test_a_waiting_task_receives_a_value_and_a_continuing_coroutine_does_not() -> None:
    handed = [Entry(REST, None), Entry(LANES, REST), Entry(KEYS, None), Entry(REST, None, goes_on=True)]

    assert path_trace.summary("a path", handed).moved == [f"{REST} > {LANES}", f"{LANES} > {KEYS}"]


@pytest.mark.anyio
async def test_a_frame_that_continues_after_an_await_or_yield_differs_from_a_new_one() -> None:
    waited: list[tuple[str, bool]] = []

    def on_call(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_name in ("waits", "yields", "plain"):
            waited.append((frame.f_code.co_name, path_trace.has_waited(frame)))

    async def waits() -> None:
        await asyncio.sleep(0)

    def yields() -> Iterator[int]:
        yield 1

    def plain() -> None: ...

    before = sys.getprofile()
    sys.setprofile(on_call)
    try:
        await waits()
        list(yields())
        plain()
    finally:
        sys.setprofile(before)

    assert waited == [("waits", False), ("waits", True), ("yields", False), ("yields", True), ("plain", False)]


def test_the_tracer_records_modules_of_the_package_and_only_while_enabled() -> None:
    from interlock.protocol.clock import iso

    tracer = path_trace.Tracer()
    before = sys.getprofile()
    tracer.install()
    try:
        iso(0)
        with tracer.walk() as entered:
            iso(0)
            structure.is_gerund("clock")
        iso(0)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)

    assert [(one.module, one.caller) for one in entered] == [("protocol/clock.py", None)]
    lines_of_iso = {line for _, _, line in iso.__code__.co_lines() if line is not None}
    assert path_trace.summary("a path", entered).visited == {"protocol/clock.py": len(lines_of_iso)}


def test_a_command_and_a_frame_are_traced_through_a_whole_gateway() -> None:
    command, frame = path_trace.run()

    assert {"gateway/rest/operations/commands.py", SHELL, "backends/sqlite/writer.py"} <= set(command.visited)
    assert {"gateway/link/intake.py", SHELL, "gateway/rest/streams.py"} <= set(frame.visited)
    assert frame.changes > frame.moves > frame.rooms > 3
    assert "gateway/rest/operations/commands.py > engine/engine.py" in command.moved
    assert "engine/lanes/lane_shell.py > backends/sqlite/ledger.py" in frame.moved
