"""The builtin agent's tools: which are offered, and what the model's arguments for them are taken for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.agents.builtin.tools import TOOLS, offered, understood

pytestmark = pytest.mark.req("B-1")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\ntwo\n")
    (work / "binary").write_bytes(b"\0\1\2")
    (work / "latin").write_bytes("é".encode("latin-1"))
    (work / "long").write_text("x" * 100_000)
    (work / "many").write_text("line\n" * 5_000)
    (work / "inner").mkdir()
    os.mkfifo(work / "pipe")
    (work / "loop").symlink_to("loop")
    (work / "inside").symlink_to("a.txt")
    (work / "outside").symlink_to(tmp_path)
    return work


@pytest.mark.parametrize(("path", "said"), [
    ("none", "No such file"), ("inner", "a directory"), ("pipe", "not a regular file"), ("binary", "not text"),
    ("latin", "not UTF-8"), ("loop", "cannot be resolved"), ("a\0b", "zero byte"), ("../x", "outside the workspace"),
    ("outside/x", "outside the workspace"), ("~/x", "No such file"), ("/", "outside the workspace"),
])
def test_what_cannot_be_read_is_said_in_one_sentence(place: Path, path: str, said: str) -> None:
    with pytest.raises(ToolFailed) as failed:
        files.read(place, path)
    assert said in str(failed.value)
    assert "\n" not in str(failed.value)


def test_reading_is_bounded_and_says_how_to_go_on(place: Path) -> None:
    assert files.read(place, "inside") == "1\tone\n2\ttwo\n3\ttwo"
    assert files.read(place, "long").endswith("… (100000 characters)")
    first = files.read(place, "many")
    assert first.endswith("(3000 more lines; continue with offset 2001)")
    assert files.read(place, "many", offset=5_000) == "5000\tline"
    with pytest.raises(ToolFailed, match="beyond its end"):
        files.read(place, "many", offset=5_001)


def test_changes_are_exact_or_not_made(place: Path) -> None:
    for old, new, said in (("two", "2", "2 times"), ("three", "3", "does not contain"), ("", "x", "is empty"),
                           ("one", "one", "the same")):
        with pytest.raises(ToolFailed, match=said):
            files.edit(place, "a.txt", old, new)
    assert files.edit(place, "a.txt", "two", "2", every=True) == "a.txt: 2 places changed"
    assert files.write(place, "new/deep/b.txt", "x") == "new/deep/b.txt: written, 1 lines"
    for path in (".", "inner", "pipe", "a.txt/x", "outside/x"):
        with pytest.raises(ToolFailed):
            files.write(place, path, "x")
    assert (place / "a.txt").read_text() == "one\n2\n2\n"
    assert sorted(entry.name for entry in place.parent.iterdir()) == ["work"]


@pytest.mark.req("A-1")
def test_a_link_that_is_put_in_between_is_not_followed(place: Path) -> None:
    seen = resolved(place, "inner/file")
    (place / "inner").rmdir()
    (place / "inner").symlink_to(place.parent)
    with pytest.raises(ToolFailed), opened(place, seen, os.O_WRONLY | os.O_CREAT):
        pass
    assert not (place.parent / "file").exists()


def test_listing_and_searching_show_links_and_follow_none(place: Path) -> None:
    listed = files.listing(place, ".", 9).split("\n")
    assert f"outside -> {place.parent}" in listed
    assert "inner/" in listed
    assert search_tool.search(place, "^tw.$") == "a.txt:2: two\na.txt:3: two"
    assert search_tool.search(place, "TWO", ignore_case=True).count("\n") == 1
    assert search_tool.search(place, "line").endswith("(the first 200 matches; narrow the pattern or the path)")
    assert search_tool.search(place, "x", "inner") == "(no match)"
    for pattern, path in (("(", "."), ("x", "none"), ("x", "outside")):
        with pytest.raises(ToolFailed):
            search_tool.search(place, pattern, path)


@pytest.mark.parametrize("given", [
    "", "[]", "null", "7", "{", '{"path":1}', '{"path":"a","more":1}', '"' + "[" * 100_000, "[" * 100_000,
    {"path": None}, {}, {"path": "\ud800"}, None], ids=lambda given: ascii(given)[:20])
def test_odd_arguments_are_an_object_with_a_reason(given: Any) -> None:
    call = understood("read", given, list(TOOLS))
    assert isinstance(call.input, dict)
    assert call.wrong is not None or call.arguments is not None
    assert "\n" not in (call.wrong or "")
    assert msgspec.json.encode(call.input)


def test_what_is_offered_follows_access_and_mode() -> None:
    names = {(access, mode): [tool.name for tool in offered(access, mode)]
             for access in ("rw", "ro", "none") for mode in ("default", "plan")}
    assert names["rw", "default"] == ["read", "list", "search", "write", "edit", "shell"]
    assert names["ro", "default"] == names["rw", "plan"] == ["read", "list", "search"]
    assert names["none", "default"] == []
