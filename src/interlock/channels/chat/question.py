"""An approval's card in a chat: the whole request with its buttons, or a link instead (H-4, O-12, O-13). Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from interlock.channels.chat.messages import DIGEST_SHOWN, buttons
from interlock.command.card.asked_by import names
from interlock.command.card.lines import CardLine
from interlock.command.card.permission_request import (
    lines_of_approval,
    not_of_its_digest,
    redacted,
    request_of_approval,
    title_of_approval,
)
from interlock.command.card.text import one_line, visible
from interlock.ports.chat_service import Button, ChatLimits
from interlock.protocol.resources import Approval

QUOTE, CONTINUED = "│ ", "│↪ "
"""Prefixes of the request's lines, so that none can be mistaken for one of ours."""
MARKS = {"added": "🟩 ", "removed": "🟥 "}
LINE_CHARS = 1_000
"""A longer line is continued on another one."""
BESIDE_UNITS = 400
"""Space for the text below the request in a message that shows only a part of it."""
TITLE_CHARS = 160
PATH_CHARS = 500
_Redact = Callable[[str], str]


class Question(NamedTuple):
    """Messages in their order; the buttons belong to the last. `whole` if the messages show all of the request."""

    messages: list[str]
    buttons: list[Button]
    whole: bool


def question(approval: Approval, limits: ChatLimits, redact: _Redact, *, kind: str | None = None,
             link: str | None = None) -> Question:
    """Return the approver's view: requester, place, the quoted lines of the request, and the digest. With
    `kind` every described call of this kind may be allowed in the session, too (H-2). `link` is the approval's page."""
    shown = redacted(approval, redact)
    head, foot = _head(shown, redact), _foot(shown)
    why = not_of_its_digest(approval) if approval.kind == "permission" else None
    if why is not None:
        head.append(f"⚠️ {why}")
    reason = why_elsewhere(approval)
    if reason is not None:
        foot.insert(0, reason)
        foot.append(_place(approval, link))
    elif kind is not None:
        named = one_line(redact(kind), TITLE_CHARS)
        foot.insert(0, f"“Allow this kind” allows every call of the kind {named} that this agent "
                       "describes in this session, without asking again.")
    quoted = _quoted_lines(lines_of_approval(shown), redact)
    messages = split_into_messages(head, quoted, foot, limits)
    if messages is None:
        return _part(approval, head, quoted, _foot(shown), limits, link)
    if reason is not None:
        return Question(messages, _link(link), True)
    offered = buttons(approval, with_kind=kind is not None and why is None)
    return Question(messages, offered if why is None else [one for one in offered if one.data.startswith("d:")], True)


def short_question(approval: Approval, redact: _Redact, link: str | None = None) -> Question:
    """Return a card for a service that rejected the whole one: requester and place, and a link instead of buttons."""
    head = _head(redacted(approval, redact), redact)[0]
    return Question([f"{head}\nThe request cannot be shown here.\n{_place(approval, link)}"], _link(link), False)


def why_elsewhere(approval: Approval) -> str | None:
    """Return why an approval cannot be decided in a chat even if it is shown whole; None if it can (O-12)."""
    if approval.kind == "question":
        return None
    if approval.signed:
        return "Only signed votes count."
    if approval.required > 1 or approval.groups:
        return "It needs more than one person."
    if approval.dangerous:
        return "Its rule is marked dangerous."
    return None


def _part(approval: Approval, head: list[str], quoted: list[str], foot: list[str], limits: ChatLimits,
          link: str | None) -> Question:
    beside = limits.units("\n".join([*head, *foot])) + len(link or "")
    part = _fitting(quoted, limits.message_units - BESIDE_UNITS - beside, limits)
    left = f"… {len(quoted) - len(part)} more lines. Only a part of it fits here"
    left += "." if approval.kind == "question" else ", so it is not decided here."
    return Question(["\n".join([*head, *part, left, _place(approval, link), *foot])], _link(link), False)


def _place(approval: Approval, link: str | None) -> str:
    verb = "answer" if approval.kind == "question" else "approve"
    return f"Read all and decide {f'at {link} or ' if link is not None else ''}at a terminal: " \
           f"interlock {verb} {approval.id}"


def _link(link: str | None) -> list[Button]:
    return [] if link is None else [Button("Read and decide", "", link)]


def _head(approval: Approval, redact: _Redact) -> list[str]:
    request = request_of_approval(approval)
    mark = "❓" if approval.kind == "question" else "❔"
    head = [f"{mark} {one_line(redact(' · '.join(names(approval))), PATH_CHARS)}"]
    if request.changed:
        head.append("changed since it was announced: this is what would run")
    if approval.kind == "permission":
        head.append(f"{QUOTE}{one_line(title_of_approval(approval), TITLE_CHARS)}")
        head.append("starts a turn with this prompt:" if approval.door == "command" and approval.verb is None
                    and approval.budget is None and not approval.workspace_files else "in full:")
    return head


def _foot(approval: Approval) -> list[str]:
    if approval.kind == "question":
        return ["Reply to this message to answer."]
    need = "" if approval.required == 1 else f" · needs {approval.required} yes votes"
    rule = one_line(approval.rule, TITLE_CHARS)
    return [f"rule: {rule}{need}", f"sha256 {approval.digest[:DIGEST_SHOWN]}…, until {approval.expires_at}"]


def _quoted_lines(lines: Sequence[CardLine], redact: _Redact) -> list[str]:
    """Quote a request's lines; added and removed lines of an edit are marked in colour (Y-2), since chats have no
    coloured text."""
    texts = redact("\n".join(line.text for line in lines)).split("\n")
    # A secret of several lines is redacted to one; then lines cannot be matched to their styles.
    styles = [line.style for line in lines] if len(texts) == len(lines) else ["plain"] * len(texts)
    return [row for text, style in zip(texts, styles, strict=True) for row in _quoted(text, MARKS.get(style, ""))]


def _quoted(line: str, mark: str = "") -> list[str]:
    text = mark + visible(line)
    return [QUOTE + text[:LINE_CHARS],
            *(CONTINUED + text[at:at + LINE_CHARS] for at in range(LINE_CHARS, len(text), LINE_CHARS))]


def split_into_messages(
    head: list[str], quoted: list[str], foot: list[str], limits: ChatLimits
) -> list[str] | None:
    """Fill messages line by line; None if they are more than a card may have."""
    messages: list[list[str]] = [[]]
    used = 0
    for line in [*head, *quoted, *foot]:
        size = limits.units(line) + 1
        if used + size > limits.message_units:
            messages.append([])
            used = 0
            if len(messages) > limits.card_messages:
                return None
        messages[-1].append(line)
        used += size
    return ["\n".join(lines) for lines in messages]


def _fitting(lines: list[str], room: int, limits: ChatLimits) -> list[str]:
    found: list[str] = []
    for line in lines:
        room -= limits.units(line) + 1
        if room < 0:
            break
        found.append(line)
    return found
