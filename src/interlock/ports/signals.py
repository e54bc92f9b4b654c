"""Events that one component sends and others receive, without a dependency between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Signal(Generic[P]):
    """A kind of event. Its owner calls it; receivers connect when the gateway is assembled.

    Receivers are called at once, one after the other, in the order in which they connected. An exception of a receiver
    reaches the sender, and the later ones are not called.
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
