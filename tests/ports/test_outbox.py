"""One suite over every outbox, with each store."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.backends.memory.outbox import MemoryOutbox
from interlock.backends.outbox.bounds import HALF_CHANNEL_BYTES, PIECE_ROW_BYTES, add_lost, count_lost
from interlock.backends.outbox.sqlite import SqliteOutbox
from interlock.ports.outbox import (
    ANSWERS_READ,
    CloseBlock,
    Outbox,
    OutboxError,
    Policy,
    PutPolicy,
    PutState,
    TransientText,
    UnknownSession,
)
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import Direction, InvalidFrame, decode
from interlock.protocol.limits import MAX_FRAME_BYTES, MIB
from ports.outbox_words import OTHER, SESSION, changed, control, delta, done, file_chunk, frame, output

pytestmark = pytest.mark.anyio
Open = Callable[..., Awaitable[Outbox]]


@pytest.fixture(params=["memory", "sqlite"])
async def outbox_of(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    """`await outbox_of(limit)` makes an outbox that knows SESSION."""
    made: list[Outbox] = []

    async def make(limit_bytes: int = 64 * MIB) -> Outbox:
        outbox: Outbox = (MemoryOutbox(limit_bytes=limit_bytes) if request.param == "memory"
                          else SqliteOutbox(tmp_path / "outbox.db", limit_bytes=limit_bytes))
        made.append(outbox)
        await outbox.open_session(SESSION, 1_000, b"{}")
        return outbox

    yield make
    for outbox in made:
        await outbox.close()


@pytest.fixture
async def outbox(outbox_of: Open) -> Outbox:
    return await outbox_of()


@pytest.mark.req("D-2")
async def test_the_peak_is_the_highest_since_the_last_acknowledgement(outbox_of: Open) -> None:
    outbox = await outbox_of(2_000)
    stored = await outbox.write([done("x" * 600), done("y" * 600)])
    row = await outbox.session(SESSION)
    assert row is not None
    assert row.bytes_peak == row.bytes_kept == sum(len(one.raw) for one in stored)
    await outbox.write([done("z" * 1_300)])  # The oldest is dropped, and more than is added.
    later = await outbox.session(SESSION)
    assert later is not None
    assert later.bytes_peak >= max(later.bytes_kept, row.bytes_peak)
    await outbox.ack(SESSION, 3, "", 2_000)
    acked = await outbox.session(SESSION)
    assert acked is not None
    assert (acked.bytes_peak, acked.bytes_kept) == (0, 0)


@pytest.mark.req("D-7")
async def test_unacknowledged_answers_are_found_among_other_frames(outbox: Outbox) -> None:
    def refused(number: int) -> Frame:
        errors = frame("session.error", p.SessionError(error_code="INTERNAL", message=str(number), fatal=False))
        return msgspec.structs.replace(errors, metadata={"in_reply_to": f"m{number}"})

    await outbox.write([changed(), refused(1), done("text"), refused(2)])
    assert [one.seq for one in await outbox.answers(SESSION, 0)] == [2, 4]
    await outbox.ack(SESSION, 2, "", 2_000)
    assert [one.seq for one in await outbox.answers(SESSION, 2)] == [4]
    assert await outbox.answers(SESSION, 4) == []
    assert await outbox.answers(OTHER, 0) == []
    many = await outbox.write([refused(number) for number in range(ANSWERS_READ + 1)])
    assert [one.seq for one in await outbox.answers(SESSION, 4)] == [one.seq for one in many[1:]]


@pytest.mark.req("D-1", "E-4")
async def test_durable_frames_are_numbered_from_one_per_session(outbox: Outbox) -> None:
    await outbox.open_session(OTHER, 1_000, b"")
    first = await outbox.write([changed(), changed(OTHER), changed()])
    second = await outbox.write([changed()])

    assert [(s.session_id, s.seq) for s in first + second] == [(SESSION, 1), (OTHER, 1), (SESSION, 2), (SESSION, 3)]
    assert [decode(s.raw, Direction.C).seq for s in first] == [1, 1, 2]
    assert await outbox.frames(SESSION, 0, MIB) == [first[0], first[2], second[0]]
    row = await outbox.session(SESSION)
    assert row is not None
    assert row.bytes_kept == len(first[0].raw) + len(first[2].raw) + len(second[0].raw)


@pytest.mark.req("L-2")
async def test_a_frame_that_is_too_large_leaves_no_trace(outbox: Outbox) -> None:
    with pytest.raises(InvalidFrame) as refused:
        await outbox.write([changed(), TransientText(SESSION, "b", 0, "x"), done("x" * MAX_FRAME_BYTES)])
    assert refused.value.code is Code.FRAME_TOO_LARGE
    assert await outbox.frames(SESSION, 0, MIB) == []
    assert await outbox.pieces(SESSION) == []
    assert [s.seq for s in await outbox.write([changed()])] == [1]


@pytest.mark.req("D-1")
async def test_a_write_to_an_unknown_session_leaves_no_trace(outbox: Outbox) -> None:
    for write in (changed(OTHER), TransientText(OTHER, "b", 0, "x"), CloseBlock(OTHER, "b"), PutState(OTHER, b"")):
        with pytest.raises(UnknownSession):
            await outbox.write([changed(), write])
    assert await outbox.frames(SESSION, 0, MIB) == []


@pytest.mark.req("E-4")
async def test_a_transient_frame_is_never_stored(outbox: Outbox) -> None:
    with pytest.raises(ValueError, match="not durable"):
        await outbox.write([delta("x", 0)[0]])


@pytest.mark.req("D-1")
async def test_pages_hold_at_least_one_frame_and_about_the_limit(outbox: Outbox) -> None:
    stored = await outbox.write([done("x" * 1_000) for _ in range(5)])
    size = len(stored[0].raw)
    assert await outbox.frames(SESSION, 0, 1) == stored[:1]
    assert await outbox.frames(SESSION, 1, 3 * size) == stored[1:4]
    assert await outbox.frames(SESSION, 5, MIB) == []
    assert await outbox.frames(OTHER, 0, MIB) == []


@pytest.mark.req("D-1", "D-2")
async def test_an_ack_trims_and_is_stored(outbox: Outbox) -> None:
    stored = await outbox.write([changed() for _ in range(3)])
    await outbox.ack(SESSION, 2, stored[1].message_id, 5_000)
    await outbox.ack(SESSION, 1, stored[0].message_id, 6_000)

    assert await outbox.frames(SESSION, 0, MIB) == stored[2:]
    row = await outbox.session(SESSION)
    assert row is not None
    assert (row.last_seq, row.acked_seq, row.bytes_kept) == (3, 2, len(stored[2].raw))
    assert (row.last_message_id, row.last_sync_ms) == (stored[1].message_id, 5_000)

    await outbox.ack(SESSION, 3, "", 7_000)
    row = await outbox.session(SESSION)
    assert row is not None
    assert (row.bytes_kept, row.last_message_id) == (0, stored[2].message_id)


@pytest.mark.req("D-6")
async def test_an_ack_beyond_the_last_seq_raises_it(outbox: Outbox) -> None:
    await outbox.write([changed()])
    await outbox.ack(SESSION, 7, "", 5_000)
    assert [s.seq for s in await outbox.write([changed()])] == [8]


@pytest.mark.req("D-6")
async def test_pieces_are_merged_in_the_order_of_their_blocks(outbox: Outbox) -> None:
    await outbox.write([TransientText(SESSION, "b", 0, "Hé"), TransientText(SESSION, "i/stdout", 0, "1\n")])
    await outbox.write([TransientText(SESSION, "b", 2, "llo")])
    assert await outbox.pieces(SESSION) == [TransientText(SESSION, "b", 0, "Héllo"),
                                            TransientText(SESSION, "i/stdout", 0, "1\n")]
    await outbox.write([done("Héllo"), CloseBlock(SESSION, "b")])
    assert await outbox.pieces(SESSION) == [TransientText(SESSION, "i/stdout", 0, "1\n")]
    assert await outbox.pieces(OTHER) == []


@pytest.mark.req("E-5", "D-2")
async def test_a_tool_channel_keeps_its_head_and_its_tail(outbox: Outbox) -> None:
    text = "".join(f"{n:07d}\n" for n in range(100_000))
    for offset in range(0, len(text), 50_000):
        await outbox.write([TransientText(SESSION, "i/stdout", offset, text[offset : offset + 50_000])])

    head, tail = await outbox.pieces(SESSION)
    assert head.offset == 0
    assert text.startswith(head.text)
    assert tail.text == text[tail.offset :]
    for kept in (head, tail):
        size = len(kept.text) + kept.text.count("\n")
        assert HALF_CHANNEL_BYTES - PIECE_ROW_BYTES <= size <= HALF_CHANNEL_BYTES


@pytest.mark.req("D-3", "D-4")
@pytest.mark.parametrize("limit_bytes", [1, 1_500, 3_000])
async def test_past_the_limit_the_oldest_content_is_dropped_and_counted(outbox_of: Open, limit_bytes: int) -> None:
    outbox = await outbox_of(limit_bytes)
    written = []
    for _ in range(4):
        written += await outbox.write([changed(), done("x" * 300), done("y" * 300)])
    kept = await outbox.frames(SESSION, 0, MIB)
    row = await outbox.session(SESSION)
    assert row is not None
    assert row.bytes_kept == sum(len(s.raw) for s in kept)
    gone = [s.seq for s in written if s not in kept]
    assert {s.frame_type for s in written if s.seq in gone} == {"agent.text.done"}
    assert gone == [s.seq for s in written if s.frame_type == "agent.text.done"][: len(gone)]
    assert [seq for first, last in row.lost_ranges for seq in range(first, last + 1)] == gone
    assert row.lost_frames == len(gone)
    await outbox.ack(SESSION, gone[-1], "", 1)
    row = await outbox.session(SESSION)
    assert row is not None
    assert (row.lost_frames, row.lost_ranges) == (0, [])


@pytest.mark.req("D-3", "E-5")
@pytest.mark.parametrize("policy", ["RING", "DROP"])
async def test_chunks_of_a_file_are_content_and_are_lost_one_by_one(outbox_of: Open, policy: Policy) -> None:
    outbox = await outbox_of(3_000)
    await outbox.write([PutPolicy(SESSION, policy)])
    chunks = await outbox.write([file_chunk(index, 8, b"x" * 400) for index in range(8)])
    errors = await outbox.write([changed()])
    kept = [stored.seq for stored in await outbox.frames(SESSION, 0, MIB)]
    row = await outbox.session(SESSION)
    assert row is not None
    gone = [chunk.seq for chunk in chunks if chunk.seq not in kept]
    assert 0 < len(gone) < len(chunks)
    assert gone == ([*range(1, len(gone) + 1)] if policy == "RING" else [*range(9 - len(gone), 9)])
    assert errors[0].seq in kept
    assert [seq for first, last in row.lost_ranges for seq in range(first, last + 1)] == gone
    assert row.lost_frames == len(gone)


@pytest.mark.req("D-3", "D-4")
@pytest.mark.parametrize("limit_bytes", [1, 1_500, 3_000])
async def test_the_drop_policy_refuses_the_newest_content_and_counts_it(outbox_of: Open, limit_bytes: int) -> None:
    outbox = await outbox_of(limit_bytes)
    await outbox.write([PutPolicy(SESSION, "DROP")])
    written = []
    for _ in range(4):
        written += await outbox.write([changed(), done("x" * 300), done("y" * 300)])
    kept = await outbox.frames(SESSION, 0, MIB)
    row = await outbox.session(SESSION)
    assert row is not None
    assert row.policy == "DROP"
    assert row.bytes_kept == sum(len(s.raw) for s in kept)
    gone = [s for s in written if s not in kept]
    assert gone
    assert {s.frame_type for s in gone} == {"agent.text.done"}
    content = [s for s in written if s.frame_type == "agent.text.done"]
    assert gone == content[len(content) - len(gone):]  # The oldest stay.
    assert [seq for first, last in row.lost_ranges for seq in range(first, last + 1)] == [s.seq for s in gone]
    assert (row.lost_frames, row.last_seq) == (len(gone), 12)


@pytest.mark.req("D-3", "D-4")
async def test_the_none_policy_keeps_no_content_while_no_gateway_is_attached(outbox: Outbox) -> None:
    await outbox.write([PutPolicy(SESSION, "NONE")], attached=frozenset())
    attached = await outbox.write([changed(), done("a")])
    detached = await outbox.write([changed(), done("b"), done("c"), changed()], attached=frozenset())
    back = await outbox.write([done("d")])
    assert [s.seq for s in attached + detached + back] == [1, 2, 3, 4, 5, 6, 7]
    assert await outbox.frames(SESSION, 0, MIB) == [*attached, detached[0], detached[3], *back]
    row = await outbox.session(SESSION)
    assert row is not None
    assert (row.policy, row.lost_ranges, row.lost_frames) == ("NONE", [(4, 5)], 2)


@pytest.mark.req("D-3")
async def test_a_policy_needs_its_session_and_can_be_changed(outbox: Outbox) -> None:
    with pytest.raises(UnknownSession):
        await outbox.write([PutPolicy(OTHER, "DROP")])
    await outbox.write([PutPolicy(SESSION, "NONE"), PutPolicy(SESSION, "RING")])
    await outbox.write([done("a")], attached=frozenset())
    assert [s.seq for s in await outbox.frames(SESSION, 0, MIB)] == [1]


@pytest.mark.req("D-7")
async def test_a_control_frame_is_stored_once_and_creates_its_session(outbox: Outbox) -> None:
    await outbox.write([control(1, OTHER)])
    await outbox.write([control(1, OTHER), control(2, OTHER)])
    row = await outbox.session(OTHER)
    assert row is not None
    assert (row.control_seq, row.created_ms, row.state) == (2, 1_001, b"")
    assert await outbox.controls(OTHER, 1) == [control(2, OTHER).record]
    assert [c.seq for c in await outbox.controls(OTHER, 0)] == [1, 2]
    assert (await outbox.open_session(OTHER, 9_000, b"mine")).state == b"mine"


@pytest.mark.req("D-7")
async def test_state_is_replaced_in_the_same_write(outbox: Outbox) -> None:
    await outbox.write([changed(), PutState(SESSION, b"one")])
    with pytest.raises(InvalidFrame):
        await outbox.write([PutState(SESSION, b"two"), done("x" * MAX_FRAME_BYTES)])
    assert [row.state for row in await outbox.sessions()] == [b"one"]
    assert (await outbox.open_session(SESSION, 9_000, b"three")).state == b"one"


@pytest.mark.req("D-1")
async def test_a_forgotten_session_keeps_its_numbers(outbox: Outbox) -> None:
    await outbox.write([changed(), control(1), PutState(SESSION, b"s")])
    with pytest.raises(OutboxError, match="not acknowledged"):
        await outbox.forget(SESSION, {"": 1})
    await outbox.ack(SESSION, 1, "", 2_000)
    await outbox.forget(SESSION, {"": 1})
    assert await outbox.sessions() == []
    assert await outbox.controls(SESSION, 0) == []

    row = await outbox.open_session(SESSION, 9_000, b"")
    assert (row.last_seq, row.control_seq, row.state) == (1, 1, b"s")
    assert [r.session_id for r in await outbox.sessions()] == [SESSION]


@pytest.mark.req("D-5")
async def test_forgotten_sessions_are_named_newest_first_with_their_numbers(outbox: Outbox) -> None:
    for at_ms, session_id in ((2_000, SESSION), (3_000, OTHER)):
        await outbox.open_session(session_id, 1_000, b"s")
        await outbox.write([changed(session_id)])
        await outbox.ack(session_id, 1, "", at_ms)
    assert await outbox.forgotten(0, 9) == []
    await outbox.forget(SESSION, {})
    await outbox.forget(OTHER, {})
    assert [(row.session_id, row.acked_seq) for row in await outbox.forgotten(0, 9)] == [(OTHER, 1), (SESSION, 1)]
    assert [row.session_id for row in await outbox.forgotten(0, 1)] == [OTHER]
    assert [row.session_id for row in await outbox.forgotten(2_001, 9)] == [OTHER]
    assert [row.acked_seq for row in await outbox.forgotten(0, 9, "never joined")] == [0, 0]
    await outbox.open_session(OTHER, 9_000, b"")
    assert [row.session_id for row in await outbox.forgotten(0, 9)] == [SESSION]


@pytest.mark.req("D-7")
async def test_a_session_with_an_unprocessed_control_frame_is_not_forgotten(outbox: Outbox) -> None:
    await outbox.write([control(1), control(2)])
    with pytest.raises(OutboxError, match="waits to be acted on"):
        await outbox.forget(SESSION, {"": 1})
    assert [record.seq for record in await outbox.controls(SESSION, 1)] == [2]
    await outbox.forget(SESSION, {"": 2})
    assert await outbox.sessions() == []


@pytest.mark.req("D-1", "D-5")
async def test_a_forgotten_session_is_kept_for_a_gateway_that_joined_since(outbox: Outbox) -> None:
    await outbox.write([changed(), PutState(SESSION, b"s")])
    await outbox.ack(SESSION, 1, "", 2_000)
    await outbox.forget(SESSION, {})
    await outbox.join("late", "other link", adopt=False)
    row = await outbox.session(SESSION, "late")
    assert row is not None
    assert (row.last_seq, row.state, row.why_lost) == (1, b"s", "joined")
    (stored,) = await outbox.write([changed()])
    assert stored.seq == 2
    assert [one.seq for one in await outbox.frames(SESSION, 1, 1_000)] == [2]
    assert [one.session_id for one in await outbox.sessions()] == [SESSION]


async def test_a_closed_outbox_raises_its_error(outbox: Outbox) -> None:
    await outbox.close()
    with pytest.raises(OutboxError, match="closed"):
        await outbox.write([changed()])


@pytest.mark.req("E-1")
async def test_an_unknown_type_is_durable_and_stored_unchanged(outbox: Outbox) -> None:
    unknown = msgspec.structs.replace(frame("x-other.thing", p.Payload()), payload=msgspec.Raw(b'{"a":[1]}'))
    (stored,) = await outbox.write([unknown])
    assert b'"payload":{"a":[1]}' in stored.raw


@pytest.mark.req("D-3")
@given(st.lists(st.integers(1, 40), unique=True))
def test_lost_ranges_are_exact_in_any_order(seqs: list[int]) -> None:
    ranges: list[tuple[int, int]] = []
    for seq in seqs:
        add_lost(ranges, seq)
    assert [seq for first, last in ranges for seq in range(first, last + 1)] == sorted(seqs)
    assert count_lost(ranges) == len(seqs)
    assert all(left[1] + 1 < right[0] for left, right in itertools.pairwise(ranges))


STEPS = ["done", "changed", "piece", "close", "ack", "control", "RING", "DROP", "NONE"]


@pytest.mark.req("D-6", "D-3")
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(STEPS), max_size=30))
async def test_both_backends_agree(tmp_path_factory: pytest.TempPathFactory, steps: list[str]) -> None:
    memory = MemoryOutbox(limit_bytes=900)
    sqlite = SqliteOutbox(tmp_path_factory.mktemp("outbox") / "outbox.db", limit_bytes=900)
    try:
        for outbox in (memory, sqlite):
            await outbox.open_session(SESSION, 1, b"")
        for number, step in enumerate(steps, 1):
            write = {"done": done("x" * 90), "changed": changed(), "piece": output("text", number * 4)[1],
                     "close": CloseBlock(SESSION, "i/stdout"), "control": control(number),
                     "RING": PutPolicy(SESSION, "RING"), "DROP": PutPolicy(SESSION, "DROP"),
                     "NONE": PutPolicy(SESSION, "NONE")}.get(step)
            for outbox in (memory, sqlite):
                if write is None:
                    row = await outbox.session(SESSION)
                    assert row is not None
                    await outbox.ack(SESSION, (row.acked_seq + row.last_seq + 1) // 2, "", number)
                else:
                    await outbox.write([write], attached=frozenset() if number % 2 == 0 else None)
        assert await memory.session(SESSION) == await sqlite.session(SESSION)
        assert await memory.frames(SESSION, 0, MIB) == await sqlite.frames(SESSION, 0, MIB)
        assert await memory.pieces(SESSION) == await sqlite.pieces(SESSION)
        assert await memory.controls(SESSION, 0) == await sqlite.controls(SESSION, 0)
    finally:
        await sqlite.close()
