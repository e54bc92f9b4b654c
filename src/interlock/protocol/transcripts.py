"""Requests about transcripts over the API, and their responses (X-1, X-4, X-6)."""

from __future__ import annotations

from typing import Literal

import msgspec

from interlock.protocol.resources import Body, Session

Kind = Literal[
    "torn_tail", "nul_run", "garbage", "no_entry", "bad_text", "missing_header", "duplicate_id", "parent_cycle",
    "unresolved_parent", "old_version", "newer_version", "no_line_feed", "lost_first_kept", "half_pair", "too_deep",
    "broken_field",
]


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fault and its place. `line` counts from 1, `offset` is in bytes."""

    kind: Kind
    line: int | None = None
    offset: int | None = None
    entry_id: str | None = None
    message: str = ""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a transcript and its faults."""

    sound: bool
    version: int
    entries: int
    leaf: str | None
    counts: dict[str, int]
    """How often each kind was found."""
    findings: list[Finding]
    """The first thousand of them; `counts` counts all."""


class LabelBody(Body, frozen=True, kw_only=True):
    """`POST /v1/sessions/{id}/labels`: a label of an entry; null removes it."""

    entry_id: str
    label: str | None
    idempotency_key: str | None = None


class BranchBody(Body, frozen=True, kw_only=True):
    """`POST /v1/sessions/{id}/branches`: what is appended next is below `entry_id`; `summary` describes what is
    abandoned, and is in context."""

    entry_id: str
    summary: str | None = None
    idempotency_key: str | None = None


class ForkBody(Body, frozen=True, kw_only=True):
    """`POST /v1/sessions/{id}/fork`: a session with the path to `entry_id`, by default the leaf."""

    entry_id: str | None = None
    idempotency_key: str | None = None


class ImportBody(Body, frozen=True, kw_only=True):
    """`POST /v1/sessions/import`: `content` is a transcript file's text, version 1 to 3."""

    content: str
    agent_id: str
    runner_id: str | None = None
    workspace: str | None = None
    idempotency_key: str | None = None


class RepairBody(Body, frozen=True, kw_only=True):
    """`POST /v1/sessions/{id}/repair`."""

    idempotency_key: str | None = None


class TranscriptPageAnswer(msgspec.Struct, frozen=True):
    """A page of entries in file order, each as in the file."""

    items: list[msgspec.Raw]
    next_cursor: str | None
    has_more: bool


class TreeNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry's position. `parent_id` is null for a root and for an entry whose parent is lost."""

    id: str
    parent_id: str | None
    type: str
    role: str | None = None
    label: str | None = None


class TreeAnswer(msgspec.Struct, frozen=True):
    """The tree, in file order; the leaf is the last entry (X-1)."""

    nodes: list[TreeNode]
    leaf: str | None
    entries: int
    has_more: bool
    """Whether there are older nodes than these."""


class ModelName(msgspec.Struct, frozen=True):
    """The model at the end of a context."""

    provider: str
    model_id: str


class ContextAnswer(msgspec.Struct, frozen=True):
    """The context for a model (X-1)."""

    messages: list[msgspec.Raw]
    model: ModelName | None
    thinking_level: str


class AddedEntry(msgspec.Struct, frozen=True):
    """An added entry, which is now the leaf."""

    session_id: str
    entry_id: str
    parent_id: str | None


class BegunSession(msgspec.Struct, frozen=True):
    """A session that started with a transcript. `report` has the faults of an imported text."""

    session: Session
    entries: int
    report: Report | None = None


class RepairedTranscript(msgspec.Struct, frozen=True):
    """The faults, and the name under which the damaged file is kept beside the repaired one."""

    report: Report
    kept: str | None
