"""Where time, ids and randomness come from."""

from typing import Protocol


class Clock(Protocol):
    """Time for the shells. `now_ms` is wall time since the epoch; `monotonic_ms` never goes back."""

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...


class Entropy(Protocol):
    """Randomness: `count` unpredictable bytes."""

    def __call__(self, count: int, /) -> bytes: ...
