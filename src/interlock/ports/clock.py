"""Sources of time, ids and randomness."""

from typing import Protocol


class Clock(Protocol):
    """Time for the shells. `now_ms` is wall-clock time since the epoch; `monotonic_ms` never decreases."""

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...


class Entropy(Protocol):
    """A source of randomness: `count` unpredictable bytes."""

    def __call__(self, count: int, /) -> bytes: ...
