"""Each field of a lane's state has one module that writes it."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

import pytest
from benchmarks.house import SOURCE

from interlock.engine.bridge.lane_state import LaneState

MUTATING = {"append", "pop", "setdefault", "clear", "extend", "update", "remove", "insert", "add", "discard"}


def test_no_field_of_a_lanes_state_is_assigned_by_several_modules() -> None:
    """What several modules change, they change by a method of the state that names the transition."""
    writers: dict[str, set[str]] = defaultdict(set)
    for path in (SOURCE / "engine").rglob("*.py"):
        for name in _written(ast.parse(path.read_text())):
            writers[name].add(path.stem)
    assert {name: sorted(found) for name, found in writers.items() if len(found) > 1} == {}


@pytest.mark.parametrize(("line", "found"), [
    ("state.opening, state.box = 'closed', None", {"opening", "box"}), ("lane.state.n += 1", {"n"}),
    ("lane.state.cancels.setdefault('c', []).append('d')", {"cancels"}), ("state.incoming['t'] = 1", {"incoming"}),
    ("del lane.state.holds['c']", {"holds"}), ("seen = lane.state.n", set()), ("record.state = 'x'", set()),
])
def test_a_write_is_found_whatever_it_looks_like(line: str, found: set[str]) -> None:
    assert set(_written(ast.parse(line))) == found


def _written(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        for target in _targets(node):
            while isinstance(target, ast.Subscript):
                target = target.value
            if isinstance(target, ast.Attribute) and target.attr in LaneState.__struct_fields__ \
                    and _is_state(target.value):
                yield target.attr


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            for target in targets:
                yield from target.elts if isinstance(target, ast.Tuple) else [target]
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            yield target
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in MUTATING:
            yield value
        case _:
            pass


def _is_state(value: ast.expr) -> bool:
    return (isinstance(value, ast.Name) and value.id == "state") or (
        isinstance(value, ast.Attribute) and value.attr == "state" and isinstance(value.value, ast.Name)
        and value.value.id in ("lane", "self"))
