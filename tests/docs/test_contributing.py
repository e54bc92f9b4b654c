"""The lists of CONTRIBUTING by which something is added name files that are there, and no more than was agreed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "interlock"
MOST = {"an operation of the API": 5, "a field of the status": 3, "a frame with behaviour": 6, "an adapter": 2,
        "a kind of notice to approvers": 5, "a chat service": 7}
SECTION = re.compile(r"^## How to add (.+?)\n(.*?)(?=^## )", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"^\d+\. (.+?)(?=^\d+\. |\n\n)", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
PLACEHOLDER = re.compile(r"\b(?:PART|NOUN|NAME|ADAPTER)\b")


def steps(task: str) -> list[str]:
    sections = dict(SECTION.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8")))
    return STEP.findall(sections[task])


def files(code: str) -> list[Path]:
    """The modules that a path of the list may mean."""
    return sorted(SOURCE.glob(PLACEHOLDER.sub("*", code)))


def test_each_list_has_a_count() -> None:
    assert set(dict(SECTION.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8")))) == set(MOST)


@pytest.mark.parametrize("task", MOST)
def test_a_change_touches_no_more_files_than_agreed(task: str) -> None:
    assert 0 < len(steps(task)) <= MOST[task]


@pytest.mark.parametrize("task", MOST)
def test_the_files_of_a_list_exist_with_the_names_it_mentions(task: str) -> None:
    for step in steps(task):
        codes = CODE.findall(step)
        places = [code for code in codes if code.endswith(".py")]
        assert places, step
        assert [code for code in places if not files(code)] == []
        text = "".join(path.read_text("utf-8") for place in places for path in files(place))
        names = [code for code in codes if re.fullmatch(r"_?[A-Za-z]+(?:_[A-Za-z]+)*", code)]
        assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []
