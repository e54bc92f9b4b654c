"""The register of requirements and the tests that carry them, checked both ways."""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SPECIFIED = {
    "rawp": {"L": 6, "E": 5, "D": 7, "W": 2, "T": 6, "A": 10},
    "racp": {"C": 8, "M": 2, "P": 8, "S": 6, "U": 5, "K": 4, "F": 2},
    "sessions": {"N": 3, "R": 4, "I": 4, "X": 8, "Z": 7, "Q": 2, "B": 1, "V": 2},
    "running": {"G": 7},
    "hold": {"H": 20},
    "face": {"Y": 18},
    "doors": {"O": 13},
    "console": {"J": 18},
}
"""How many requirements each specification has under each letter; they count from 1, and C from 0."""

with (ROOT / "spec" / "requirements.toml").open("rb") as register:
    REQUIREMENTS: dict[str, dict[str, Any]] = tomllib.load(register)


def marks(tree: ast.AST) -> list[ast.Call]:
    """Every `pytest.mark.req(...)` in a module, wherever it stands."""
    return [node for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "req"
            and ast.unparse(node.func) == "pytest.mark.req"]


@cache
def carried() -> tuple[dict[str, set[str]], list[str]]:
    """Which files carry an id; and the marks that name none in plain strings."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    unreadable: list[str] = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        place = str(path.relative_to(ROOT))
        for mark in marks(ast.parse(path.read_text(encoding="utf-8"))):
            if not mark.args or mark.keywords:
                unreadable.append(f"{place}:{mark.lineno}")
            for argument in mark.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    found[argument.value].add(place)
                else:
                    unreadable.append(f"{place}:{mark.lineno}")
    return found, unreadable


def test_the_register_has_every_requirement_of_the_specifications_and_no_other() -> None:
    expected = [(f"{letter}-{number}", source) for source, letters in SPECIFIED.items()
                for letter, last in letters.items() for number in range(0 if letter == "C" else 1, last + 1)]
    registered = [(name, row["source"]) for name, row in REQUIREMENTS.items()]
    assert sorted(registered) == sorted(expected)


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_a_requirement_has_its_clause_and_its_gap_a_reason(name: str) -> None:
    row = REQUIREMENTS[name]
    assert set(row) <= {"source", "status", "clause", "reason", "tested"}
    assert row["status"] in ("carried", "partial", "later")
    assert row["clause"].endswith(".")
    assert ("reason" in row) == (row["status"] != "carried"), "a gap says what is missing, and only a gap does"
    assert row.get("reason", "it.").endswith(".")


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_a_requirement_that_holds_is_carried_by_a_test(name: str) -> None:
    row, carriers = REQUIREMENTS[name], carried()[0].get(name)
    if row["status"] != "later":
        assert carriers, f"no test is marked with {name}"
        assert "tested" not in row
    else:
        assert bool(carriers) == ("tested" in row), f"{name} comes later: say why {carriers} carry it"


def test_every_mark_names_a_requirement() -> None:
    found, unreadable = carried()
    assert not unreadable, "a mark names ids, as plain strings"
    unknown = {name: sorted(places) for name, places in found.items() if name not in REQUIREMENTS}
    assert not unknown
