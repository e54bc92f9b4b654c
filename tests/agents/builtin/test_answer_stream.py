"""A model's answer as it is read: text that arrived meanwhile is one piece, and a single text waits for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from agents.builtin.test_text_events import deltas, sse_of
from lazily import lazily

httpx2 = pytest.importorskip("httpx2")
answer_stream = lazily("interlock.agents.builtin.answer_stream")

pytestmark = [pytest.mark.anyio, pytest.mark.req("B-1")]


class Body(httpx2.AsyncByteStream):  # pyright: ignore[reportUntypedBaseClass]
    """A body whose parts are put in by the test; None ends it, an error is raised."""

    def __init__(self) -> None:
        self.parts: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.read = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (part := await self.parts.get()) is not None:
            if isinstance(part, Exception):
                raise part
            self.read += 1
            yield part

    async def aclose(self) -> None:
        self.closed = True

    def put(self, *parts: bytes | Exception | None) -> None:
        for part in parts:
            self.parts.put_nowait(part)


async def test_queued_events_are_merged_and_a_single_event_is_not_delayed() -> None:
    body = Body()
    reading = aiter(answer_stream.AnswerStream(body))
    body.put(sse_of("alone"))
    assert await anext(reading) == sse_of("alone")
    body.put(*[sse_of("many ")] * 100)
    assert deltas(await anext(reading)) == ["many " * 100]
    body.put(sse_of("last"), None)
    assert await anext(reading) == sse_of("last")
    with pytest.raises(StopAsyncIteration):
        await anext(reading)


async def test_events_before_an_error_are_delivered_before_it() -> None:
    body = Body()
    body.put(sse_of("a "), sse_of("b"), b"data: half", OSError("the connection is gone"))
    reading = aiter(answer_stream.AnswerStream(body))
    assert deltas(await anext(reading)) == ["a b"]
    with pytest.raises(OSError, match="is gone"):
        await anext(reading)


async def test_an_end_without_a_blank_line_is_delivered() -> None:
    body = Body()
    body.put(sse_of("a"), b"data: half", None)
    assert [part async for part in answer_stream.AnswerStream(body)] == [sse_of("a"), b"data: half"]


async def test_read_ahead_is_bounded() -> None:
    body, part = Body(), sse_of("x" * 10_000)
    body.put(*[part] * 100)
    reading = aiter(answer_stream.AnswerStream(body))
    await anext(reading)
    for _ in range(500):
        await asyncio.sleep(0)
    assert answer_stream.READ_AHEAD_BYTES <= (body.read - 1) * len(part) < 2 * answer_stream.READ_AHEAD_BYTES + 20_000
    body.put(None)
    had = [one async for one in reading]
    assert body.read == 100
    assert had


async def test_a_close_ends_the_reader() -> None:
    body = Body()
    stream = answer_stream.AnswerStream(body)
    body.put(sse_of("a"))
    reading = aiter(stream)
    await anext(reading)
    await stream.aclose()
    assert body.closed
    body.put(sse_of("b"))
    await reading.aclose()
    assert body.parts.qsize() == 1


async def test_a_second_reader_continues_after_the_first() -> None:
    body = Body()
    stream = answer_stream.AnswerStream(body)
    body.put(sse_of("one"))
    first = aiter(stream)
    assert await anext(first) == sse_of("one")
    second = asyncio.ensure_future(anext(aiter(stream)))
    await asyncio.sleep(0)
    body.put(b"the end", None)
    assert await second == b"the end"
    assert [part async for part in first] == []
    assert body.read == 2


async def test_a_cancelled_reader_leaves_no_task_behind() -> None:
    before = asyncio.all_tasks()
    reading = asyncio.ensure_future(anext(aiter(answer_stream.AnswerStream(Body()))))
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks() - before) == 2
    reading.cancel()
    await asyncio.wait([reading])
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(("headers", "merges"), [
    ({"content-type": "text/event-stream"}, True),
    ({"content-type": "Text/Event-Stream; charset=utf-8"}, True),
    ({"content-type": "text/event-stream", "content-encoding": "gzip"}, False),
    ({"content-type": "application/json"}, False),
    ({}, False),
])
async def test_only_a_plain_event_stream_is_merged(headers: dict[str, str], merges: bool) -> None:
    response = httpx2.Response(200, headers=headers, stream=Body())
    await answer_stream.merge_text(response)
    assert isinstance(response.stream, answer_stream.AnswerStream) == merges
