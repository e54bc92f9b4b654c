"""The builtin agent's search: what matches, what is skipped, and where it stops."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.agents.builtin.places import ToolFailed
from interlock.agents.builtin.search_tool import MAX_FILE_BYTES, MAX_LINE_CHARS, search

pytestmark = pytest.mark.req("B-1")


def test_lines_that_match_are_named_by_file_and_number(odd_workspace: Path) -> None:
    assert search(odd_workspace, "^tw.$") == "a.txt:2: two\na.txt:3: two"
    assert search(odd_workspace, "TWO") == "(no match)"
    assert search(odd_workspace, "TWO", ignore_case=True).count("\n") == 1
    assert search(odd_workspace, "line").endswith("(the first 200 matches; narrow the pattern or the path)")
    assert search(odd_workspace, "x", "inner") == "(no match)"


@pytest.mark.parametrize(("pattern", "path"), [("(", "."), ("(?=a)", "."), ("\\1", "."), ("x", "none"),
                                               ("x", "outside"), ("x", "../work/../..")])
def test_an_impossible_search_returns_a_reason_to_the_model(odd_workspace: Path, pattern: str, path: str) -> None:
    with pytest.raises(ToolFailed) as failed:
        search(odd_workspace, pattern, path)
    assert "\n" not in str(failed.value)


def test_links_are_searched_inside_the_workspace_by_their_target(odd_workspace: Path) -> None:
    (odd_workspace.parent / "secret.txt").write_text("two\n")
    (odd_workspace / "stolen").symlink_to(odd_workspace.parent / "secret.txt")
    assert search(odd_workspace, "two") == "a.txt:2: two\na.txt:3: two"


def test_a_glob_matches_the_name_or_the_path_from_the_search_root(tmp_path: Path) -> None:
    for name in ("a.py", "src/b.py", "src/c.txt", "src/deep/d.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("here\n")
    assert search(tmp_path, "here", glob="*.py") == "a.py:1: here\nsrc/b.py:1: here\nsrc/deep/d.py:1: here"
    assert search(tmp_path, "here", glob="src/*.txt") == "src/c.txt:1: here"
    assert search(tmp_path, "here", "src", glob="deep/*") == "src/deep/d.py:1: here"


def test_tool_directories_are_searched_if_named(tmp_path: Path) -> None:
    (tmp_path / "node_modules" / "x").mkdir(parents=True)
    (tmp_path / "node_modules" / "x" / "index.js").write_text("here\n")
    assert search(tmp_path, "here") == "(no match)"
    assert search(tmp_path, "here", "node_modules") == "node_modules/x/index.js:1: here"
    assert search(tmp_path, "here", "node_modules/x/index.js") == "node_modules/x/index.js:1: here"


def test_large_and_binary_files_are_skipped_and_long_lines_truncated(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"here\0here\n")
    with (tmp_path / "large").open("wb") as file:
        file.write(b"here\n")
        file.truncate(MAX_FILE_BYTES + 1)
    (tmp_path / "latin").write_bytes(b"here \xe9\n")
    (tmp_path / "long").write_text("here" + "x" * 10_000)
    assert search(tmp_path, "here").split("\n") == [
        "latin:1: here \N{REPLACEMENT CHARACTER}", f"long:1: here{'x' * (MAX_LINE_CHARS - 4)}"]
