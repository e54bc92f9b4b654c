"""Time in memory: a clock that moves only if it is moved."""

from interlock.ports.clock import Clock

START_MS = 1_800_000_000_000


class ManualClock(Clock):
    """A clock that is constant until `advance` or `at_ms` moves it; its wall time and its monotonic time are equal."""

    def __init__(self, at_ms: int = START_MS) -> None:
        self.at_ms = at_ms

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms

    def advance(self, ms: int) -> None:
        """Let time pass."""
        self.at_ms += ms
