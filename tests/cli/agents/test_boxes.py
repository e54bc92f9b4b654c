"""Boxes of agents in words: equal ones on one line, and agents without walls in a sentence with the reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.cli.agents.boxes import box_of, boxed, boxes, unwalled
from interlock.protocol.box import Box


def offered(agent_id: str, walls: str | None, **more: Any) -> dict[str, Any]:
    box = {} if walls is None else {"box": msgspec.to_builtins(Box(walls=walls))}  # pyright: ignore[reportArgumentType]
    return {"agent_id": agent_id, **box, **more}


@pytest.mark.req("H-18")
def test_agents_with_the_same_box_share_a_line_and_those_without_walls_have_none() -> None:
    lines = boxes([offered("a", "landlock"), offered("b", "landlock"), offered("c", "none"), offered("d", None)])

    assert len(lines) == 1
    assert lines[0].startswith("a, b ")
    assert lines[0].endswith("the state directory is hidden")


@pytest.mark.req("H-18")
def test_an_agent_whose_runner_reports_no_box_is_described_so() -> None:
    assert box_of(offered("d", None)) is None
    assert boxed(offered("d", None)) == "not stated by its runner"
    assert boxed(offered("a", "landlock")) != boxed(offered("c", "none"))


@pytest.mark.req("H-15")
def test_agents_without_walls_are_named_with_the_reason() -> None:
    sentences = unwalled([offered("a", "none", unwalled="no Landlock here"), offered("b", "none"),
                          offered("c", "none", unwalled="no Landlock here"), offered("d", "landlock")])

    assert sentences == [
        "no walls around a, c, which can read the keys of this state directory: no Landlock here",
        "no walls around b, which can read the keys of this state directory: its runner does not tell why"]
