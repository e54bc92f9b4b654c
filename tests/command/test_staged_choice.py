"""Choosing among staged changes (H-17): the question's input with the chosen files alone."""

from __future__ import annotations

import msgspec
import pytest

from interlock.command.staged_choice import chosen_input
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Approval

pytestmark = pytest.mark.req("H-17")
FILES = [{"path": "a"}, {"path": "src/a", "change": "added"}, {"path": "src/b"}, {"path": "srcs/c"}]


def approval(**fields: object) -> Approval:
    asked = {"workspace": "/w", "digest": "d", "changes": 4, "files": FILES, **fields}
    return Approval(id="a", tenant_id="t", door="tool", state="pending", created_at="", expires_at="", title="",
    rule="r",
                    agent_id="shell", session_id="s", digest="d", input=msgspec.Raw(msgspec.json.encode(asked)))


@pytest.mark.parametrize(("names", "paths"), [
    (["a"], ["a"]), (["src"], ["src/a", "src/b"]), (["src/"], ["src/a", "src/b"]), (["./src/b", "a"], ["src/b", "a"]),
    (["src", "src/a"], ["src/a", "src/b"]), ([], []),
])
def test_changes_at_or_below_a_path_are_selected_once(names: list[str], paths: list[str]) -> None:
    kept = msgspec.json.decode(chosen_input(approval(), names))
    assert [one["path"] for one in kept["files"]] == paths
    assert {name: value for name, value in kept.items() if name != "files"} == {
        "workspace": "/w", "digest": "d", "changes": 4}


@pytest.mark.parametrize("name", ["b", "sr", "src/a/x", "", "/a/..", "A"])
def test_a_path_that_is_not_listed_is_refused_by_its_place(name: str) -> None:
    with pytest.raises(Problem) as caught:
        chosen_input(approval(), ["a", name])
    assert caught.value.code == "InvalidPayload"
    assert caught.value.errors[0].pointer == "/files/1"
    assert "interlock changes" in caught.value.hint


def test_a_request_without_changes_offers_no_choice() -> None:
    with pytest.raises(Problem, match="is not among the changes"):
        chosen_input(approval(files=[]), ["a"])
