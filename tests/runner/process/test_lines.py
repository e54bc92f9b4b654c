"""Lines out of chunks (A-8)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.runner.process.lines import BoundedLines, LineSplitter, LineTooLong


class Chunks:
    """A stream that was written before; `left` is what no one has read yet."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.left = list(chunks)
        self.end = asyncio.Event()

    async def read(self, _size: int) -> bytes:
        if self.left:
            return self.left.pop(0)
        self.end.set()
        return b""


@pytest.mark.req("A-8")
@given(st.lists(st.binary(max_size=6).map(lambda text: text.replace(b"x", b"\n")), max_size=12))
def test_lines_are_split_equally_at_any_cut(chunks: list[bytes]) -> None:
    splitter = LineSplitter(limit=1000)
    found = [line for chunk in chunks for line in splitter.feed(chunk)]
    last = splitter.finish()
    whole = b"".join(chunks).split(b"\n")
    assert found + ([] if last is None else [last]) == (whole if whole[-1] else whole[:-1])


@pytest.mark.req("A-8")
@given(st.lists(st.sampled_from([b"ab", b"cdefgh", b"\n"]), max_size=40))
def test_a_line_above_the_limit_is_reported_once_and_its_neighbours_are_complete(chunks: list[bytes]) -> None:
    splitter = LineSplitter(limit=7)
    found = [line for chunk in chunks for line in splitter.feed(chunk)]
    last = splitter.finish()
    whole = b"".join(chunks).split(b"\n")
    expected = [line if len(line) <= 7 else None for line in (whole if whole[-1] else whole[:-1])]
    seen = [None if isinstance(line, LineTooLong) else line for line in found]
    assert seen + ([] if last is None else [last]) == expected


@pytest.mark.req("A-8")
@pytest.mark.anyio
async def test_the_line_after_a_long_one_is_read() -> None:
    lines = BoundedLines(Chunks([b"one\ntoo long", b" by far", b"\ntwo\nthree"]).read, limit=6)
    assert await anext(lines) == b"one"
    with pytest.raises(LineTooLong, match="more than 6 bytes"):
        await anext(lines)
    assert [line async for line in lines] == [b"two", b"three"]


@pytest.mark.req("A-8")
@pytest.mark.anyio
async def test_the_rest_of_a_long_line_is_drained_without_a_reader() -> None:
    chunks = Chunks([b"x" * 10] * 50)
    with pytest.raises(LineTooLong):
        await anext(BoundedLines(chunks.read, limit=6))
    await asyncio.wait_for(chunks.end.wait(), 5)
    assert chunks.left == []


@pytest.mark.req("A-8")
@pytest.mark.anyio
async def test_nothing_is_read_before_it_is_requested() -> None:
    chunks = Chunks([b"one\ntwo\n", b"three\n"])
    lines = BoundedLines(chunks.read)
    assert [await anext(lines), await anext(lines)] == [b"one", b"two"]
    assert chunks.left == [b"three\n"]
