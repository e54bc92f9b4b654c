"""The normaliser: an agent's input as paths, commands, URLs, and parts that could not be parsed (H-6)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from interlock.command.facts import shell
from interlock.command.facts.request import AgentRequest, RequestFacts, facts


def of(value: Any, **more: Any) -> RequestFacts:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return facts(AgentRequest(raw, "/w", **more))


@pytest.mark.req("P-1", "H-6")
@pytest.mark.parametrize("name", ["path", "file_path", "fileName", "file_name", "filepath", "pathname", "notebook_path",
                                  "target-file", "Destination", "src", "dir"])
def test_a_path_is_found_under_any_name_at_any_depth(name: str) -> None:
    assert of({name: "src/a"}).paths == ("src/a",)
    assert of({"edits": [{"options": {name: ["src/a", "/w/../etc"]}}]}).paths == ("src/a", "/etc")


@pytest.mark.req("P-1", "H-6")
@pytest.mark.parametrize(("value", "paths"), [
    ({"whatever": "/etc/passwd"}, ("/etc/passwd",)),
    ({"whatever": "../x"}, ("/x",)),
    ({"whatever": "a sentence, with no place"}, ()),
    ({"content": "/etc/passwd\nand more"}, ()),
    ({"path": "src\\..\\..\\x"}, ("src\\..\\..\\x", "/x")),
    ({"path": "file:///etc/passwd"}, ("/etc/passwd",)),
    ({"files": {"src/a": "text"}}, ("src/a",)),
    ({"patch": "*** Begin Patch\n*** Update File: src/a\n*** Move to: /b\n*** End Patch"}, ("src/a", "/b")),
    ({"diff": "--- a/src/a\n+++ b/src/b\n"}, ("src/a", "src/b")),
    ({"command": "str_replace", "path": "src/a"}, ("src/a",)),
])
def test_a_member_that_names_a_location_is_a_path(value: dict[str, Any], paths: tuple[str, ...]) -> None:
    found = of(value)
    assert found.paths == paths
    assert found.lines == ()
    assert found.unclear is None


@pytest.mark.req("P-1", "H-6")
@pytest.mark.parametrize(("value", "lines"), [
    ({"command": "ls -l"}, ("ls -l",)),
    ({"cmd": ["ls", "a b"]}, ("ls 'a b'",)),
    ({"command": "git", "args": ["log", "-1"]}, ("git log -1",)),
    ({"command": ["sh", "-c", "a; b"]}, ("sh -c 'a; b'", "sh -c a; b")),
    ({"command": "ls", "script": "rm x"}, ("ls", "rm x")),
    ({"options": {"command": "rm x"}}, ("rm x",)),
])
def test_programs_and_their_arguments_are_combined(value: dict[str, Any], lines: tuple[str, ...]) -> None:
    assert of(value).lines == lines


@pytest.mark.req("P-1", "H-6")
def test_members_beside_a_command_are_facts() -> None:
    assert of({"command": "ls", "cwd": "src", "env": {}, "stdin": ""}).beside == ()
    assert of({"command": "ls", "cwd": "/etc"}).beside == ("directory",)
    assert of({"command": "ls", "env": {"A": "1"}, "stdin": "x"}).beside == ("environment", "standard input")


@pytest.mark.req("P-1", "H-6")
@pytest.mark.parametrize("value", [b"", b"null", b"[]", b"{", b'{"a": NaN}', b"\xff", b'{"a": 1, "a": 2}',
                                   b"[" * 90_000, {"command": 7}, {"command": [["ls"]]},
                                   {"args": ["x"]}, {"path": "a\nb"}, {"cwd": "a", "workdir": "b"}])
def test_an_uninterpretable_request_has_a_reason(value: object) -> None:
    assert of(value).unclear


@pytest.mark.req("P-1", "H-6")
def test_both_values_of_a_repeated_member_are_facts() -> None:
    found = of(b'{"path": "src/a", "path": "/etc/passwd"}')
    assert found.paths == ("src/a", "/etc/passwd")
    assert found.unclear == 'its input has "path" twice'


@pytest.mark.req("P-1", "H-6")
def test_locations_content_and_links_are_facts() -> None:
    diff = json.dumps([{"type": "diff", "path": "docs/b", "newText": "x"}]).encode()
    found = of({"path": "src/a"}, locations=("/etc/c",), content=diff, resolved_paths={"src/a": "/home/x"})
    assert found.paths == ("src/a", "/etc/c", "docs/b", "/home/x")


@pytest.mark.req("P-1", "H-6")
def test_a_described_request_is_text_for_deny_rules() -> None:
    found = facts(AgentRequest(None, "/w", title="Run rm -rf x", described=True))
    assert (found.described, found.unclear) == (True, None)
    assert "Run rm -rf x" in found.texts


@pytest.mark.req("H-6")
def test_a_large_input_is_evaluated_in_linear_time() -> None:
    began = time.process_time()
    assert of({f"path{number}": f"src/{number}" for number in range(50_000)}).unclear
    assert of({"content": "x" * 4_000_000}).unclear is None
    assert time.process_time() - began < 10


@pytest.mark.req("P-1", "H-6")
def test_the_reason_is_that_of_the_whole_or_of_the_first_unclear_command_line() -> None:
    assert of({"command": "git log"}).why_unclear is None
    assert of({"commands": ["git log", "ls &&", "echo $(("]}).why_unclear == shell.read("ls &&").unclear
    both = of(b'{"path": "a", "path": "b", "command": "ls &&"}')
    assert both.why_unclear == both.unclear == 'its input has "path" twice'
