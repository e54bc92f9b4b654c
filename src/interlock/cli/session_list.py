"""The table of `interlock sessions`: every column in a pipe, at a terminal what fits its width (V-1, Y-8)."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence

from interlock.cli.terminal import is_terminal, one_line, table
from interlock.cli.values import age
from interlock.protocol.hold import phrase
from interlock.protocol.resources import Session

GAP = 2
"""Columns of a table are so many spaces apart."""
ID_CHARS = 8
"""A short id has at least so many characters, and more if it is not unique among what is listed."""
KEY_LEAST, KEY_USUAL = 20, 44
"""A key keeps so many characters on a narrow terminal; beyond the second figure other columns come first."""
OPTIONAL = ("LOST", "COST", "AGENT", "MODEL", "LABEL", "RUNNER", "HELD", "WORKSPACE")
"""Shown if there is room, the first ones before the others, unless no session has a value."""
DROPPED = ("COMP", "AGE", "CONTEXT", "STATE")
"""Left out on a very narrow terminal, in this order."""
WAITING = frozenset({"pending", "pending_approval", "waiting_approval"})


def session_table(found: Sequence[Session], width: int | None) -> str:
    """Return the table. `width` is the terminal's; None prints every column, whole."""
    ids = {one.session_id: one.session_id for one in found} if width is None else _short_ids(found)
    shown = {
        "KEY": [_key(one, ids[one.session_id]) for one in found],
        "ID": [ids[one.session_id] for one in found],
        "STATE": [standing(one) for one in found],
        "AGE": [age(one.updated_at) for one in found],
        "CONTEXT": [context(one) for one in found],
        "COMP": [str(one.compactions or "-") for one in found],
        "COST": [cost(one) for one in found],
        "AGENT": [one_line(one.agent_id) for one in found],
        "HELD": [one_line(phrase(one.holding)) if one.holding is not None else "-" for one in found],
        "MODEL": [one_line(one.model or "-").rpartition("/" if width is not None else "\n")[2] for one in found],
        "LABEL": [one_line(str(one.entry.get("label") or "-")) for one in found],
        "RUNNER": [one_line(one.runner_id or "-") for one in found],
        "WORKSPACE": [one_line(one.workspace or "-", 1_000) for one in found],
        "LOST": [str(one.lost_frame_count or "-") for one in found],
    }
    headings = [*shown] if width is None else _fitting(shown, width)
    return table([[shown[heading][at] for heading in headings] for at in range(len(found))], headings)


def _fitting(shown: dict[str, list[str]], width: int) -> list[str]:
    """Choose the columns for a terminal, and shorten the keys to what is left."""
    headings = [heading for heading in shown if heading not in OPTIONAL]
    for heading in OPTIONAL:
        if {*shown[heading]} != {"-"} and _width(shown, [*headings, heading], KEY_USUAL) <= width:
            headings.append(heading)
    for heading in DROPPED:
        if _width(shown, headings, KEY_LEAST) > width:
            headings.remove(heading)
    room = max(width - _width(shown, headings, 0), KEY_LEAST)
    shown["KEY"] = [cut_middle(key, room) for key in shown["KEY"]]
    return headings


def terminal_width() -> int | None:
    """Return the columns of the terminal that shows the result; None in a pipe."""
    if not is_terminal(sys.stdout) and "COLUMNS" not in os.environ:
        return None
    return shutil.get_terminal_size().columns


def standing(session: Session) -> str:
    """Return a session's state, and who controls it if that is another gateway."""
    state = "waiting for you" if session.state in WAITING else session.state.replace("_", " ")
    return f"{state}, observed (gateway {one_line(session.controller or '?')})" if session.observed else state


def context(session: Session) -> str:
    """Return how full the model's window is: `45.2k/200k 23%`, with `~` before an estimate; `-` while not known."""
    used = session.context_tokens
    if not used:
        return "-"
    about = "~" if session.context_estimated else ""
    if not session.context_window:
        return f"{about}{_thousands(used)}"
    return f"{about}{_thousands(used)}/{_thousands(session.context_window)} {100 * used / session.context_window:.0f}%"


def cost(session: Session) -> str:
    """Return what the agent says that the session has cost: `$0.66`, `<$0.01`; `-` while it says nothing."""
    if session.cost_usd <= 0:
        return "-"
    return f"${session.cost_usd:,.2f}" if session.cost_usd >= 0.005 else "<$0.01"


def cut_middle(text: str, width: int) -> str:
    """Shorten a text to so many characters: its beginning and its end say more than its middle."""
    from rich.cells import cell_len

    if cell_len(text) <= width:
        return text
    head = max((width - 1) * 3 // 5, 1)
    return f"{text[:head]}…{text[len(text) - max(width - 1 - head, 0):]}"


def _key(session: Session, short_id: str) -> str:
    """Return a session's key; if it ends with the id, which has a column of its own, with the short one."""
    key = one_line(session.session_key, 10_000)
    if short_id != session.session_id and key.endswith(session.session_id):
        return f"{key.removesuffix(session.session_id)}{short_id}…"
    return key


def _short_ids(found: Sequence[Session]) -> dict[str, str]:
    ids = sorted({one.session_id for one in found})
    length = ID_CHARS
    while len({name[:length] for name in ids}) < len(ids):
        length += 1
    return {name: name[:length] for name in ids}


def _width(shown: dict[str, list[str]], headings: Sequence[str], key: int) -> int:
    """Columns that the table takes if no key is longer than `key`."""
    from rich.cells import cell_len

    widths = [max(len(heading), *(cell_len(cell) for cell in shown[heading])) for heading in headings]
    most = [min(width, key) if heading == "KEY" else width for heading, width in zip(headings, widths, strict=True)]
    return sum(most) + GAP * (len(headings) - 1)


def _thousands(tokens: int) -> str:
    if tokens < 1_000:
        return str(tokens)
    size, unit = (1_000, "k") if tokens < 999_500 else (1_000_000, "M")
    return f"{tokens / size:.0f}{unit}" if tokens >= 100 * size else f"{tokens / size:.1f}".removesuffix(".0") + unit
