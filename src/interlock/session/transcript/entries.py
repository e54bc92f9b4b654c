"""The vocabulary of a transcript, version 3 (sessions.md section 4): a header line, then entries that form a tree.

These structs are what this program writes. Entries of other programs are read as plain objects
(`session.transcript.tree`), so that an unknown entry type keeps every field.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Literal, cast

import msgspec

from interlock.protocol.records import TranscriptLine
from interlock.session.transcript.line_json import BOM, value_of

VERSION = 3
ID_BYTES = 4
"""Random bytes of an entry's id, which is their hex form: 8 characters."""
ID_DRAWS = 1_000
"""Attempts to draw a free id; among a million entries, failing this often is practically impossible."""

FileStop = Literal["stop", "length", "toolUse", "error", "aborted"]


class MessagePart(msgspec.Struct, frozen=True, tag_field="type", rename="camel", omit_defaults=True):
    """A piece of a message's content."""


class TextPart(MessagePart, frozen=True, tag="text"):
    text: str


class ThinkingPart(MessagePart, frozen=True, tag="thinking"):
    thinking: str


class ImagePart(MessagePart, frozen=True, tag="image"):
    """`data` is base64."""

    data: str
    mime_type: str


class ToolCallPart(MessagePart, frozen=True, tag="toolCall"):
    """`id` is the invocation; `arguments` is always an object."""

    id: str
    name: str
    arguments: dict[str, Any]


class MessageCost(msgspec.Struct, frozen=True, rename="camel"):
    """The cost of a message; all zeros if the agent does not report it (X-8)."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    total: float = 0


class TokenFigures(msgspec.Struct, frozen=True, rename="camel"):
    """`usage` of an assistant message: tokens, all zeros if the agent does not report it (X-8)."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: MessageCost = MessageCost()


class MessageBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="role", rename="camel", omit_defaults=True):
    """The body of a `message` entry. `timestamp` is milliseconds since the epoch."""

    timestamp: int


class UserEntry(MessageBody, frozen=True, kw_only=True, tag="user"):
    content: str | list[MessagePart]


class AssistantMessage(MessageBody, frozen=True, kw_only=True, tag="assistant"):
    content: list[MessagePart]
    api: str
    provider: str
    model: str
    usage: TokenFigures
    stop_reason: FileStop
    error_message: str | None = None


class ToolResultMessage(MessageBody, frozen=True, kw_only=True, tag="toolResult"):
    tool_call_id: str
    tool_name: str
    content: list[MessagePart]
    is_error: bool
    details: dict[str, Any] | None = None


class Custom(msgspec.Struct, frozen=True):
    """The body of a `custom` entry: kept in the tree, never in context."""

    custom_type: str
    data: dict[str, Any]


class Label(msgspec.Struct, frozen=True):
    """The body of a `label` entry; without a label it removes the target's (X-6)."""

    target_id: str
    label: str | None


class BranchSummary(msgspec.Struct, frozen=True):
    """The body of a `branch_summary` entry: what was abandoned when the conversation returned to `from_id` (X-6)."""

    from_id: str
    summary: str


class CompactionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a `compaction` entry: the summary of what is before the entry `first_kept_entry_id` (Z-4).
    `details` carries readFiles and modifiedFiles, and `by`: gateway, agent or hook."""

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: dict[str, Any]
    from_hook: bool = False


Draft = MessageBody | Custom | Label | BranchSummary | CompactionSummary
"""An entry that has no id and no parent yet."""


class TranscriptEntry(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", rename="camel"):
    """A node of the tree. `timestamp` is ISO 8601 UTC with milliseconds."""

    id: str
    parent_id: str | None
    timestamp: str


class MessageEntry(TranscriptEntry, frozen=True, kw_only=True, tag="message", omit_defaults=True):
    message: MessageBody
    origin: str | None = None
    """`flush` marks entries of a memory flush: in context, and hidden from the user's view (Z-5)."""


class CustomEntry(TranscriptEntry, frozen=True, kw_only=True, tag="custom"):
    custom_type: str
    data: dict[str, Any]


class LabelEntry(TranscriptEntry, frozen=True, kw_only=True, tag="label", omit_defaults=True):
    target_id: str
    label: str | None = None


class BranchSummaryEntry(TranscriptEntry, frozen=True, kw_only=True, tag="branch_summary"):
    from_id: str
    summary: str


class CompactionEntry(TranscriptEntry, frozen=True, kw_only=True, tag="compaction", omit_defaults=True):
    summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: dict[str, Any]
    from_hook: bool = False


class Header(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="session", rename="camel",
             omit_defaults=True):
    """Line 1. `parent_session` names the file that a fork came from."""

    version: int
    id: str
    timestamp: str
    cwd: str
    parent_session: str | None = None


class Stub(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a line that is needed to place it. The header's `type` is "session"."""

    type: str
    id: str
    parent_id: str | None = None


class BadLine(ValueError):
    """Raised for a line that must not be appended: it is not an entry, or does not match its declaration."""


_encode = msgspec.json.Encoder().encode
_stub_decoder = msgspec.json.Decoder(Stub)


def header_line(session_id: str, timestamp: str, cwd: str) -> bytes:
    """Write line 1, without its line feed."""
    return _encode(Header(version=VERSION, id=session_id, timestamp=timestamp, cwd=cwd))


def contributes(draft: Draft) -> bool:
    """Return whether the entry changes the model's context (X-1)."""
    return isinstance(draft, MessageBody | BranchSummary | CompactionSummary)


def entry_line(draft: Draft, entry_id: str, parent_id: str | None, timestamp: str, origin: str | None = None) -> bytes:
    """Return a draft's line, without its line feed, with its id and parent. `origin` marks a message."""
    if isinstance(draft, Custom):
        return _encode(CustomEntry(id=entry_id, parent_id=parent_id, timestamp=timestamp,
                                   custom_type=draft.custom_type, data=draft.data))
    if isinstance(draft, Label):
        return _encode(LabelEntry(id=entry_id, parent_id=parent_id, timestamp=timestamp, target_id=draft.target_id,
                                  label=draft.label))
    if isinstance(draft, BranchSummary):
        return _encode(BranchSummaryEntry(id=entry_id, parent_id=parent_id, timestamp=timestamp,
                                          from_id=draft.from_id, summary=draft.summary))
    if isinstance(draft, CompactionSummary):
        return _encode(CompactionEntry(
            id=entry_id, parent_id=parent_id, timestamp=timestamp, summary=draft.summary, details=draft.details,
            first_kept_entry_id=draft.first_kept_entry_id, tokens_before=draft.tokens_before,
            from_hook=draft.from_hook))
    return _encode(MessageEntry(id=entry_id, parent_id=parent_id, timestamp=timestamp, message=draft, origin=origin))


def new_entry_id(taken: Container[str], entropy: Callable[[int], bytes]) -> str:
    """Draw an id that the transcript does not have; redrawn on collision (X-3). Raises RuntimeError."""
    for _ in range(ID_DRAWS):
        entry_id = entropy(ID_BYTES).hex()
        if entry_id not in taken:
            return entry_id
    raise RuntimeError(f"{ID_DRAWS} draws of an entry id gave only ids that are taken")


def read_stub(line: bytes) -> Stub | None:
    """Read the fields that place a line, as `session.transcript.tree` reads it; None if it is damaged (X-4)."""
    try:
        return _stub_decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    found: Any = value_of(line.removeprefix(BOM))
    if not isinstance(found, dict):
        return None
    entry = cast("dict[str, Any]", found)
    kind, entry_id, parent = entry.get("type"), entry.get("id"), entry.get("parentId")
    if not isinstance(kind, str) or not isinstance(entry_id, str):
        return None
    return Stub(kind, entry_id, parent if isinstance(parent, str) else None)


def check_line(line: TranscriptLine) -> Stub:
    """Check a line's id and type before it is appended (X-3). Raises BadLine."""
    try:
        stub = _stub_decoder.decode(line.line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        stub = None
    if stub is None or b"\n" in line.line:
        raise BadLine(f"entry {line.entry_id} is not one line of JSON with a type and an id")
    if stub.id != line.entry_id or stub.type in ("", "session"):
        raise BadLine(f"the line of entry {line.entry_id} says type {stub.type!r}, id {stub.id!r}")
    return stub
