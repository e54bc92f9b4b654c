"""The counts of the source's structure: what each one counts, and that the traced paths are those of a gateway."""

from __future__ import annotations

import ast
import sys
import threading
from pathlib import Path

import pytest

from benchmarks import house, path_trace

HOME, OTHER = house.SOURCE / "engine/lanes.py", house.SOURCE / "app/gateway.py"


def trees(home: str, other: str = "") -> dict[Path, ast.Module]:
    return {HOME: ast.parse(home), OTHER: ast.parse(other)}


@pytest.mark.parametrize(("name", "gerund"), [
    ("judging", True), ("asking_people", False), ("row_sharing", True), ("archived", True),
    ("string", False), ("seed", False), ("lane", False), ("pending_ring", False),
])
def test_a_module_that_is_named_by_what_it_does_is_a_gerund(name: str, gerund: bool) -> None:
    assert house.is_gerund(name) == gerund


def test_a_class_name_counts_as_repeated_when_two_modules_define_it() -> None:
    both = trees("class Told: ...\nclass Lane: ...\nclass _Job: ...", "class Told: ...\nclass _Job: ...")

    assert house.repeated_classes(both) == {"Told": ["interlock.engine.lanes", "interlock.app.gateway"]}


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
    imported = "from interlock.engine.lanes import Lanes\n"
    assembled = "lanes.on_delivery = notify\nlanes.size = 4\nlanes._hidden = 1\nlanes.watchers.append(1)"

    assert house.set_from_outside(trees(lanes, imported + assembled)) == ["Lanes.on_delivery"]
    assert house.set_from_outside(trees(lanes, assembled)) == []  # Another object, whose attribute has the same name.
    assert house.set_from_outside(trees(lanes.replace("Lanes", "_Lanes"), imported + assembled)) == []
    assert house.set_from_outside(trees(lanes + "\n" + assembled)) == []
    assert house.assigned_elsewhere(trees(lanes, imported + assembled)) == ["Lanes.on_delivery", "Lanes.size"]
    assert house.assigned_elsewhere(trees(lanes, assembled)) == []
    assert house.assigned_elsewhere(trees(lanes, imported + "class Other:\n def f(self):\n  self.size = 3")) == []


def test_a_move_is_a_call_that_leaves_the_room_of_the_call_before() -> None:
    entered = ["gateway/rest/app.py", "gateway/keys.py", "engine/lanes.py", "engine/lanes.py", "gateway/keys.py"]

    path = path_trace.summary("a path", entered)

    assert (path.files, path.rooms, path.moves) == (3, 2, 2)


def test_the_tracer_notes_the_modules_of_the_package_and_only_while_it_is_armed() -> None:
    from interlock.protocol.clock import iso

    tracer = path_trace.Tracer()
    before = sys.getprofile()
    tracer.install()
    try:
        iso(0)
        with tracer.walk() as entered:
            iso(0)
            house.is_gerund("clock")
        iso(0)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)

    assert set(entered) == {"protocol/clock.py"}


def test_a_command_and_a_frame_are_traced_through_a_whole_gateway() -> None:
    command, frame = path_trace.run()

    assert {"gateway/rest/commands.py", "engine/lane_shell.py", "backends/sqlite/writer.py"} <= set(command.visited)
    assert {"gateway/intake.py", "engine/lane_shell.py", "gateway/rest/streams.py"} <= set(frame.visited)
    assert frame.moves > frame.rooms > 3
