"""Render approvals as text in the conversation, and remember which an editor was shown whole (O-5, H-4). Pure."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import NamedTuple

import msgspec

from interlock.command.card.asked_by import names
from interlock.command.card.permission_request import lines_of_approval, request_of_approval, title_of_approval
from interlock.command.card.text import one_line, visible
from interlock.doors.acp.view import of_subject
from interlock.protocol import payloads as p
from interlock.protocol.resources import Approval

CARD_CHARS = 16_000
"""A longer card is not shown as text: it would fill the conversation, and would not be read."""
CARDS_KEPT = 256
"""Cards of a conversation that can be decided there by a slash command; the oldest is dropped."""
TITLE_CHARS = 160
_TICKS = re.compile(r"`+")
_SUBJECT = msgspec.json.Decoder(p.InteractionSubject)
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


class Card(NamedTuple):
    """A text for the conversation. `whole` if it shows everything that a yes covers."""

    text: str
    whole: bool


class ShownCards:
    """The digests of the approvals that were shown whole in one conversation."""

    def __init__(self) -> None:
        self._digests = OrderedDict[str, str]()

    def add(self, approval: Approval) -> None:
        """Note that an approval was shown in full, in its current state."""
        self._digests.pop(approval.id, None)
        self._digests[approval.id] = approval.digest
        if len(self._digests) > CARDS_KEPT:
            self._digests.popitem(last=False)

    def covers(self, approval: Approval) -> bool:
        """Return whether the shown request is what a yes would now allow."""
        return self._digests.get(approval.id) == approval.digest


def card_of(approval: Approval) -> Card:
    """Render an approval: requester, place, every line of the request, rule and digest. The request is in a fence that
    it cannot close, so that an editor which renders Markdown hides nothing of it."""
    title = one_line(title_of_approval(approval), TITLE_CHARS)
    rows = "\n".join(visible(line.text) for line in lines_of_approval(approval))
    if len(rows) > CARD_CHARS:
        return Card(f"Approval {approval.id}: {_fenced(title)}\nIt is too long to be shown here. Read and decide at a "
                    f"terminal: interlock approve {approval.id}", False)
    head = [" · ".join(names(approval)), title]
    if request_of_approval(approval).changed:
        head.append("changed since it was announced: this is what would run")
    foot = [f"rule {one_line(approval.rule, TITLE_CHARS)}", f"sha256 {approval.digest}"]
    body = _fenced("\n".join([*head, "", rows, "", *foot]))
    return Card(f"Approval {approval.id} waits:\n{body}", True)


def is_whole(approval: Approval) -> bool:
    """Return whether a tool call of ACP shows everything that a yes covers."""
    if not isinstance(approval.subject, msgspec.Raw):
        return True
    try:
        subject = _SUBJECT.decode(approval.subject)
        content = _LIST.decode(subject.content) if isinstance(subject.content, msgspec.Raw) else []
    except msgspec.MsgspecError:
        return False
    shown = of_subject(bytes(approval.subject)).get("content", [])
    return len(shown) == len(content) and not (subject.resolved_paths or subject.changed or subject.described)


def _fenced(text: str) -> str:
    fence = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    return f"{fence}\n{text}\n{fence}"
