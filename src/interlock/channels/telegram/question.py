"""A question in a chat: the whole request in at most three messages, or no button that allows it (H-4). Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from interlock.channels.telegram.messages import DIGEST_SHOWN, MAX_UNITS, Button, buttons, units
from interlock.command.card.asked_by import names
from interlock.command.card.permission_request import (
    lines_of_approval,
    not_of_its_digest,
    redacted,
    request_of_approval,
)
from interlock.command.card.text import one_line, visible
from interlock.protocol.resources import Approval

MAX_MESSAGES = 3
"""Messages of one question; what does not fit in them is answered elsewhere."""
QUOTE, CONTINUED = "│ ", "│↪ "
"""What the request's lines begin with, so that none passes for a line of ours."""
LINE_CHARS = 1_000
"""A longer line is continued on another one."""
BESIDE_UNITS = 200
"""What a message that shows only a part says below it."""
TITLE_CHARS = 160
PATH_CHARS = 500
_Redact = Callable[[str], str]


class Question(NamedTuple):
    """Messages in their order; the buttons belong to the last. `whole` if the messages show all of the request."""

    messages: list[str]
    buttons: list[Button]
    whole: bool


def question(approval: Approval, redact: _Redact, kind: str | None = None) -> Question:
    """Write what approvers are asked: who asks, where, the request's lines, each of them quoted, and the digest. With
    `kind` every described call of this kind may be allowed in the session, too (H-2)."""
    shown = redacted(approval, redact)
    head, foot = _head(shown, redact), _foot(shown)
    if kind is not None:
        named = one_line(redact(kind), TITLE_CHARS)
        foot.insert(0, f"“Allow this kind” allows every call of the kind {named} that this agent "
                       "describes in this session, without asking again.")
    text = redact("\n".join(line.text for line in lines_of_approval(shown)))
    quoted = [row for line in text.split("\n") for row in _quoted(line)]
    why = not_of_its_digest(approval) if approval.kind == "permission" else None
    if why is not None:
        head.append(f"⚠️ {why}")
    messages = _messages(head, quoted, foot)
    if messages is not None and why is not None:
        return Question(messages, [one for one in buttons(approval) if one.data.startswith("d:")], True)
    if messages is not None:
        return Question(messages, buttons(approval, with_kind=kind is not None), True)
    elsewhere = (f"Only a part of it fits here, so it cannot be allowed here. Read all and answer at a terminal: "
                 f"interlock approve {approval.id}")
    if approval.kind == "question":
        elsewhere = f"Only a part of it fits here. Read all and answer at a terminal: interlock answer {approval.id}"
    part = _fitting(quoted, MAX_UNITS - BESIDE_UNITS - units("\n".join([*head, *foot])))
    left = f"… {len(quoted) - len(part)} more lines"
    return Question(["\n".join([*head, *part, left, elsewhere, *foot])],
                    [one for one in buttons(approval) if one.data.startswith("d:")], False)


def _head(approval: Approval, redact: _Redact) -> list[str]:
    request = request_of_approval(approval)
    mark = "❓" if approval.kind == "question" else "❔"
    head = [f"{mark} {one_line(redact(' · '.join(names(approval))), PATH_CHARS)}"]
    if request.changed:
        head.append("changed since it was announced: this is what would run")
    if approval.kind == "permission":
        head.append(f"{QUOTE}{one_line(approval.title, TITLE_CHARS)}")
        head.append("starts a turn with this prompt:" if approval.door == "command" and approval.verb is None
                    and approval.budget is None and not approval.workspace_files else "in full:")
    return head


def _foot(approval: Approval) -> list[str]:
    if approval.kind == "question":
        return ["Reply to this message to answer."]
    need = "" if approval.required == 1 else f" · needs {approval.required} yeses"
    rule = one_line(approval.rule, TITLE_CHARS)
    return [f"rule: {rule}{need}", f"sha256 {approval.digest[:DIGEST_SHOWN]}…, until {approval.expires_at}"]


def _quoted(line: str) -> list[str]:
    text = visible(line)
    return [QUOTE + text[:LINE_CHARS],
            *(CONTINUED + text[at:at + LINE_CHARS] for at in range(LINE_CHARS, len(text), LINE_CHARS))]


def _messages(head: list[str], quoted: list[str], foot: list[str]) -> list[str] | None:
    """Fill messages line by line; None if they are too many."""
    messages: list[list[str]] = [[]]
    used = 0
    for line in [*head, *quoted, *foot]:
        size = units(line) + 1
        if used + size > MAX_UNITS:
            messages.append([])
            used = 0
            if len(messages) > MAX_MESSAGES:
                return None
        messages[-1].append(line)
        used += size
    return ["\n".join(lines) for lines in messages]


def _fitting(lines: list[str], room: int) -> list[str]:
    found: list[str] = []
    for line in lines:
        room -= units(line) + 1
        if room < 0:
            break
        found.append(line)
    return found
