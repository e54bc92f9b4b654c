"""Text into blocks: the same blocks for every division of the agent's text, and no frame above its limit."""

from __future__ import annotations

import hashlib
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.protocol.limits import MAX_BLOCK_BYTES, MAX_DELTA_BYTES, MAX_TOOL_OUTPUT_BYTES
from interlock.protocol.sizes import json_size
from interlock.runner.turn.blocks import BlockDelta, Blocks, BoundedOutput, Done, Kind, fit, sound

TEXT = st.text(alphabet=st.sampled_from('a"\\\n\x00é漢😀'), max_size=40)


def play(pieces: list[tuple[Kind, str]]) -> tuple[list[Done], list[BlockDelta]]:
    numbers = itertools.count(1)
    blocks = Blocks(lambda prefix: f"{prefix}{next(numbers)}")
    steps = [step for kind, text in pieces for step in blocks.write(kind, text)] + blocks.close()
    return [s for s in steps if isinstance(s, Done)], [s for s in steps if isinstance(s, BlockDelta)]


@pytest.mark.req("E-4", "E-5")
@settings(max_examples=60, deadline=None)
@given(text=TEXT, factor=st.integers(1, 30_000), cuts=st.lists(st.integers(0, 400_000), max_size=6))
def test_every_split_of_a_text_gives_the_same_blocks(text: str, factor: int, cuts: list[int]) -> None:
    whole = text * min(factor, 400_000 // max(len(text), 1))
    edges = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    parts: list[tuple[Kind, str]] = [("text", whole[a:b]) for a, b in itertools.pairwise(edges)]
    once, _ = play([("text", whole)])
    split, deltas = play(parts)
    assert split == once
    assert "".join(done.text for done in split) == whole
    assert all(json_size(done.text) <= MAX_BLOCK_BYTES for done in split)
    assert [done.continues for done in split] == [None, *(done.block_id for done in split)][: len(split)]
    written: dict[str, str] = {}
    for delta in deltas:
        assert delta.offset == len(written.get(delta.block_id, ""))
        assert json_size(delta.text) <= MAX_DELTA_BYTES
        written[delta.block_id] = written.get(delta.block_id, "") + delta.text
    assert written == {done.block_id: done.text for done in split}


@pytest.mark.req("E-4")
def test_another_kind_of_text_closes_a_block() -> None:
    done, _ = play([("text", "a"), ("thinking", "b"), ("text", ""), ("thinking", "c"), ("text", "d")])
    assert [(d.kind, d.text) for d in done] == [("text", "a"), ("thinking", "bc"), ("text", "d")]
    assert {d.continues for d in done} == {None}


@pytest.mark.req("E-5")
@settings(max_examples=40, deadline=None)
@given(text=TEXT.filter(bool), factor=st.integers(1, 100_000), size=st.integers(1, 50_000))
def test_a_tools_output_keeps_its_ends_and_counts_the_rest(text: str, factor: int, size: int) -> None:
    whole = text * min(factor, 600_000 // len(text))
    kept = BoundedOutput()
    for at in range(0, len(whole), size):
        kept.add(whole[at : at + size])
    shown, truncated = kept.result()
    assert json_size(shown) <= MAX_TOOL_OUTPUT_BYTES
    if truncated is None:
        assert shown == whole
        return
    assert json_size(whole) > MAX_TOOL_OUTPUT_BYTES - 24
    assert truncated.bytes_total == len(whole.encode())
    assert truncated.bytes_kept == len(shown.encode())
    assert truncated.sha256 == hashlib.sha256(whole.encode()).hexdigest()
    half = MAX_TOOL_OUTPUT_BYTES // 2
    head = fit(whole, half)
    assert shown.startswith(whole[:head])
    assert whole.endswith(shown[head:])
    assert json_size(shown[head:]) > half - 24


@pytest.mark.req("E-5")
def test_lone_surrogates_are_replaced() -> None:
    assert sound("a\ud800b") == "a\ufffdb"
    assert sound("😀") == "😀"
