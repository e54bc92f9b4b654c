"""Open blocks: whatever the split and the overlap, the text so far is the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.limits import MAX_TOOL_OUTPUT_BYTES
from interlock.protocol.payloads import Payload, SessionClosed, TextDelta, TextDone, ToolResult, ToolStream, TurnEnd
from interlock.session import blocks
from interlock.session.blocks import Hole, OpenBlocks, encoded_size, from_offset, joined


def frame(kind: str, payload: Payload, **metadata: object) -> Frame:
    return Frame(type=kind, payload=payload, message_id="m", session_id="s", timestamp="t", metadata=metadata)


def delta(offset: int, text: str, block: str = "b", **metadata: object) -> Frame:
    return frame("agent.text.delta", TextDelta(turn_id="t", block_id=block, offset=offset, text=text), **metadata)


def stream(offset: int, text: str, **metadata: object) -> Frame:
    return frame("tool.invoke.stream", ToolStream(invocation_id="i", channel="stdout", offset=offset, text=text),
                 **metadata)


def only(open_blocks: OpenBlocks) -> Frame:
    [merged] = open_blocks.merged()
    return merged


@pytest.mark.req("E-4", "S-3")
@given(st.text(min_size=1, max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=20))
def test_any_split_and_any_overlap_give_the_same_text(text: str, spans: list[tuple[int, int]]) -> None:
    open_blocks, seen, reached = OpenBlocks(), "", 0
    for start, length in [*spans, (0, len(text))]:
        first = min(start, reached, len(text))
        piece = text[first:first + length]
        fresh = open_blocks.feed(delta(first, piece))
        assert not isinstance(fresh, Hole)
        if fresh is not None:
            assert fresh.payload.offset == len(seen)
            seen += fresh.payload.text
        reached = max(reached, first + len(piece))
    assert seen == text
    assert only(open_blocks).payload == TextDelta(turn_id="t", block_id="b", offset=0, text=text)


@pytest.mark.req("E-4")
def test_a_gap_is_reported_and_changes_nothing() -> None:
    open_blocks = OpenBlocks()
    open_blocks.feed(delta(0, "abc"))
    assert open_blocks.feed(delta(5, "fg")) == Hole("b", 3, 5)
    assert only(open_blocks).payload.text == "abc"


@pytest.mark.req("E-4", "D-2")
def test_a_gap_left_by_the_writer_is_kept_as_head_and_tail() -> None:
    open_blocks = OpenBlocks()
    open_blocks.feed(stream(0, "head"))
    open_blocks.feed(stream(100, "tail", omitted=96))
    open_blocks.feed(stream(104, "!"))
    head, tail = open_blocks.merged()
    assert (head.payload.offset, head.payload.text, head.metadata) == (0, "head", {})
    assert (tail.payload.offset, tail.payload.text, tail.metadata) == (100, "tail!", {"omitted": 96})
    again = OpenBlocks()
    for part in (head, tail):
        again.feed(part)
    assert again.merged() == [head, tail]


@pytest.mark.req("E-4")
def test_done_result_and_the_turns_end_close_blocks() -> None:
    open_blocks = OpenBlocks()
    for name in ("a", "b", "c"):
        open_blocks.feed(delta(0, name, name))
    open_blocks.feed(stream(0, "x"))
    open_blocks.feed(frame("agent.text.done", TextDone(turn_id="t", block_id="a", text="a")))
    open_blocks.feed(frame("agent.text.done", TextDone(turn_id="t", block_id="unknown", text="a")))
    open_blocks.feed(frame("tool.invoke.result", ToolResult(invocation_id="i", status="ok", output_type="text",
                                                            output="x", duration_ms=1)))
    assert [merged.payload.block_id for merged in open_blocks.merged({"c"})] == ["b"]
    open_blocks.feed(frame("session.turn.end", TurnEnd(turn_id="t", stop_reason="end_turn")))
    assert not open_blocks
    open_blocks.feed(delta(0, "d", "d"))
    open_blocks.feed(frame("session.closed", SessionClosed(reason="done")))
    assert not open_blocks


@pytest.mark.req("E-5", "D-2")
@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 90_000), min_size=1, max_size=8), st.sampled_from(["x", "é", "\x01a", "한\n"]))
def test_a_long_channel_keeps_the_same_head_and_tail_for_any_split(sizes: list[int], unit: str) -> None:
    text = (unit * 300_000)[:400_000]
    whole, split = OpenBlocks(), OpenBlocks()
    whole.feed(stream(0, text))
    at = 0
    for size in [*sizes, len(text)]:
        split.feed(stream(at, text[at:at + size]))
        at = min(len(text), at + size)
    assert split.merged() == whole.merged()
    head, tail = whole.merged()
    assert text.startswith(head.payload.text)
    assert text.endswith(tail.payload.text)
    assert tail.metadata == {"omitted": tail.payload.offset - len(head.payload.text)}
    kept = encoded_size(head.payload.text) + encoded_size(tail.payload.text)
    assert MAX_TOOL_OUTPUT_BYTES - 12 <= kept <= MAX_TOOL_OUTPUT_BYTES + 6
    encode(head)


@pytest.mark.req("E-5")
def test_a_block_at_the_limit_is_complete() -> None:
    open_blocks = OpenBlocks()
    text = "한" * (MAX_TOOL_OUTPUT_BYTES // 3)
    for at in range(0, len(text), 1000):
        open_blocks.feed(delta(at, text[at:at + 1000]))
    assert only(open_blocks).payload.text == text
    head, offset, tail = open_blocks.text("b")
    assert head + tail == text
    assert offset == len(head)


@pytest.mark.req("S-4")
def test_adjacent_deltas_of_one_block_are_merged_and_others_are_not() -> None:
    merged = joined(delta(0, "ab"), delta(2, "c"))
    assert merged is not None
    assert merged.payload.text == "abc"
    assert joined(delta(0, "ab"), delta(3, "c")) is None
    assert joined(delta(0, "ab"), delta(2, "c", "other")) is None
    assert joined(delta(0, "ab"), stream(2, "c")) is None
    assert joined(stream(0, "ab"), stream(2, "c", omitted=1)) is None
    end = frame("session.turn.end", TurnEnd(turn_id="t", stop_reason="end_turn"))
    assert joined(end, end) is None
    assert from_offset(end, 5) is end


def test_open_blocks_are_bounded() -> None:
    open_blocks = OpenBlocks()
    for number in range(blocks.MAX_OPEN_BLOCKS + 1):
        open_blocks.feed(delta(0, "x", str(number)))
    assert len(open_blocks.merged()) == blocks.MAX_OPEN_BLOCKS
    assert open_blocks.feed(delta(1, "x", "0")) == Hole("0", 0, 1)


def test_the_text_of_open_blocks_is_bounded() -> None:
    open_blocks, text = OpenBlocks(), "x" * 200_000
    for number in range(200):
        open_blocks.feed(delta(0, text, str(number)))
        open_blocks.feed(delta(len(text), "y", str(number)))
    kept = [one.payload.block_id for one in open_blocks.merged()]
    assert sum(len(one.payload.text) for one in open_blocks.merged()) <= blocks.MAX_OPEN_BLOCK_BYTES
    assert kept == [str(number) for number in range(200 - len(kept), 200)]
    assert len(kept) > blocks.MAX_OPEN_BLOCK_BYTES // (2 * len(text))
    for name in kept:
        open_blocks.feed(frame("agent.text.done", TextDone(turn_id="t", block_id=name, text="")))
    open_blocks.feed(delta(0, text, "next"))
    open_blocks.feed(delta(0, text, "last"))
    assert len(open_blocks.merged()) == 2  # What was closed counts no more.


def test_large_metadata_of_a_delta_are_passed_on_and_not_kept() -> None:
    open_blocks = OpenBlocks()
    large = delta(0, "x", note="n" * blocks.MAX_KEPT_METADATA_BYTES)
    assert open_blocks.feed(large) == large
    assert only(open_blocks).metadata == {}
