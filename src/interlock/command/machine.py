"""The state machine of a command, as a table (C-0). Illegal moves raise one clear refusal."""

from __future__ import annotations

from typing import cast, get_args

from interlock.protocol.resources import CommandState

MOVES: dict[CommandState, frozenset[CommandState]] = cast(
    "dict[CommandState, frozenset[CommandState]]",
    {
        "pending_approval": frozenset({"queued", "rejected", "expired", "canceled"}),
        "queued": frozenset({"dispatched", "pending_approval", "canceled", "expired"}),
        "dispatched": frozenset({"running", "queued", "pending_approval", "failed", "canceling"}),
        "running": frozenset({"succeeded", "failed", "timed_out", "pausing", "canceling"}),
        "pausing": frozenset(
            {"paused", "running", "succeeded", "failed", "timed_out", "canceling"}
        ),
        "paused": frozenset({"resuming", "canceling", "timed_out", "failed", "succeeded"}),
        "resuming": frozenset({"running", "succeeded", "failed", "timed_out", "canceling"}),
        "canceling": frozenset({"canceled", "timed_out", "succeeded", "failed"}),
        "succeeded": frozenset(),
        "failed": frozenset(),
        "timed_out": frozenset(),
        "canceled": frozenset(),
        "rejected": frozenset(),
        "expired": frozenset(),
    },
)

STATES: tuple[CommandState, ...] = get_args(CommandState)
TERMINAL: frozenset[CommandState] = frozenset(state for state in STATES if not MOVES[state])
INITIAL: frozenset[CommandState] = frozenset({"pending_approval", "queued"})
ACTIVE: frozenset[CommandState] = frozenset({"dispatched", "running", "pausing", "paused", "resuming", "canceling"})
"""States in which the command occupies its session (T-1)."""

AUDIT_ACTION: dict[CommandState, str] = {
    "pending_approval": "enqueue", "queued": "enqueue", "dispatched": "dispatch", "running": "start",
    "pausing": "pause", "paused": "pause", "resuming": "resume", "canceling": "cancel", "succeeded": "complete",
    "failed": "error", "timed_out": "timeout", "canceled": "cancel", "rejected": "reject", "expired": "expire",
}
"""The audit action of a move into each state (U-1)."""


class IllegalMove(Exception):
    """Raised for a move that the table does not have; becomes a 409 Conflict."""

    def __init__(self, state: CommandState, to: CommandState) -> None:
        after = ", ".join(sorted(MOVES[state])) or "nothing: it has ended"
        super().__init__(f"a command that is {state} cannot become {to}; possible: {after}")
        self.state = state
        self.to = to


def check_move(state: CommandState, to: CommandState) -> None:
    """Raise IllegalMove unless the table allows `state` → `to`."""
    if to not in MOVES[state]:
        raise IllegalMove(state, to)
