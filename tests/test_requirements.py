"""The register of requirements and the tests that carry them, checked both ways."""

from __future__ import annotations

import re
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

MARK = re.compile(r"pytest\.mark\.req\(([^()]*)")
"""A mark in a module's text; to parse every test module takes seconds."""
IDS = re.compile(r'\s*"[A-Z]-\d+"(?:,\s*"[A-Z]-\d+")*,?\s*')

with (ROOT / "spec" / "requirements.toml").open("rb") as register:
    REQUIREMENTS: dict[str, dict[str, Any]] = tomllib.load(register)


@cache
def carried() -> tuple[dict[str, set[str]], list[str]]:
    """Which files carry an id; and the marks that name none in plain strings."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    unreadable: list[str] = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        place, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        for mark in MARK.finditer(text):
            if not IDS.fullmatch(mark[1]):
                unreadable.append(f"{place}:{text.count(chr(10), 0, mark.start()) + 1}")
            for name in re.findall(r'"(.*?)"', mark[1]):
                found[name].add(place)
    return found, unreadable


@pytest.mark.parametrize("given", ['"A-1"', '"A-1", "S-12"', '"A-1",\n    "S-12",'])
def test_a_mark_names_ids_as_plain_strings(given: str) -> None:
    assert IDS.fullmatch(given)


@pytest.mark.parametrize("given", ["", "*ALL", "name", '"A-1" + more', 'f"A-{one}"', '"A-1", reason="x"'])
def test_a_mark_that_names_its_ids_otherwise_is_noticed(given: str) -> None:
    assert not IDS.fullmatch(given)


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
def test_a_satisfied_requirement_has_a_test(name: str) -> None:
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
