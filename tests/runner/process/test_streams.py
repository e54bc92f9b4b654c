"""Lines of the supervisor, as the runner reads them (A-4)."""

import pytest

from interlock.runner.process.streams import SupervisorSocket


@pytest.mark.req("A-4")
def test_messages_may_arrive_in_pieces() -> None:
    control = SupervisorSocket()
    for piece in (b"S 1", b"2\nE 25", b"6\nD 1", b"3 14\n"):
        control.data_received(piece)
    assert (control.pid, control.status, control.clean, control.survivors) == (12, 256, True, [13, 14])
    assert control.answered.is_set()
    assert control.ended.is_set()
    assert not control.over.is_set()


@pytest.mark.req("A-4")
def test_a_silent_supervisor_counts_as_ended_but_not_clean() -> None:
    control = SupervisorSocket()
    control.data_received(b"S 12\n")
    control.connection_lost(None)
    assert control.ended.is_set()
    assert control.over.is_set()
    assert not control.clean


@pytest.mark.req("A-4")
def test_an_unknown_message_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no meaning"):
        SupervisorSocket().data_received(b"X 1\n")
