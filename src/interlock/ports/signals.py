"""Events that one part sends and others receive, without knowing each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Signal(Generic[P]):
    """One kind of event. Its owner calls it; parts that need it connect when the gateway is put together.

    Receivers are called at once, one after the other, in the order in which they connected. What one raises reaches the
    sender, and those behind it are not called.
    """

    def __init__(self) -> None:
        self._receivers: list[Callable[P, object]] = []

    def connect(self, receiver: Callable[P, object]) -> None:
        """Send each later event to `receiver`; what it returns is ignored."""
        self._receivers.append(receiver)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Send an event."""
        for receiver in self._receivers:
            receiver(*args, **kwargs)
