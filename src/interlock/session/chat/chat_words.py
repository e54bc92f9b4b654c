"""Chat commands to the gateway itself: `/status`, `/stop`, `/compact`; and their answers (V-1).

`/new` and `/reset` are parsed by `resets`: the text after them is sent to the agent.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, cast

_WORDS = {"/status": "status", "/stop": "stop"}
_COMPACT = "/compact"
_SPANS = ((86_400, "d"), (3_600, "h"), (60, "min"))
COMPACTING = "Compacting the conversation: its older part becomes a summary. /status shows its progress."


class Word(NamedTuple):
    """A chat command, and the text after it: for `compact` what the summary must keep."""

    name: Literal["status", "stop", "compact"]
    rest: str = ""


def read_word(message: str) -> Word | None:
    """Parse a command that is the whole message, or `/compact` with the text after it; None if it is neither, and is
    for the agent."""
    text = message.strip()
    name = _WORDS.get(text.lower())
    if name is not None:
        return Word(cast("Literal['status', 'stop']", name))
    first = text.split(maxsplit=1)[:1]
    if [one.lower() for one in first] == [_COMPACT]:
        return Word("compact", text[len(_COMPACT):].strip())
    return None


class ChatStatus(NamedTuple):
    """The answer to `/status` for a session. Tokens are of the whole session, times in milliseconds; None is
    unknown."""

    agent_id: str
    model: str
    state: str
    session_key: str
    session_id: str
    age_ms: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    context_tokens: int | None
    context_estimated: bool
    context_window: int | None
    compactions: int
    running: int
    waiting: int
    asking: int


def status_text(now: ChatStatus) -> str:
    """Return it as a chat shows it, one item a line."""
    queue = [f"{number} {what}" for number, what in (
        (now.running, "running"), (now.asking, "waiting for a yes"), (now.waiting, "waiting its turn")) if number]
    return "\n".join((
        f"agent {now.agent_id} · model {now.model or 'its own choice'} · {now.state.replace('_', ' ')}",
        f"tokens {now.input_tokens:,} in, {now.output_tokens:,} out · ${now.cost_usd:.4f}",
        _context(now),
        f"session {now.session_key} · {now.session_id} · begun {_span(now.age_ms)} ago",
        f"queue {', '.join(queue) or 'empty'}",
    ))


def no_status(agent_id: str, session_key: str) -> str:
    """Return the answer to `/status` before the first message."""
    return f"agent {agent_id}\nsession {session_key} · not begun: your first message begins it"


def nothing_to_compact() -> str:
    """Return the answer to `/compact` before the first message."""
    return "There is no conversation yet, and so nothing to compact."


def stopped_text(count: int) -> str:
    """Return the answer to `/stop`."""
    if not count:
        return "Nothing runs, and nothing waits."
    return f"Stopping {count} {'command' if count == 1 else 'commands'}."


def _context(now: ChatStatus) -> str:
    about = "about " if now.context_estimated else ""
    used = "not reported by the agent" if now.context_tokens is None else f"{about}{now.context_tokens:,}"
    if now.context_tokens is not None and now.context_window:
        used += f" of {now.context_window:,} ({100 * now.context_tokens / now.context_window:.0f} %)"
    return f"context {used} · compactions {now.compactions}"


def _span(ms: int) -> str:
    seconds = max(0, ms) // 1000
    return next((f"{seconds // size} {unit}" for size, unit in _SPANS if seconds >= size), f"{seconds} s")
