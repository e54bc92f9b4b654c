"""Requester and host of a request (H-4): the same names in the same order on every surface, each on one line."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.command.card.asked_by import NAME_CHARS, PATH_CHARS, names
from interlock.protocol.box import Box
from interlock.protocol.hold import Holding
from interlock.protocol.resources import Actor, Approval

pytestmark = pytest.mark.req("H-4")


def approval(**fields: Any) -> Approval:
    return Approval(**{"id": "a", "tenant_id": "t", "door": "tool", "state": "pending", "created_at": "",
    "expires_at": "",
                       "title": "", "rule": "r", "agent_id": "shell", "session_id": "s", "digest": "d",
                       "input": msgspec.Raw(b"{}"), **fields})


def test_all_participants_are_named_in_one_order() -> None:
    asked = approval(requested_by=Actor(type="user", id="ann"), agent_id="claude", tool_name="Bash", runner_id="r1",
                     workspace="/w", holding=Holding(held="asks", checked="2026-11-22T00:00:00Z"),
                     box=Box(walls="namespace"))
    found = names(asked)
    assert found[:5] == ["user ann", "agent claude", "tool Bash", "r1:/w", "held: asks (checked 2026-11-22)"]
    assert len(found) == 6


@pytest.mark.parametrize(("fields", "found"), [
    ({}, ["the agent", "agent shell", "a runner:(its first root)"]),
    ({"tool_name": "shell"}, ["the agent", "agent shell", "a runner:(its first root)"]),
    ({"verb": "close"}, ["the agent", "agent shell"]),
    ({"verb": "close", "runner_id": "r"}, ["the agent", "agent shell", "r:(its first root)"]),
    ({"agent_id": "", "workspace": "/w"}, ["the agent", "a runner:/w"]),
])
def test_unknown_participants_are_marked_or_omitted(fields: dict[str, Any], found: list[str]) -> None:
    assert names(approval(**fields)) == found


@pytest.mark.req("H-18")
def test_a_box_is_named_if_something_runs_in_it() -> None:
    assert len(names(approval(box=Box(walls="namespace")))) == 4
    assert len(names(approval(box=Box(walls="namespace"), verb="close"))) == 2


@pytest.mark.parametrize("hostile", ["a\nb", "a\x1b[2Jb", "a\u202eb", "x" * 10_000])
def test_no_name_breaks_its_line_or_fills_the_card(hostile: str) -> None:
    asked = approval(requested_by=Actor(type="agent", id=hostile), agent_id=hostile, tool_name=hostile + "!",
                     workspace=hostile, runner_id=hostile, holding=Holding(held="none", why=hostile))
    for line in names(asked):
        assert line.isprintable()
        assert len(line) <= PATH_CHARS + NAME_CHARS + 10
