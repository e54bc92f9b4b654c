"""A request taken apart (H-1, H-2): nothing is omitted, whatever the names and repetitions of its members."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.command.card.request import (
    FileEdit,
    InputMember,
    Parts,
    ReceivedRequest,
    announces,
    labelled,
    lacks_effect,
    parts,
    patched,
    same_effect,
    same_input,
    written,
)

pytestmark = pytest.mark.req("H-1", "H-2")
PATCH = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+new\n"


def raw(value: Any) -> bytes:
    return json.dumps(value).encode()


def taken(value: Any, content: Any = None) -> Parts:
    return parts(ReceivedRequest("Tool", raw(value), content=None if content is None else raw(content)))


@pytest.mark.parametrize(("value", "line"), [
    ({"command": "ls -l"}, "ls -l"), ({"cmd": ["git", "commit", "-m", "two words"]}, "git commit -m 'two words'"),
    ({"commandLine": "x", "cwd": "/"}, "x"), ({"script": "a\nb"}, "a\nb"),
])
def test_a_command_line_is_found_under_each_of_its_member_names(value: Any, line: str) -> None:
    assert taken(value).lines == [line]


@pytest.mark.parametrize(("value", "edit"), [
    ({"file_path": "a", "old_string": "x", "new_string": "y"}, FileEdit("a", "y", "x")),
    ({"path": "a", "content": "whole"}, FileEdit("a", "whole")),
    ({"notebook_path": "a", "new_source": "y"}, FileEdit("a", "y")),
    ({"command": "str_replace", "path": "a", "old_str": "x", "new_str": "y"}, FileEdit("a", "y", "x")),
    ({"path": "a", "edits": [{"oldText": "x", "newText": "y"}]}, FileEdit("a", "y", "x")),
    ({"patch": PATCH}, FileEdit("x.py", PATCH, patch=True)),
])
def test_an_edit_is_found_in_the_forms_that_agents_use(value: Any, edit: FileEdit) -> None:
    found = taken(value)
    assert (found.edits, found.rest, found.lines) == ([edit], [], [])


@pytest.mark.parametrize("value", [
    {"path": "a", "edits": [{"oldText": "x", "newText": "y", "also": 1}]}, {"path": "a", "edits": [{"oldText": "x"}]},
    {"path": "a", "edits": []}, {"path": "a", "edits": [1]}, {"command": ["ls", 1]}, {"command": 7}, {"patch": "x"},
])
def test_members_not_fully_understood_stay_in_the_rest(value: Any) -> None:
    found = taken(value)
    assert (found.edits, found.lines) == ([], [])
    assert {member.name for member in found.rest} == set(value)


def test_a_repeated_member_is_shown_twice_and_not_interpreted() -> None:
    found = parts(ReceivedRequest("Bash", b'{"command":"ls","command":"rm -rf /","description":"list"}'))
    assert found.lines == []
    assert [member.value for member in found.rest] == ["ls", "rm -rf /"]
    assert found.words == ["list"]


def test_every_member_is_shown_in_some_part() -> None:
    found = taken({"url": "https://x", "path": "a", "n": 1, "reason": "why", "title": ["7"],
    "nested": {"command": "x"}})
    assert (found.urls, found.paths, found.words) == (["https://x"], ["a"], ["why"])
    assert [member.name for member in found.rest] == ["url", "path", "n", "title", "nested"]


@pytest.mark.parametrize("bad", [b"[]", b"7", b'"x"', b"{", b"\xff", b"[" * 100_000, b"null"])
def test_an_input_that_is_not_an_object_is_shown_unchanged(bad: bytes) -> None:
    assert parts(ReceivedRequest("T", bad)).unreadable == bad.decode("utf-8", "backslashreplace")


def test_a_missing_input_is_an_empty_one() -> None:
    assert parts(ReceivedRequest("T", b"")) == Parts()


def test_content_is_split_into_diffs_texts_and_the_rest() -> None:
    content = [{"type": "diff", "path": "a", "newText": "y", "oldText": None},
               {"type": "content", "content": {"type": "text", "text": "see"}}, {"type": "terminal", "id": 1}, 7]
    found = taken({}, content)
    assert found.edits == [FileEdit("a", "y", "")]
    assert found.shown == ["see", '{"type": "terminal", "id": 1}', "7"]
    assert parts(ReceivedRequest("T", b"{}", content=b"{broken")).shown == ["{broken"]


@pytest.mark.parametrize(("kind", "value", "lacks"), [
    ("execute", {"command": "ls"}, False), ("execute", {"note": "ls"}, True), ("edit", {"path": "a"}, False),
    ("edit", {"note": "x"}, True), ("delete", {"path": "a"}, False), (None, {"x": 1}, False), (None, {}, True),
    ("read", {"description": "x"}, False),
])
def test_an_input_without_the_effect_of_its_kind_is_marked(kind: str | None, value: Any, lacks: bool) -> None:
    assert lacks_effect(kind, raw(value)) is lacks
    assert lacks_effect(kind, b"")


@pytest.mark.parametrize(("one", "other", "same"), [
    (b'{"a":1,"b":2}', b'{ "b": 2, "a": 1 }', True), (b"{", b"{", True), (b"{", b"{}", False),
    (b'{"a":1}', b'{"a":2}', False),
])
def test_an_input_in_another_order_is_equal(one: bytes, other: bytes, same: bool) -> None:
    assert same_input(one, other) is same


@pytest.mark.req("H-3", "H-12")
@pytest.mark.parametrize(("ran", "allowed", "same"), [
    ({"command": "ls"}, {"command": "ls", "description": "list"}, True),
    ({"command": "ls", "description": "other words"}, {"command": "ls"}, True),
    ({"command": "ls"}, {"command": "ls", "cwd": "/other"}, False), ({"command": "ls -a"}, {"command": "ls"}, False),
    ({"command": "ls", "env": {"A": "1"}}, {"command": "ls"}, False), ({}, {"command": "ls"}, True),
    ({"path": "a", "old_string": "x", "new_string": "y"}, {"path": "a", "oldText": "x", "newText": "y"}, True),
    ({"path": "b", "old_string": "x", "new_string": "y"}, {"path": "a", "oldText": "x", "newText": "y"}, False),
    ({"path": "a", "old_string": "x", "new_string": "z"}, {"path": "a", "oldText": "x", "newText": "y"}, False),
    ({"path": "a", "old_string": "x", "new_string": "y"}, {"path": "a", "oldText": "1 x 2", "newText": "1 y 2"}, True),
    ({"path": "x.py", "old_string": "old", "new_string": "new"}, {"patch": PATCH}, True),
    ({"path": "x.py", "old_string": "old", "new_string": "worse"}, {"patch": PATCH}, False),
    ({"path": "y.py", "old_string": "old", "new_string": "new"}, {"patch": PATCH}, False),
])
def test_an_executed_call_is_compared_with_the_allowed_one(ran: Any, allowed: Any, same: bool) -> None:
    assert same_effect(raw(ran), raw(allowed)) is same


@pytest.mark.parametrize(("announced", "asked", "one_of"), [
    ({"command": "ls"}, {"command": "ls", "cwd": "/w"}, True), ({}, {"command": "ls"}, True),
    ({"command": "ls", "cwd": "/x"}, {"command": "ls", "cwd": "/w"}, False), ({"command": "rm"}, {"command": "ls"},
    False),
])
def test_an_announcement_is_a_subset_of_its_request(announced: Any, asked: Any, one_of: bool) -> None:
    assert announces(raw(announced), raw(asked)) is one_of


@pytest.mark.parametrize(("patch", "files"), [
    (PATCH, "x.py"), ("*** Begin Patch\n*** Add File: a\n*** Delete File: b\n*** End Patch", "a, b"),
    ("--- /dev/null\n+++ b/new\t2026", "new"), ("nothing", "files"),
])
def test_a_patch_names_its_files(patch: str, files: str) -> None:
    assert patched(patch) == files


def test_a_value_is_laid_out_with_its_numbers_unchanged() -> None:
    found = parts(ReceivedRequest("T", b'{"a":{"n":1.50,"list":["x\\ny",true,[]]},"e":{}}'))
    lines = [line for member in found.rest for line in labelled(member.name, member.value)]
    assert lines == ["a:", "  n: 1.50", "  list:", "    - x", "      y", "    - true", "    - []", "e: {}"]
    assert written([InputMember("x", "y")][:0]) == ["[]"]


def test_a_very_deeply_nested_value_is_laid_out_too() -> None:
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    assert len(written(deep)) < 200
