"""The bot's messages: replies cut into pieces, questions with their buttons, and the meaning of a press. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from interlock.command.card.call_words import call_words
from interlock.command.card.text import one_line
from interlock.command.card.votes import waits_for_another
from interlock.ports.chat_service import Button, ChatLimits
from interlock.protocol.denial_text import No
from interlock.protocol.problems import PROBLEMS
from interlock.protocol.resources import VERBOSE_NOTICES, Approval, Command, Decision, Notice

COMMENT_CHARS = 500
SHOWN_DENIALS = 5
"""Denied calls that a final message names; the others are counted."""
TOOL_CHARS = 200
"""Characters of a tool call that are shown in its line."""
DIGEST_SHOWN = 16
"""Digits of the digest in a button: a press on a request that has changed since is refused (P-2)."""
DECIDED = {"granted": "allowed", "consumed": "allowed", "expired": "not answered in time",
           "void": "withdrawn, since what asked for it is gone", "superseded": "replaced by a changed one"}
"""How an approval ended, if not by its state's own name."""
SHOWN_ONCE = frozenset({"ToolsNotGated"})
HELP = ("Write what the agent should do. /new begins a new session, /status shows its state, /stop ends what runs, "
        "/compact makes a long conversation shorter. "
        "Requests that need approval are shown here, with buttons.")


class Press(NamedTuple):
    """The decision of a press."""

    decision: Decision
    approval_id: str
    digest: str
    with_kind: bool = False
    """Whether every described call of this kind is allowed from now on, in the session."""


def pieces(text: str, limits: ChatLimits) -> list[str]:
    """Cut a text into messages, at a paragraph, else a line, else a word, else anywhere but inside a character. White
    space at a cut is dropped; nothing else is lost."""
    out: list[str] = []
    rest = text.strip()
    while limits.units(rest) > limits.message_units:
        head = _fitting(rest, limits)
        cut = next((at for mark in ("\n\n", "\n", " ") if (at := head.rfind(mark)) >= len(head) // 2), len(head))
        out.append(rest[:cut].rstrip("\n "))
        rest = rest[cut:].lstrip("\n ")
    return [piece for piece in (*out, rest) if piece.strip()]


def tool_line(request: Mapping[str, Any]) -> str:
    """Return a tool call in one line, for chats that show details; each character of the agent's is visible."""
    tool_name = str(request.get("tool_name", "tool"))
    name = one_line(tool_name, TOOL_CHARS)
    text = one_line(call_words(tool_name, request.get("input"), str(request.get("title") or "")), TOOL_CHARS)
    return f"▸ {name}" + (f": {text}" if text else "")


def _fitting(text: str, limits: ChatLimits) -> str:
    head = text[:limits.message_units]
    while (over := limits.units(head) - limits.message_units) > 0:
        head = head[:-((over + 1) // 2)]
    return head


def buttons(approval: Approval, *, with_kind: bool = False) -> list[Button]:
    """Return the buttons of a question; none if words are the answer, or only signed votes count (P-4). `with_kind`
    adds a yes to every described call of the kind, in the session."""
    if approval.kind == "question" or approval.signed:
        return []
    key = f"{approval.id}:{approval.digest[:DIGEST_SHOWN]}"
    kind = [Button("Allow this kind", f"k:{key}")] if with_kind else []
    return [Button("Allow", f"g:{key}"), *kind, Button("Deny", f"d:{key}")]


def read_press(data: str) -> Press | None:
    """Parse a button's data; None for a button that is not ours."""
    match data.split(":"):
        case [("g" | "k" | "d") as kind, approval_id, digest] if len(digest) == DIGEST_SHOWN:
            return Press("deny" if kind == "d" else "grant", approval_id, digest, with_kind=kind == "k")
        case _:
            return None


def decided(approval: Approval, title: str) -> str:
    """Return the outcome of a question."""
    mark = {"granted": "✅", "consumed": "✅", "denied": "⛔"}.get(approval.state, "▫️")
    word = DECIDED.get(approval.state, approval.state)
    if approval.kind == "question" and approval.answer is not None:
        mark, word = "✅", "answered"
    by = f" by {approval.decided_by}" if approval.decided_by else ""
    why = f": {one_line(approval.comment, COMMENT_CHARS)}" if approval.comment and approval.state == "denied" else ""
    return f"{mark} {title}\n{word}{by}{why}"


def not_counted(approval: Approval) -> str:
    """Return why a press on a card decides nothing: the approval is not pending, or the card is not its own."""
    if approval.state == "pending":
        return "This card does not belong to a waiting approval, so nothing was decided. Decide on the newest card, " \
               f"or with: interlock approve {approval.id}"
    by = f" by {approval.decided_by}" if approval.decided_by else ""
    return f"It is too late, so nothing was decided: {DECIDED.get(approval.state, approval.state)}{by}."


def counted(approval: Approval) -> str:
    """Return the effect of a vote, for the voter."""
    if approval.state == "pending":
        return f"Your vote counts: {waits_for_another(approval)}."
    return {"granted": "Allowed.", "consumed": "Allowed.", "denied": "Denied."}.get(
        approval.state, f"It is {approval.state}.")


def notices(command: Command) -> list[Notice]:
    """Return the notices about a command that a person must see (D-4, A-10)."""
    return command.result.output.notices if command.result is not None else command.notices


def _denied(command: Command) -> list[str]:
    """Return the calls that were denied and did not run: by whom or by which rule, and why (Y-5)."""
    lines = [f"⛔ not run: {one_line(denial.title, TOOL_CHARS)}, "
             f"{one_line(No(denial.by, denial.reason).sentence(), COMMENT_CHARS)}"
             for denial in command.denials[:SHOWN_DENIALS]]
    left = len(command.denials) - SHOWN_DENIALS
    return [*lines, f"⛔ not run: {left} more"] if left > 0 else lines


def ending(command: Command, known: Collection[str] = (), *, verbose: bool = False) -> str | None:
    """Return how a command ended, if its replies do not show it: None for success. Notices that apply to every command
    of the session, and are `known` there, are not repeated; informational ones need `verbose`."""
    lines = [notice.message if notice.code in VERBOSE_NOTICES else f"⚠️ {notice.message}" for notice in notices(command)
            if (notice.code not in SHOWN_ONCE or notice.code not in known)
            and (verbose or notice.code not in VERBOSE_NOTICES)]
    lines += _denied(command)
    if command.state == "succeeded":
        return "\n".join(lines) or None
    word = {"failed": "It failed", "timed_out": "It took too long and was ended", "canceled": "Stopped",
            "rejected": "Not run: it was not allowed", "expired": "Not run: no one decided in time"}.get(
        command.state, f"It is {command.state}")
    why = f": {command.error.message}" if command.error is not None and command.state in ("failed", "timed_out") else ""
    return "\n".join([f"✖️ {word}{why}.".replace("..", "."), *lines])


def refused(code: str, detail: str, hint: str) -> str:
    """Return the message about a refused message or vote, with the remedy."""
    sentence = detail or (PROBLEMS[code].title if code in PROBLEMS else code)
    return f"✖️ {sentence}" + (f"\n{hint}" if hint else "")
