"""The agent's version of a workspace beside the user's: what it changed, removed, and what can never land (H-17)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.runner.staged import difference as bounds
from interlock.runner.staged.difference import Difference, difference

pytestmark = pytest.mark.req("H-17")
LATER = 2**62


class Trees:
    """A workspace, and what an overlay would have above it."""

    def __init__(self, place: Path) -> None:
        self.lower, self.upper = place / "lower", place / "upper"
        for tree in (self.lower, self.upper):
            tree.mkdir()

    def look(self, before: Difference | None = None, since_ns: int = LATER) -> Difference:
        return difference(self.upper, self.lower, before.bases if before is not None else {}, since_ns)


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    return Trees(tmp_path)


def words(found: Difference) -> list[tuple[str, str]]:
    return [(change.path, change.what) for change in found.changes]


def test_changes_are_found_at_any_depth_and_identical_files_are_not_changes(trees: Trees) -> None:
    (trees.lower / "a").mkdir()
    (trees.lower / "a" / "kept").write_text("x")
    (trees.lower / "a" / "edited").write_text("x")
    (trees.upper / "a" / "new").mkdir(parents=True)
    (trees.upper / "a").chmod((trees.lower / "a").stat().st_mode & 0o777)
    (trees.upper / "a" / "kept").write_text("x")
    (trees.upper / "a" / "edited").write_text("y")
    (trees.upper / "a" / "new" / "file").write_text("z")

    assert words(trees.look()) == [("a/edited", "modified"), ("a/new", "added"), ("a/new/file", "added")]


def test_the_digest_covers_content_and_mode(trees: Trees) -> None:
    file = trees.upper / "file"
    seen: set[str] = set()
    for text, mode in (("x", 0o644), ("y", 0o644), ("x", 0o755)):
        file.write_text(text)
        file.chmod(mode)
        seen.add(trees.look().digest)

    assert len(seen) == 3


def test_a_file_changed_by_the_user_before_the_agent_has_an_unknown_original(trees: Trees) -> None:
    (trees.lower / "file").write_text("users")
    (trees.upper / "file").write_text("agents")
    since_ns = (trees.lower / "file").stat().st_ctime_ns

    assert trees.look(since_ns=since_ns).changes[0].base.kind == "file"
    assert trees.look(since_ns=since_ns - 1).changes[0].base.kind == "unknown"


def test_the_original_stays_fixed_while_the_user_continues(trees: Trees) -> None:
    (trees.lower / "file").write_text("first")
    (trees.upper / "file").write_text("agents")
    before = trees.look()
    (trees.lower / "file").write_text("users, later")

    assert trees.look(before).changes == before.changes


def test_a_file_that_can_never_land_is_named_with_the_reason(trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_DEPTH", 1)
    os.mkfifo(trees.upper / "fifo")
    (trees.upper / "suid").touch()
    (trees.upper / "suid").chmod(0o4755)
    (trees.upper / os.fsdecode(b"\xff")).touch()
    (trees.upper / "one" / "two" / "three").mkdir(parents=True)
    left_out = {one.path: one.why for one in trees.look().left_out}

    assert "neither a file" in left_out["fifo"]
    assert "set-user-id" in left_out["suid"]
    assert "not UTF-8" in left_out["\\xff"]
    assert "more than 1 directories deep" in left_out["one/two"]
    assert "suid" not in dict(words(trees.look()))
