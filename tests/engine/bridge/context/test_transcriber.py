"""A transcript as its lane writes it: its own ids, each entry below the leaf, and a reserved id for the next prompt."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from interlock.engine.bridge.context.transcriber import Transcriber
from interlock.protocol.payloads import PromptRequest
from interlock.protocol.resources import Notice
from interlock.session.transcript.transcript import TranscriptFold, notice_draft, prompt_draft

pytestmark = pytest.mark.req("X-3", "X-8")
AT = "2026-01-01T00:00:00.000Z"


def entropy() -> Any:
    numbers = itertools.count(1)
    return lambda count: next(numbers).to_bytes(count, "big")


def transcriber(leaf: str | None = None, ids: set[str] | None = None, **more: str) -> Transcriber:
    return Transcriber("default", "s1", TranscriptFold("shell"), leaf, ids or set(), **more)


def prompt() -> Any:
    return prompt_draft(PromptRequest(prompt_id="p", input_type="text", origin="user", text="hi"), 0)


def entries(lines: list[Any]) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line.line) for line in lines]


def test_each_entry_has_the_one_before_it_as_parent_and_a_unique_id() -> None:
    made = transcriber("00000000", {"00000000"})
    lines = made.lines([prompt(), prompt()], AT, entropy())
    first, second = entries(lines)

    assert (first["parentId"], second["parentId"]) == ("00000000", first["id"])
    assert made.leaf == second["id"]
    assert made.known == sorted({"00000000", first["id"], second["id"]})
    assert {line.session_id for line in lines} == {"s1"}


def test_the_reserved_id_is_used_only_by_the_next_prompt() -> None:
    made, randomness = transcriber(), entropy()
    reserved = made.reserve(randomness)
    assert made.reserve(randomness) == made.reserved == reserved

    line, = entries(made.lines([prompt()], AT, randomness))

    assert (line["id"], made.reserved) == (reserved, "")


def test_a_reserved_id_that_was_used_meanwhile_is_dropped() -> None:
    assert transcriber(None, {"a"}, reserved="a").reserved == ""
    assert transcriber(None, {"a"}, reserved="b").reserved == "b"


def test_a_branch_continues_below_another_entry() -> None:
    made = transcriber("b", {"a", "b"})
    made.branch("a")
    line, = entries(made.lines([prompt()], AT, entropy()))

    assert line["parentId"] == "a"
    assert made.knows(line["id"])


def test_a_rewritten_file_keeps_the_leaf_if_it_still_has_it() -> None:
    kept, lost = transcriber("b", {"a", "b"}), transcriber("b", {"a", "b"})
    kept.rejoin("c", {"a", "b", "c"})
    lost.rejoin("c", {"a", "c"})

    assert (kept.leaf, lost.leaf, lost.context_leaf) == ("b", "c", "c")


def test_a_notice_does_not_move_the_context() -> None:
    made = transcriber("a", {"a"})
    before = made.context_leaf
    made.lines([notice_draft(Notice(code="Truncated", message="lost"))], AT, entropy())

    assert made.leaf != "a"
    assert made.context_leaf == before
