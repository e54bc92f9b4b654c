"""What gateway and runner of one machine share: its clock, and the name of the runner that `up` starts."""

from __future__ import annotations

import time

LOCAL_RUNNER = "local"
"""The runner that `interlock up` starts and pairs by itself (G-3)."""


class SystemClock:
    """Wall and monotonic time of this machine."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back."""
        return time.monotonic_ns() // 1_000_000
