"""The permission request that a yes covers, parsed from its bytes: its digest, its title, its lines (H-1)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from interlock.command.card import lines as card
from interlock.command.card.request import ReceivedRequest
from interlock.command.card.text import visible
from interlock.protocol import payloads as p
from interlock.protocol.resources import Approval, BudgetHold

_SUBJECT = msgspec.json.Decoder(p.InteractionSubject)
_FILES = msgspec.json.Decoder(p.WorkspaceFiles)


class PermissionRequest(NamedTuple):
    """A permission request. `subject` are the bytes that its digest covers, None if the runner sent only its input."""

    asked: ReceivedRequest
    subject: bytes | None
    resolved_paths: Mapping[str, str] = {}
    changed: bool = False

    @property
    def input(self) -> bytes:
        """Return the request's raw input; `{}` if the agent sent none."""
        return self.asked.input

    @property
    def digest(self) -> str:
        """Return the SHA-256, in hex, of what is shown and voted on (P-2)."""
        return hashlib.sha256(self.asked.input if self.subject is None else self.subject).hexdigest()

    @property
    def title(self) -> str:
        """Return the action itself (Y-1)."""
        return card.title(self.asked)

    @property
    def agents_words(self) -> str:
        """Return the agent's description of it."""
        return card.agents_words(self.asked)


def request_from(subject: bytes) -> PermissionRequest:
    """Parse a request from its subject's bytes. An unreadable one has no input, and shows its bytes."""
    try:
        read = _SUBJECT.decode(subject)
    except msgspec.MsgspecError:
        return PermissionRequest(ReceivedRequest("unknown", b"{}", content=subject, described=True), subject)
    asked = ReceivedRequest(
        read.tool_name, bytes(read.input) if isinstance(read.input, msgspec.Raw) else b"{}", read.title, read.kind,
        bytes(read.content) if isinstance(read.content, msgspec.Raw) else None, tuple(read.locations), read.described)
    return PermissionRequest(asked, subject, read.resolved_paths, read.changed)


def request_of_approval(approval: Approval) -> PermissionRequest:
    """Return the request that an approval holds."""
    if isinstance(approval.subject, msgspec.Raw):
        return request_from(bytes(approval.subject))
    name = approval.tool_name or approval.agent_id
    return PermissionRequest(ReceivedRequest(name, bytes(approval.input), approval.agent_title), None)


def not_of_its_digest(approval: Approval) -> str | None:
    """Return, as one sentence, why a yes would not cover what an approval shows: the digest that its gateway states is
    not that of the bytes that came with it. None if it is (Y-3, P-2). Call it before anything is redacted."""
    request = request_of_approval(approval)
    if request.digest == approval.digest and request.input == bytes(approval.input):
        return None
    return f"What the gateway sent of {approval.id} does not match the digest that it states, so it cannot be allowed."


def with_input(request: PermissionRequest, changed: bytes) -> PermissionRequest:
    """Return the same request with another input, as a person wants it to run (P-2)."""
    if request.subject is None:
        return PermissionRequest(request.asked._replace(input=changed), None)
    read = msgspec.structs.replace(_SUBJECT.decode(request.subject), input=msgspec.Raw(changed), content=msgspec.UNSET,
                                   described=False, changed=True, resolved_paths={})
    return request_from(msgspec.json.encode(read))


def title_of_approval(approval: Approval) -> str:
    """Return an approval's title, from the bytes that its digest covers (Y-1). `Approval.title` is the gateway's own
    statement and not covered: a changed row, or a dishonest gateway, could name another action."""
    raw = bytes(approval.input)
    if approval.workspace_files and (files := workspace_files(raw)) is not None:
        return card.workspace_title(files)
    if approval.kind == "question":
        shown = lines_of_approval(approval)
        return card.one_line(shown[0].text, card.TITLE_CHARS) if shown else approval.agent_id
    if approval.door == "tool" or isinstance(approval.subject, msgspec.Raw):
        return request_of_approval(approval).title
    if approval.budget is not None and (hold := _budget_hold(raw)) is not None:
        return card.budget_title(hold)
    if card.prompt_text(raw):
        return card.prompt_title(approval.agent_id, raw)
    return _verb_title(raw) or request_of_approval(approval).title


def _verb_title(raw: bytes) -> str | None:
    """Return the title of a held request from what is voted on: the verb, then each other member."""
    members = _object(raw)
    verb = members.pop("verb", None) if members is not None else None
    if members is None or not isinstance(verb, str):
        return None
    others = (f"{name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in members.items())
    return card.one_line(f"{verb} {', '.join(others)}".strip(), card.TITLE_CHARS)


def _budget_hold(raw: bytes) -> BudgetHold | None:
    try:
        return msgspec.json.decode(raw, type=BudgetHold)
    except msgspec.MsgspecError:
        return None


def lines_of_approval(approval: Approval) -> list[card.CardLine]:
    """Return all of what an approval asks, line by line, the same on every surface (H-4, Y-2)."""
    raw = bytes(approval.input)
    if approval.workspace_files and (files := workspace_files(raw)) is not None:
        return card.workspace_lines(files)
    words = _prompt(raw) if approval.door == "command" else _question(raw) if approval.kind == "question" else None
    if words is not None:
        return [card.CardLine(line) for line in visible(words).split("\n")]
    return card.lines(request_of_approval(approval).asked)


def workspace_files(raw: bytes) -> p.WorkspaceFiles | None:
    """Parse the files that a runner found to configure an agent (H-13); None if the bytes are not that."""
    try:
        return _FILES.decode(raw)
    except msgspec.MsgspecError:
        return None


def redacted(approval: Approval, redact: Callable[[str], str]) -> Approval:
    """Redact an approval before it is rendered (K-4). Bytes that are no longer JSON after that are shown as a text."""
    changed: dict[str, Any] = {
        "title": redact(approval.title), "agent_title": redact(approval.agent_title),
        "workspace": redact(approval.workspace) if approval.workspace is not None else None,
        "input": _redacted(approval.input, redact)}
    if isinstance(approval.subject, msgspec.Raw):
        changed["subject"] = _redacted(approval.subject, redact)
    return msgspec.structs.replace(approval, **changed)


def _redacted(raw: msgspec.Raw, redact: Callable[[str], str]) -> msgspec.Raw:
    return msgspec.Raw(redact(bytes(raw).decode("utf-8", "replace")).encode("utf-8", "replace"))


def _prompt(raw: bytes) -> str | None:
    """Return the words of an execute's payload, if it has only words and no duplicate member."""
    payload = _object(raw)
    if payload is None or payload.keys() != {"messages"}:
        return None
    try:
        parts = [part for message in payload["messages"] for part in message["content"]]
        if all(part.keys() == {"contentType", "value"} and part["contentType"] == "text" for part in parts):
            return "\n".join(str(part["value"]) for part in parts)
    except (KeyError, TypeError, AttributeError):
        return None
    return None


def _question(raw: bytes) -> str | None:
    """Return a question with its choices numbered, if it consists of only that."""
    members = _object(raw)
    if members is None or not {"question", "options"} <= members.keys() <= _QUESTION:
        return None
    question, header, several = members["question"], members.get("header", ""), members.get("multiSelect", False)
    options = cast("list[Any]", members["options"]) if isinstance(members["options"], list) else []
    shown = [cast("dict[str, Any]", one) for one in options if isinstance(one, dict)]
    texts = [question, header, *(value for one in shown for value in one.values())]
    plain = len(shown) == len(options) > 0 and all({"label"} <= one.keys() <= _CHOICE for one in shown)
    if not plain or not all(isinstance(text, str) for text in texts) or not isinstance(several, bool):
        return None
    lines = [f"{header}: {question}" if header else question]
    lines += [f"  {number} {one['label']}" + (f": {one['description']}" if one.get("description") else "")
              for number, one in enumerate(shown, 1)]
    return "\n".join([*lines, "Answer with several, separated by commas." if several else
                      "Answer with one of them, or its number."])


_QUESTION = {"question", "header", "options", "multiSelect"}
_CHOICE = {"label", "description"}


def _object(raw: bytes) -> dict[str, Any] | None:
    """Return a JSON object; None if it is not one or has a duplicate member."""
    try:
        value: Any = json.loads(raw, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member comes twice")
    return found
