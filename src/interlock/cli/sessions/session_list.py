"""The table of `interlock sessions`: every column in a pipe, at a terminal the columns that fit (V-1, Y-8)."""

from __future__ import annotations

from collections.abc import Container, Sequence

from interlock.cli.display.columns import Layout, cut_middle, fitted, unique_beginnings
from interlock.cli.display.terminal import laid_out, one_line
from interlock.cli.display.values import age
from interlock.command.card.votes import ANOTHER, YOU
from interlock.protocol.hold import phrase
from interlock.protocol.resources import Session

LAYOUT = Layout(
    text=("TITLE", "KEY"),
    extra=("WORKSPACE", "RUNNER", "HELD", "MODEL", "AGENT", "COST", "LOST", "KEY"),
    drop=("COMP", "CONTEXT", "AGE"),
    shorten=cut_middle,
)
WAITING = frozenset({"pending", "pending_approval", "waiting_approval"})


def session_table(found: Sequence[Session], width: int | None, others: Container[str] = ()) -> str:
    """Return the table. `width` is the terminal's; None returns every column in full. Sessions with an id in `others`
    wait for other people than the one who reads it."""
    ids = [one.session_id for one in found]
    short = {one: one for one in ids} if width is None else unique_beginnings(ids)
    shown = {
        "ID": [short[one] for one in ids],
        "STATE": [state_text(one, others) for one in found],
        "AGE": [age(one.updated_at) for one in found],
        "TITLE": [title(one, short[one.session_id]) for one in found],
        "CONTEXT": [context(one) for one in found],
        "COMP": [str(one.compactions or "-") for one in found],
        "KEY": [_key(one, short[one.session_id]) for one in found],
        "COST": [cost(one) for one in found],
        "AGENT": [one_line(one.agent_id) for one in found],
        "HELD": [one_line(phrase(one.holding)) if one.holding is not None else "-" for one in found],
        "MODEL": [one_line(one.model or "-").rpartition("/" if width is not None else "\n")[2] for one in found],
        "RUNNER": [one_line(one.runner_id or "-") for one in found],
        "WORKSPACE": [one_line(one.workspace or "-", None) for one in found],
        "LOST": [str(one.lost_frame_count or "-") for one in found],
    }
    rows = [list(row) for row in zip(*shown.values(), strict=True)]
    return laid_out([[*shown], *rows] if width is None else fitted(rows, [*shown], width, LAYOUT))


def title(session: Session, short_id: str) -> str:
    """Return the name of a session for people: its label, the name of its chat, or the first line of its first prompt
    (Y-8); its key if it has none of these."""
    return one_line(session.title, None) if session.title else _key(session, short_id)


def state_text(session: Session, others: Container[str] = ()) -> str:
    """Return a session's state, and who controls it if that is another gateway; `others` as for the table."""
    waits = ANOTHER if session.session_id in others else YOU
    state = waits if session.state in WAITING else session.state.replace("_", " ")
    return f"{state}, observed (gateway {one_line(session.controller or '?')})" if session.observed else state


def context(session: Session) -> str:
    """Return the fill level of the model's window: `45.2k/200k 23%`, with `~` before an estimate; `-` if unknown."""
    used = session.context_tokens
    if not used:
        return "-"
    about = "~" if session.context_estimated else ""
    if not session.context_window:
        return f"{about}{_thousands(used)}"
    return f"{about}{_thousands(used)}/{_thousands(session.context_window)} {100 * used / session.context_window:.0f}%"


def cost(session: Session) -> str:
    """Return the cost of the session as the agent reported it: `$0.66`, `<$0.01`; `-` if it reported none."""
    if session.cost_usd <= 0:
        return "-"
    return f"${session.cost_usd:,.2f}" if session.cost_usd >= 0.005 else "<$0.01"


def _key(session: Session, short_id: str) -> str:
    """Return a session's key; if it ends with the id, which has a column of its own, with the short id."""
    key = one_line(session.session_key, None)
    if short_id != session.session_id and key.endswith(session.session_id):
        return f"{key.removesuffix(session.session_id)}{short_id}…"
    return key


def _thousands(tokens: int) -> str:
    if tokens < 1_000:
        return str(tokens)
    size, unit = (1_000, "k") if tokens < 999_500 else (1_000_000, "M")
    return f"{tokens / size:.0f}{unit}" if tokens >= 100 * size else f"{tokens / size:.1f}".removesuffix(".0") + unit
