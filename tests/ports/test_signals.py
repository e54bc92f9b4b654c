"""Events that one part sends and others receive."""

from __future__ import annotations

import pytest

from interlock.ports.signals import Signal


def test_an_event_reaches_every_receiver_in_the_order_of_connecting() -> None:
    revoked = Signal[[str, int]]()
    seen: list[tuple[str, str, int]] = []
    revoked("too early", 0)
    revoked.connect(lambda key, count: seen.append(("first", key, count)))
    revoked.connect(lambda key, count: seen.append(("second", key, count)))

    revoked("key_1", count=2)  # pyright: ignore[reportCallIssue] - the receivers name it

    assert seen == [("first", "key_1", 2), ("second", "key_1", 2)]


def test_an_exception_of_a_receiver_reaches_the_sender() -> None:
    def fail() -> None:
        raise ValueError("the second one is not called")

    seen: list[str] = []
    stopped = Signal[[]]()
    stopped.connect(fail)
    stopped.connect(lambda: seen.append("second"))

    with pytest.raises(ValueError, match="not called"):
        stopped()
    assert seen == []
