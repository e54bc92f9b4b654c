"""A batch of items that several viewers share reads as if it had been sent item by item (S-6, Q-1)."""

from __future__ import annotations

from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.viewers.stream_items import Durable, Item, SharedItems, TransientItem
from interlock.gateway.rest.views import deliver, frames_rendering
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.payloads import (
    FileChunk,
    FileTransfer,
    InteractionContext,
    InteractionRequest,
    Payload,
    PromptRequest,
    TextDelta,
    TextDone,
    ToolRequest,
    ToolResult,
    ToolStream,
    TurnEnd,
)

STREAM = "s/1"
TEXTS = ("hello", "NO_REPLY", "NO_REPLY and more", "NO_REPLYING", " ", "", "fine")


def done(n: int, block: str, text: str, continues: str | None) -> Durable:
    frame = Frame(type="agent.text.done", message_id="m", session_id="1", seq=n, timestamp="t",
                  payload=TextDone(turn_id="t", block_id=block, text=text),
                  metadata={"continues": continues} if continues else {})
    return Durable(n, "C", encode(frame), 0)


def end(n: int) -> Durable:
    frame = Frame(type="session.turn.end", message_id="m", session_id="1", seq=n, timestamp="t",
                  payload=TurnEnd(turn_id="t", stop_reason="end_turn"))
    return Durable(n, "C", encode(frame), 0)


blocks = st.sampled_from("abc")
blocks_or_end = st.one_of(st.none(), st.tuples(blocks, st.sampled_from(TEXTS), st.one_of(st.none(), blocks)))


@pytest.mark.req("S-6", "Q-1")
@given(st.lists(st.lists(blocks_or_end, min_size=1, max_size=4), max_size=6))
def test_a_viewer_reads_the_same_events_in_runs_or_one_by_one(
    turns: list[list[tuple[str, str, str | None] | None]]
) -> None:
    shared = [frames_rendering(STREAM, deliver("delivered", STREAM)) for _ in range(2)]
    single = frames_rendering(STREAM, deliver("delivered", STREAM))
    n = 0
    for turn in turns:
        items: list[Durable] = []
        for each in turn:
            n += 1
            items.append(done(n, *each) if each is not None else end(n))
        run = SharedItems(items)
        alone = [part for item in items for part in single([Durable(item.n, item.kind, item.body, item.at_ms)])]
        assert [render(run) for render in shared] == [alone, alone]


SECRET = "keep this"
DURABLE: list[tuple[str, Payload]] = [
    ("agent.thinking.done", TextDone(turn_id="t", block_id="k", text=SECRET)),
    ("tool.invoke.request", ToolRequest(invocation_id="i", turn_id="t", tool_name="write", title=SECRET,
                                        input=msgspec.Raw(b'{"content":"keep this"}'))),
    ("agent.interaction.request", InteractionRequest(
        interaction_id="a", interaction_type="PERMISSION", title=SECRET,
        context=InteractionContext(tool_name="write", input=msgspec.Raw(b'{"content":"keep this"}')))),
    ("tool.invoke.result", ToolResult(invocation_id="i", status="ok", output_type="text", output=SECRET,
                                      duration_ms=1)),
    ("agent.file.transfer", FileTransfer(
        transfer_id="f", name=SECRET, media_type="text/plain", size=9, sha256="0" * 64, purpose="output",
        content="a2VlcCB0aGlz", chunk=FileChunk(index=0, count=1))),
]
TRANSIENT: list[tuple[str, Payload]] = [
    ("agent.thinking.delta", TextDelta(turn_id="t", block_id="k", offset=0, text=SECRET)),
    ("tool.invoke.stream", ToolStream(invocation_id="i", channel="stdout", offset=0, text=SECRET)),
]


def framed(kind: str, payload: Payload, *, silent: bool, n: int = 0) -> Item:
    frame = Frame(type=kind, message_id="m", session_id="1", seq=n or None, timestamp="t", payload=payload,
                  metadata={"silent": True} if silent else {})
    return Durable(n, "C", encode(frame), 0) if n else TransientItem(encode(frame), frame)


@pytest.mark.req("S-6", "Z-5")
@pytest.mark.parametrize("silent", [True, False])
def test_a_silent_turn_is_omitted_from_the_delivered_view(silent: bool) -> None:
    items = [framed(*one, silent=silent) for one in TRANSIENT]
    items += [framed(*one, silent=silent, n=at) for at, one in enumerate(DURABLE, 1)]
    live = b"".join(frames_rendering(STREAM, deliver("delivered", STREAM))(SharedItems(items)))
    alone = frames_rendering(STREAM, deliver("delivered", STREAM))
    assert live == b"".join(part for item in items for part in alone([item]))
    assert (SECRET.encode() in live) is not silent
    assert (b"a2VlcCB0aGlz" in live) is not silent, "nor are the bytes of a file"
    assert live.count(b'"suppressed":true') == (len(DURABLE) if silent else 0)
    assert live.count(b"id: ") == len(DURABLE), "every number is there"
    raw = b"".join(frames_rendering(STREAM, deliver("raw", STREAM))(SharedItems(items)))
    assert raw.count(SECRET.encode()) >= len(items)


@pytest.mark.req("S-6", "Z-5")
@pytest.mark.parametrize("origin", ["flush", "user"])
def test_the_prompt_of_a_memory_flush_is_omitted_from_the_delivered_view(origin: Literal["flush", "user"]) -> None:
    """The prompt carries no metadata of its own: its payload marks its turn as silent."""
    texts = PromptRequest(prompt_id="p", input_type="text", origin=origin, text=SECRET, system_append=SECRET,
                          context={"entries": [SECRET]}, command_id="cmd_1", silent=origin == "flush")
    blocks = msgspec.structs.replace(texts, input_type="blocks", text=None, content=[{"type": "text", "text": SECRET}])
    for payload in (texts, blocks):
        item = framed("control.prompt.request", payload, silent=False, n=1)
        (event,) = frames_rendering(STREAM, deliver("delivered", STREAM))(SharedItems([item]))
        frame = msgspec.json.decode(event.partition(b"data: ")[2])["frame"]
        assert (SECRET in str(frame)) is (origin == "user")
        assert (frame.get("metadata", {}).get("suppressed") is True) is (origin == "flush")
        assert (frame["payload"]["prompt_id"], frame["payload"]["command_id"]) == ("p", "cmd_1")
        raw = b"".join(frames_rendering(STREAM, deliver("raw", STREAM))(SharedItems([item])))
        assert SECRET.encode() in raw
