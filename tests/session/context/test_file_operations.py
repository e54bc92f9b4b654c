"""Which files a conversation read and changed (Z-3), whatever its agent calls its tools."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.session.context.file_operations import MAX_FILES, MAX_PATH_CHARS, Files, files_of

pytestmark = pytest.mark.req("Z-3")
NONE = Files([], [])


def call(name: str, call_id: str = "c", **arguments: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": [
        {"type": "text", "text": "let me see"},
        {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}]}}


def result(call_id: str = "c", is_error: bool = True) -> dict[str, Any]:
    return {"message": {"role": "toolResult", "toolCallId": call_id, "isError": is_error}}


@pytest.mark.parametrize(("entry", "files"), [
    (call("read", path="a"), Files(["a"], [])), (call("Read", file_path="a"), Files(["a"], [])),
    (call("write_file", filePath="a"), Files([], ["a"])), (call("NotebookEdit", notebook_path="a"), Files([], ["a"])),
    (call("edit", abs_path="/a"), Files([], ["/a"])), (call("shell", command="cat a"), NONE), (call("read"), NONE),
    (call("read", path=""), NONE), (call("read", path=7), NONE), (call("read", path="x" * (MAX_PATH_CHARS + 1)), NONE),
])
def test_a_file_is_read_or_changed_by_the_tools_name(entry: dict[str, Any], files: Files) -> None:
    assert files_of([entry], NONE) == files


def test_a_changed_file_is_not_listed_as_read() -> None:
    assert files_of([call("read", "1", path="a"), call("edit", "2", path="a"), call("read", "3", path="b")],
                    NONE) == Files(["b"], ["a"])
    assert files_of([call("edit", path="a")], Files(["a", "b"], ["c"])) == Files(["b"], ["a", "c"])


def test_a_failed_or_denied_call_touches_no_file() -> None:
    assert files_of([call("edit", path="a"), result()], NONE) == NONE
    assert files_of([call("edit", path="a"), result(is_error=False)], NONE) == Files([], ["a"])
    assert files_of([call("edit", path="a"), result("another")], NONE) == Files([], ["a"])


def test_a_repeated_id_is_another_call() -> None:
    assert files_of([call("edit", path="a"), call("edit", path="b"), result()], NONE) == Files([], ["a"])


def test_calls_without_an_id_do_not_replace_each_other() -> None:
    assert files_of([call("read", "", path="a"), call("read", "", path="b")], NONE).read == ["a", "b"]


def test_the_most_recently_touched_files_are_carried() -> None:
    many = files_of([call("read", str(number), path=f"{number:04}") for number in range(MAX_FILES + 10)], NONE)
    assert (len(many.read), many.read[0]) == (MAX_FILES, "0010")
    again = files_of([call("read", path="0010"), call("read", "d", path="z")], many)
    assert "0010" in again.read
    assert "0011" not in again.read


@pytest.mark.parametrize("entry", [
    {}, {"message": None}, {"message": {"role": "assistant", "content": "text"}},
    {"message": {"role": "assistant", "content": [None, 7, {"type": "toolCall"}]}},
    {"message": {"role": "assistant", "content": [{"type": "toolCall", "name": "read", "arguments": "a"}]}},
])
def test_odd_entries_touch_nothing(entry: dict[str, Any]) -> None:
    assert files_of([entry], NONE) == NONE


@pytest.mark.parametrize(("details", "files"), [
    ({"readFiles": ["a", 7, None], "modifiedFiles": ["b"]}, Files(["a"], ["b"])), ({"readFiles": "a"}, NONE),
    (None, NONE), ([], NONE), ("text", NONE),
])
def test_the_file_lists_of_an_earlier_compaction_are_validated(details: Any, files: Files) -> None:
    assert Files.of_details(details) == files
