"""Frames in one message, as JSON lines (L-2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol.batches import join, split
from interlock.protocol.limits import MAX_MESSAGE_BYTES

FRAMES = st.lists(st.binary(min_size=1, max_size=40).map(lambda raw: raw.replace(b"\n", b" ")), max_size=40)


@pytest.mark.req("L-2")
@given(frames=FRAMES, limit=st.integers(1, 100))
def test_what_is_joined_is_split_again_and_no_message_holds_two_that_do_not_fit(
    frames: list[bytes], limit: int
) -> None:
    messages = list(join(frames, limit))
    assert [frame for message in messages for frame in split(message)] == frames
    assert all(len(message) <= limit or len(split(message)) == 1 for message in messages)


@pytest.mark.req("L-2")
def test_a_message_is_as_full_as_it_can_be() -> None:
    half = b"x" * (MAX_MESSAGE_BYTES // 2)
    assert [len(message) for message in join([half[1:], half, half])] == [MAX_MESSAGE_BYTES, len(half)]
    assert list(join([])) == []


@pytest.mark.req("L-2")
def test_a_line_end_behind_the_last_frame_is_no_frame() -> None:
    assert split(b"{}\n") == [b"{}"]
    assert split(b"{}\n\n{}") == [b"{}", b"", b"{}"]
