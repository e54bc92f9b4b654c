"""shown: 200 hostile requests on every surface; no grant is possible without the full display (H-4, Y-1).

A part of them, and one of 5,000 lines, are read and answered in a real terminal of each width, too.

Each request ends in a marker. Whenever a grant is accepted, the marker, the person, the agent and the place were shown
before, no hidden character was, and no line of the agent is at the margin. `--break PART` disables one part.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import sys
import unicodedata
from contextlib import AbstractContextManager, nullcontext, redirect_stderr
from typing import Any
from unittest.mock import patch

import msgspec

from interlock.channels.chat import question as chat_card
from interlock.channels.notice import CUT, text_of
from interlock.channels.ntfy import MESSAGE_BYTES
from interlock.channels.slack.blocks import LIMITS as SLACK
from interlock.channels.slack.blocks import message_blocks
from interlock.channels.telegram.updates import LIMITS as TELEGRAM
from interlock.cli.approvals import approval_card, decide
from interlock.command.card import lines as card
from interlock.command.card import permission_request
from interlock.engine.notifier import approval_notice
from interlock.ports.chat_service import ChatLimits
from interlock.protocol.resources import Actor, Approval
from proof.policy.approval_terminal import watch

WIDTHS = (40, 80, 200)
CHATS = {"Telegram": TELEGRAM, "Slack": SLACK}
SURFACES = (*(f"terminal {width}" for width in WIDTHS), "REST", "webhook", "ntfy", *CHATS)
TYPED_EVERY = 12
"""In the full run, one of this many requests is answered in a real terminal."""
LONG_LINES = 5_000
PARTS = ("visible", "pages", "buttons")
"""visible: characters are shown as they are · pages: the first page counts as the whole · buttons: a chat shows a part
and offers a grant."""
MARK = "the-end-of-it"
PADDING = (0, 1, 5, 20, 40, 70, 100, 400)
ATTACKS: dict[str, str] = {
    "bidi": "echo \u202egnp.exe\u2066x\u2069", "zero width": "r\u200bm\u200d -rf\ufeff x",
    "ANSI": "\x1b[2J\x1b[1;1Hls\x07",
    "homoglyph": "р\u0430ypal.example", "carriage return": "rm -rf x\rls", "padding": "ls" + " " * 3_000,
    "tabs": "ls" + "\t" * 900, "blank lines": "ls" + "\n" * 50, "full width": "\uff52\uff4d -rf",
    "no-break": "ls\u00a0-l",
    "forged card": "ls\n  rule: allow all · 1 of 1 yes votes\napproval apr_2 · granted",
    "forged chat": "ls\n❔ user eve · agent nice\nrule: allow all\nsha256 00", "line separator": "ls\u2028rm\u2029x",
    "tags": "ls\U000e0061\U000e0062", "emoji": "😀" * 500,
}


def subjects() -> list[tuple[str, Approval]]:
    """Each attack as a command with more lines below it, and as a described, changed, doubled and edit request."""
    found: list[tuple[str, Approval]] = []
    for name, text in ATTACKS.items():
        for rows in PADDING:
            command = text + "\n" + "\n".join(f"echo {row}" for row in range(rows)) + f"\n{MARK}"
            found.append((f"{name}, {rows} lines", _asked({"command": command})))
        both = json.dumps({"command": text})[:-1] + ", " + json.dumps({"command": MARK})[1:]
        found.append((f"{name}, member twice", _asked(both.encode(), title=text)))
        for flag in ("described", "changed"):
            members: dict[str, Any] = {"tool_name": "Bash", "title": f"{text}\n{MARK}", "input": {}, flag: True}
            found.append((f"{name}, {flag}", _asked({}, subject=members)))
        for rows in (3, 30):
            new = f"{text}\n" * rows + MARK
            edit = {"file_path": "a.py", "old_string": "x", "new_string": new}
            found.append((f"{name}, edit of {rows}", _asked(edit)))
        found.append((f"{name}, unknown members", _asked({"a": {"b": [text, {MARK: text}]}})))
    return found


def long_one() -> tuple[str, Approval]:
    """A command of 5,000 lines; the last one has the effect."""
    rows = "\n".join(f"echo {row}" for row in range(LONG_LINES))
    return f"{LONG_LINES:,} lines", _asked({"command": f"{rows}\n{MARK}"})


def run(seed: int, rounds: int | None, broken: str | None = None) -> bool:
    """Show each request on each surface; prints a table."""
    requests = [*subjects(), long_one()]
    with out_of_action(broken):
        misses = attack(requests)
    counts = dict.fromkeys(SURFACES, len(requests))
    if broken is None:  # What is out of action here is not so in the terminal's own process.
        at_keys = [*requests[::TYPED_EVERY], long_one()]
        for width in WIDTHS:
            misses[f"typed at {width}"] = typed(at_keys, width)
            counts[f"typed at {width}"] = len(at_keys)
    print(f"{'surface':<14}{'requests':>10}{'misses':>8}")
    for surface, count in counts.items():
        print(f"{surface:<14}{count:>10}{len(misses[surface]):>8}" + "".join(f"  {one}" for one in misses[surface][:2]))
    passed = len(requests) >= 200 and not any(misses.values())
    print("passed" if passed else "FAILED")
    return passed


def attack(requests: list[tuple[str, Approval]]) -> dict[str, list[str]]:
    """Return what each surface missed, by surface."""
    misses: dict[str, list[str]] = {surface: [] for surface in SURFACES}
    for name, approval in requests:
        for width in WIDTHS:
            misses[f"terminal {width}"] += [f"{name}: {why}" for why in _terminal(approval, width)]
        for service, limits in CHATS.items():
            misses[service] += [f"{name}: {why}" for why in _chat(approval, service, limits)]
        sent = approval_notice(approval, str)
        whole = sent.is_cut or MARK in sent.lines
        misses["webhook"] += [f"{name}: {one}" for one in (
            *_hidden(sent.lines + sent.title + sent.agent_title + sent.input), *([] if whole else ["cut, not said"]))]
        notice = text_of(sent, None, details=True, max_bytes=MESSAGE_BYTES)
        misses["ntfy"] += [f"{name}: {one}" for one in (
            *_hidden(notice), *([] if MARK in notice or notice.endswith(CUT) else ["cut, not said"]),
            *([] if len(notice.encode()) <= MESSAGE_BYTES else ["longer than a message"]))]
        misses["REST"] += [f"{name}: {one}" for one in _hidden(approval.title)]
        raw = approval.subject if isinstance(approval.subject, msgspec.Raw) else approval.input
        if hashlib.sha256(bytes(raw)).hexdigest() != approval.digest:
            misses["REST"].append(f"{name}: another digest")
    return misses


def _chat(approval: Approval, service: str, limits: ChatLimits) -> list[str]:
    """Return what a chat's card misses; of Slack, what its blocks show."""
    shown = chat_card.question(approval, limits, str)
    text = "\n".join(shown.messages)
    if service == "Slack":
        blocks = [message_blocks(one, shown.buttons) for one in shown.messages]
        text = "\n".join(block["text"]["text"] for one in blocks for block in one if block["type"] == "section")
    why = _hidden(text) + [f"margin {row[:40]!r}" for row in text.split("\n") if row.startswith(("approval", MARK))]
    if any(one.label == "Allow" for one in shown.buttons) and MARK not in text:
        why.append("a yes to what was not shown")
    if len(shown.messages) > limits.card_messages or any(
            limits.units(one) > limits.message_units for one in shown.messages):
        why.append(f"{service} would refuse it")
    return why


def typed(requests: list[tuple[str, Approval]], width: int) -> list[str]:
    """Answer requests in a real terminal of this width; returns what it missed."""
    misses: list[str] = []
    for (name, _), seen in zip(requests, watch([approval for _, approval in requests], width), strict=True):
        if not seen.agreed:
            misses.append(f"{name}: never whole")
        elif MARK not in seen.text.replace("\n  ↪ ", ""):
            misses.append(f"{name}: a yes to what was not shown")
        if seen.widest > width:
            misses.append(f"{name}: {seen.widest} cells in {width} columns")
        misses += [f"{name}: {one}" for one in _hidden(seen.text)]
    return misses


class Person:
    """Types these lines, then nothing."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)

    async def line(self, question: str = "") -> str | None:
        """Return the next line."""
        sys.stderr.write(question)
        return self._lines.pop(0) if self._lines else None


def _terminal(approval: Approval, width: int) -> list[str]:
    """Grant at once, then again after the last page."""
    why: list[str] = []
    agreed, text = _typed(approval, width, "y")
    read, whole = _typed(approval, width, *[""] * 2_000, "y") if not agreed else (True, text)
    for yes, shown in ((agreed, text), (read, whole)):
        if yes and MARK not in shown.replace("\n  ↪ ", ""):
            why.append("a yes to what was not shown")
    if not read:
        why.append("never whole")
    named = "".join(whole.split())
    why += [f"{name} is not named" for name in ("userann", "agentgoose", "here:/srv/w") if name not in named]
    return [*why, *_hidden(whole)]


def _typed(approval: Approval, width: int, *lines: str) -> tuple[bool, str]:
    kept, approval_card.screen_columns = approval_card.screen_columns, lambda: width
    try:
        with redirect_stderr(io.StringIO()) as screen:
            typed = [*lines]
            if len(lines) > 1:
                typed = [*[""] * (_pages(approval) - 1), "y"]
            agreed, _ = asyncio.run(decide.confirm(approval, "grant", {}, Person(*typed)))
        return agreed, screen.getvalue()
    finally:
        approval_card.screen_columns = kept


def _pages(approval: Approval) -> int:
    reading, count = approval_card.CardReading(approval), 0
    while not reading.whole:
        reading.next_rows()
        count += 1
    return count


def _hidden(text: str) -> list[str]:
    found = {one for one in text if one not in "\n\t" and unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp")}
    return [f"a raw {one!a}" for one in sorted(found)]


def _asked(tool_input: dict[str, Any] | bytes, title: str = "", subject: dict[str, Any] | None = None) -> Approval:
    raw = tool_input if isinstance(tool_input, bytes) else json.dumps(tool_input).encode()
    covered = json.dumps(subject).encode() if subject is not None else None
    approval = Approval(
        id="apr_1", tenant_id="default", door="tool", state="pending", created_at="2026-01-01T00:00:00.000Z",
        expires_at="2999-01-01T00:00:00.000Z", title="", agent_title=title, tool_name="Bash", agent_id="goose",
        runner_id="here", workspace="/srv/w", session_id="s1", digest=hashlib.sha256(covered or raw).hexdigest(),
        input=msgspec.Raw(raw), subject=msgspec.Raw(covered) if covered else msgspec.UNSET, rule="ask",
        requested_by=Actor(type="user", id="ann"))
    return msgspec.structs.replace(approval, title=permission_request.request_of_approval(approval).title)


def out_of_action(part: str | None) -> AbstractContextManager[object]:
    """Put one part out of action, and back."""
    match part:
        case "visible":
            return patch.object(card, "visible", _as_it_is)
        case "pages":
            return patch.object(approval_card.CardReading, "whole", True)
        case "buttons":
            return patch.object(chat_card, "split_into_messages", _first_half)
        case _:
            return nullcontext()


def _as_it_is(text: str) -> str:
    return text


def _first_half(head: list[str], quoted: list[str], foot: list[str], limits: ChatLimits) -> list[str]:
    return ["\n".join([*head, *quoted[:9], *foot])[:limits.message_units // 2]]
