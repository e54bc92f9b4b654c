"""The history's plan and the send queue: pure, so tested exhaustively."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.ports.outbox import SessionRow, StoredFrame, TransientText
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import MAX_BLOCK_BYTES, MAX_MESSAGE_BYTES
from interlock.runner.link.history import encode_part, lost_after, merged_deltas, plan_history
from interlock.runner.link.send_queue import Sending
from interlock.runner.link.uplink import BlockClosed, TransientDelta
from ports.outbox_words import AT, SESSION, changed, delta, output


def row(last_seq: int, acked_seq: int = 0) -> SessionRow:
    return SessionRow(SESSION, last_seq, acked_seq, 0, 77, 0, [], 1_700_000_000_000, "m9", 1_750_000_000_000, b"")


def stored(seq: int, size: int = 20) -> StoredFrame:
    return StoredFrame(SESSION, seq, f"m{seq}", "agent.text.done", json.dumps("x" * size).encode())


@pytest.mark.req("D-3")
@given(st.sets(st.integers(1, 30)), st.integers(0, 30), st.integers(0, 30))
def test_every_seq_is_either_stored_or_lost(kept: set[int], after: int, last: int) -> None:
    frames = [stored(seq) for seq in sorted(kept) if after < seq <= last]
    lost = [seq for first, end in lost_after(after, frames, last) for seq in range(first, end + 1)]
    assert sorted(lost + [frame.seq for frame in frames]) == list(range(after + 1, last + 1))


@pytest.mark.req("D-2", "L-2")
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 700_000)), max_size=12), st.integers(0, 3))
def test_each_part_fits_a_message_and_the_parts_are_complete(sizes: list[tuple[bool, int]], deltas: int) -> None:
    frames = [stored(seq, size) for seq, (kept, size) in enumerate(sizes, 1) if kept]
    texts = [json.dumps("d" * 200_000).encode()] * deltas
    plan = plan_history(row(len(sizes)), 0, frames, texts)
    raws = [encode_part(plan, number, "m", AT) for number in range(len(plan.parts))]
    assert all(len(raw) <= MAX_MESSAGE_BYTES for raw in raws)
    parts = [json.loads(raw) for raw in raws]
    assert [raw for part in plan.parts for raw in part.frames] == [*(frame.raw for frame in frames), *texts]
    assert [(part["metadata"]["part"], part["metadata"]["parts"]) for part in parts] == [
        (number, len(parts)) for number in range(1, len(parts) + 1)]
    reported = [seq for part in parts for first, last in part["metadata"].get("lost_ranges", [])
                for seq in range(first, last + 1)]
    assert reported == [seq for seq, (kept, _) in enumerate(sizes, 1) if not kept]
    status = parts[0]["payload"]["buffer_status"]
    assert status["truncated"] == bool(reported)
    assert status.get("lost_frame_count", 0) == len(reported)


@pytest.mark.req("D-3", "L-2")
def test_very_many_lost_ranges_still_fit() -> None:
    frames = [stored(seq, 1) for seq in range(2, 120_000, 2)]
    plan = plan_history(row(120_000), 0, frames, [])
    assert len(plan.parts) > 1
    assert all(len(encode_part(plan, number, "m", AT)) <= MAX_MESSAGE_BYTES for number in range(len(plan.parts)))


@pytest.mark.req("D-2")
def test_the_last_synchronised_seq_is_reported() -> None:
    fresh = json.loads(encode_part(plan_history(row(0), 0, [], []), 0, "m", AT))["payload"]
    assert (fresh["last_message_id"], fresh["last_sync_timestamp"]) == ("", "2023-11-14T22:13:20.000Z")
    known = json.loads(encode_part(plan_history(row(3, 3), 3, [], []), 0, "m", AT))["payload"]
    assert (known["last_message_id"], known["last_sync_timestamp"]) == ("m9", "2025-06-15T15:06:40.000Z")


def template(session_id: str, block: str) -> Frame | None:
    return {"b": delta("", 0)[0], "i/stdout": output("", 0)[0]}.get(block)


@pytest.mark.req("D-2", "E-4")
def test_a_merged_delta_continues_from_the_sent_text() -> None:
    pieces = [TransientText(SESSION, "b", 0, "Hello"), TransientText(SESSION, "gone", 0, "?"),
              TransientText(SESSION, "i/stdout", 0, "head"),
              TransientText(SESSION, "i/stdout", 100, "tail")]

    def deltas(sent: dict[str, int]) -> list[tuple[str, int, str, object]]:
        made = merged_deltas(pieces, template, sent, lambda: "m", AT)
        frames = [json.loads(d.raw) for d in made]
        return [(d.block, f["payload"]["offset"], f["payload"]["text"], f.get("metadata", {}).get("omitted"))
                for d, f in zip(made, frames, strict=True)]

    assert deltas({}) == [("b", 0, "Hello", None), ("i/stdout", 0, "head", None), ("i/stdout", 100, "tail", 96)]
    assert deltas({"b": 2, "i/stdout": 50}) == [("b", 2, "llo", None), ("i/stdout", 100, "tail", 50)]
    assert deltas({"b": 5, "i/stdout": 102}) == [("i/stdout", 102, "il", None)]


@pytest.mark.req("E-5")
def test_a_merged_delta_is_split_at_the_size_of_a_block() -> None:
    text = "x" * (MAX_BLOCK_BYTES + 1)
    made = merged_deltas([TransientText(SESSION, "b", 0, text)], template, {}, lambda: "m", AT)
    payloads = [json.loads(d.raw)["payload"] for d in made]
    assert "".join(payload["text"] for payload in payloads) == text
    assert payloads[1]["offset"] == len(payloads[0]["text"]) == made[0].end


def drained(sending: Sending) -> list[bytes]:
    messages: list[bytes] = []
    while (raw := sending.pop()) is not None:
        messages.append(raw)
    return messages


@pytest.mark.req("D-2")
def test_offers_are_ignored_until_the_history_is_queued() -> None:
    sending = Sending(lambda: None)
    sending.expect(SESSION, 3)
    sending.offer([stored(4), TransientDelta(SESSION, "b", 5, b"delta")])
    assert drained(sending) == []
    assert sending.behind() == SESSION
    sending.push(lambda: b"history", 7)
    sending.go_live(sending.lanes[SESSION], 4, [TransientDelta(SESSION, "b", 5, b"")])
    sending.offer([stored(5), TransientDelta(SESSION, "b", 9, b"delta"), BlockClosed(SESSION, "b")])
    sending.urge(b"ack")
    assert drained(sending) == [b"ack", b"history", stored(5).raw, b"delta"]
    assert (sending.behind(), sending.sent_seq(SESSION), sending.lanes[SESSION].ends) == (None, 5, {})


@pytest.mark.req("D-1")
def test_a_session_falls_behind_if_the_queue_is_full_also_from_its_start() -> None:
    sending = Sending(lambda: None, queue_bytes=10)
    sending.expect(SESSION, 0)
    sending.go_live(sending.lanes[SESSION], 0, [])
    sending.offer([stored(1)])
    sending.offer([stored(2), TransientDelta(SESSION, "b", 5, b"delta")])
    assert (sending.behind(), sending.sent_seq(SESSION), sending.roomy) == (SESSION, 1, False)
    assert drained(sending) == [stored(1).raw]
    assert sending.roomy
    other = changed().session_id or ""
    fresh = Sending(lambda: None)
    fresh.offer([StoredFrame(other, 1, "m", "agent.error", b"raw")])
    assert (fresh.behind(), fresh.lanes[other].needs_history, fresh.sent_seq(other)) == (other, False, 0)
