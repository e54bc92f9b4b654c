"""The question about staged changes: bounded, under a digest over all of them, and a choice must be of these (H-17)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.ports.agent import InteractionAnswer
from interlock.runner.staged import question as bounds
from interlock.runner.staged.difference import Difference, difference
from interlock.runner.staged.question import picked_by, question, report

pytestmark = pytest.mark.req("H-17")


class Trees:
    """A workspace, the agent's version of it, and the question about their differences."""

    def __init__(self, place: Path) -> None:
        self.lower, self.upper = place / "lower", place / "upper"
        for tree in (self.lower, self.upper):
            tree.mkdir()

    def write(self, name: str, old: str | None, new: str) -> None:
        if old is not None:
            (self.lower / name).write_text(old)
        (self.upper / name).write_text(new)

    def found(self) -> Difference:
        return difference(self.upper, self.lower, {}, 2**62)

    def asked(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        made = question(self.found(), self.upper, self.lower)
        return msgspec.json.decode(made.input_json), msgspec.json.decode(made.content_json or b"[]")


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    return Trees(tmp_path)


def test_each_file_is_listed_by_its_digest_and_shown_with_both_texts(trees: Trees) -> None:
    trees.write("a.txt", "old", "new")
    trees.write("b.txt", None, "added")
    asked, shown = trees.asked()

    assert (asked["changes"], asked["digest"]) == (2, trees.found().digest)
    assert [(one["path"], one["change"]) for one in asked["files"]] == [("a.txt", "modified"), ("b.txt", "added")]
    assert [(one["path"], one["oldText"], one["newText"]) for one in shown] == [
        ("a.txt", "old", "new"), ("b.txt", "", "added")]
    assert "notListed" not in asked


def test_a_large_file_is_shown_by_its_differences_and_a_binary_one_by_its_digest(
        trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_TEXT_BYTES", 200)
    many = "\n".join(f"line {number}" for number in range(100))
    trees.write("long.txt", many, many.replace("line 50", "changed"))
    (trees.upper / "binary").write_bytes(b"\0\1")
    asked, shown = trees.asked()

    assert len(asked["files"]) == 2
    (one,) = shown
    assert "+changed" in one["content"]["text"]
    assert "line 1\n" not in one["content"]["text"]


def test_unlisted_files_are_counted_and_still_covered(trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_LISTED_BYTES", 400)
    for number in range(10):
        trees.write(f"file{number}", None, "x")
    asked, _ = trees.asked()

    assert 0 < len(asked["files"]) < 10
    assert asked["notListed"] == 10 - len(asked["files"])
    assert asked["digest"] == trees.found().digest


def test_a_choice_contains_only_files_of_the_question(trees: Trees) -> None:
    trees.write("a.txt", None, "x")
    found = trees.found()

    def chosen(**changed: Any) -> list[str] | None:
        return picked_by(InteractionAnswer(True, "land", updated_input={"digest": found.digest, **changed}), found)

    assert picked_by(InteractionAnswer(True, "land"), found) is None
    assert chosen(files=[{"path": "a.txt", "sha256": "x"}]) == ["a.txt"]
    with pytest.raises(ValueError, match="another digest"):
        chosen(digest="0" * 64, files=[])
    with pytest.raises(ValueError, match="not a list of objects"):
        chosen(files=["a.txt"])


def test_a_report_names_refused_files_with_the_reason(trees: Trees) -> None:
    trees.write("a.txt", None, "x")
    found = trees.found()
    fields = report("staged", found, found.changes, found.left_out, {"a.txt": "git would run it"})

    assert (fields["event"], fields["count"], fields["refused_count"]) == ("staged", 1, 0)
    assert fields["digest"] == found.digest
    assert fields["files"][0].unasked == "git would run it"
    assert report("landed", None, found.changes, [], {})["digest"] == found.digest
