"""The reason why a gateway that was alive lost its lease: its host had no free processor, its own work blocked its
loop, the ledger did not answer, or the process was stopped (C-4)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from interlock.ports.leases import INSTANCE_LIFE_MS, RENEW_EVERY_MS

SCHEDSTAT = Path("/proc/thread-self/schedstat")
"""Of the thread that reads it, on Linux: nanoseconds on a processor, nanoseconds ready to run without one, and how
often it ran."""
LossCause: TypeAlias = Literal["starved", "busy", "ledger", "stopped", "early", "unknown"]


class ProcessorTime(NamedTuple):
    """What the thread of a gateway's loop received of the processor since it started, in seconds."""

    ran_s: float
    waited_s: float
    """It was ready to run, and no processor was free."""

    def since(self, before: ProcessorTime) -> ProcessorTime:
        """Return what was received after `before`."""
        return ProcessorTime(self.ran_s - before.ran_s, self.waited_s - before.waited_s)


def parse_processor_time(text: str) -> ProcessorTime | None:
    """Parse the content of a `schedstat`; None if it has another form."""
    with suppress(ValueError):
        ran_ns, waited_ns, *_ = map(int, text.split())
        return ProcessorTime(ran_ns / 1e9, waited_ns / 1e9)
    return None


def processor_time() -> ProcessorTime | None:
    """Read the calling thread's; None on other systems than Linux."""
    try:
        return parse_processor_time(SCHEDSTAT.read_text())
    except OSError:
        return None


class LeaseLoss(NamedTuple):
    """A lost lease. `since_s` is the time since the last renewal that succeeded was requested, `spent` what the loop's
    thread received of the processor in it, `failure` the error of the last renewal that failed in it."""

    since_s: float
    spent: ProcessorTime | None
    failure: str = ""

    @property
    def cause(self) -> LossCause:
        """Return what used most of the time, apart from the pause between two renewals."""
        if self.since_s < INSTANCE_LIFE_MS / 1000:
            return "early"
        if self.spent is None:
            return "ledger" if self.failure else "unknown"
        ran_s, waited_s = self.spent
        neither_s = self.since_s - ran_s - waited_s - RENEW_EVERY_MS / 1000
        if waited_s >= max(ran_s, neither_s):
            return "starved"
        if ran_s >= neither_s:
            return "busy"
        return "ledger" if self.failure else "stopped"

    def sentence(self) -> str:
        """Return the reason, for people."""
        after = f"{self.since_s:.1f} s after its last renewal"
        spent = (f"it waited {self.spent.waited_s * 1000:,.0f} ms for a processor and ran for "
                 f"{self.spent.ran_s * 1000:,.0f} ms" if self.spent is not None else "")
        match self.cause:
            case "starved":
                return f"Its host had no free processor: {after}, {spent}."
            case "busy":
                return f"Its own work kept it from renewing: {after}, {spent}."
            case "ledger":
                return f"The ledger did not renew it: {self.failure}" if not spent else (
                    f"The ledger did not renew it ({after}, {spent}): {self.failure}")
            case "stopped":
                return (f"The process was stopped or suspended, or the ledger did not answer: {after}, {spent}.")
            case "early":
                return f"Its row was removed or expired although it was renewed in time: {after}."
            case "unknown":
                return f"It was not renewed in time: {after}."
