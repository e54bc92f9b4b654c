"""The comparison of a stored approval or command with the audit log's records of it (H-5).

The log is hash-chained and signed; rows are not. So what a yes covers, how many votes it needs and who cast them is
derived from the records, and a row that differs is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from interlock.command.approval import counted_votes, named
from interlock.command.audit.audit import leaf_hash
from interlock.command.machine import STATES
from interlock.protocol.access import named_roles
from interlock.protocol.box import Box
from interlock.protocol.records import ApprovalRecord, AuditRecord, CommandRecord
from interlock.protocol.resources import Actor, Approval, Vote

_SHOWN = ("title", "agent_title", "tool_name", "agent_id", "runner_id", "workspace", "session_id", "options")
"""Fields of an approval that voters see beside its input."""


class SealedFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a record's body that a row is compared with."""

    action: str
    who: dict[str, str]
    command_id: str | None = None
    approval_id: str | None = None
    meta: dict[str, Any] = {}


class BrokenRecord(ValueError):
    """Raised if a stored audit record does not match its own hash, or is not a record."""


_decoder = msgspec.json.Decoder(SealedFields)


def read(records: Iterable[AuditRecord]) -> list[SealedFields]:
    """Read records as stored. Raises BrokenRecord."""
    found: list[SealedFields] = []
    for record in records:
        if leaf_hash(record.body) != record.hash:
            raise BrokenRecord(f"audit record {record.seq} does not match its hash")
        try:
            found.append(_decoder.decode(record.body))
        except msgspec.MsgspecError as error:
            raise BrokenRecord(f"audit record {record.seq} cannot be read") from error
    return found


def terms(record: ApprovalRecord) -> dict[str, Any]:
    """Return the meta of the audit record of an approval's opening: everything that must not change before its
    decision."""
    approval = record.approval
    return {
        "required": approval.required, "groups": [[group.role, group.min] for group in approval.groups],
        "deny_threshold": approval.deny_threshold, "signed": approval.signed,
        "require_independent": approval.require_independent, "dangerous": approval.dangerous,
        "self_approval": approval.self_approval,
        "requested_by": _name(approval.requested_by), "driver": _name(approval.driver), "kind": approval.kind,
        "interaction_id": approval.interaction_id or "", "supersedes": approval.supersedes or "",
        "verb": approval.verb or "", "workspace_files": approval.workspace_files, "expires_ms": record.expires_ms,
        "budget": "" if approval.budget is None else _sha256(msgspec.json.encode(approval.budget)),
        "input": _sha256(bytes(approval.input)),
        "judged": "" if record.judged is None else _sha256(msgspec.json.encode(record.judged)),
        "box": "" if approval.box is None else _sha256(msgspec.json.encode(approval.box)),
        "shown": _sha256(msgspec.json.encode([getattr(approval, name) for name in _SHOWN])),
    }


def box_fact(box: Box | None) -> dict[str, Any]:
    """Return the audit fields of the box that a command requires (H-18); empty if it requires none."""
    return {} if box is None else msgspec.to_builtins(box)


def target(record: CommandRecord) -> str:
    """Return a digest of a command's target and principal, for the audit record of its submission."""
    command = record.command
    return _sha256(msgspec.json.encode([command.target, command.actor, command.type, record.origin, record.driver,
                                        record.session_id, record.close_after]))


def progress_sha256(record: CommandRecord) -> str:
    """Return a digest of a command's progress and of what follows: its deadlines, its prompt and turn, who canceled it,
    and its place in the queue. The audit record of each decision that changed one of them has it."""
    command = record.command
    return _sha256(msgspec.json.encode([
        record.approval_deadline_ms, record.queue_deadline_ms, record.remaining_ms, record.running_since_ms,
        record.cancel_deadline_ms, record.detach_deadline_ms, record.pause_deadline_ms, record.prompt_id,
        record.prompt_seq, record.cancel_cause, record.canceled_by, command.timeout_ms, command.attempt,
        command.turn_id, command.started_at, command.priority, command.on_busy]))


def changed_approval(record: ApprovalRecord, records: Sequence[SealedFields]) -> str | None:
    """Return how a live approval's row differs from its records; None if it does not. `records` are those of its
    command, or its own, in order; a record from before terms were recorded is compared as far as possible."""
    approval = record.approval
    own = [one for one in records if one.approval_id == approval.id]
    moves = [one for one in own if "door" in one.meta and "to" in one.meta]
    if not moves or moves[0].meta["to"] != "pending":
        return "there is no audit record of its opening"
    opening = moves[0].meta
    subject = bytes(approval.subject) if isinstance(approval.subject, msgspec.Raw) else bytes(approval.input)
    if not (_sha256(subject) == approval.digest == opening.get("digest")):
        return "its digest or what it covers is not the recorded one"
    if (approval.door, approval.rule) != (opening["door"], opening.get("rule")):
        return "its door or rule is not the recorded one"
    now, then = terms(record), opening.get("terms", {})
    differing = [name for name in then if then[name] != now.get(name)]
    if differing:
        return f"its {' and '.join(differing)} is not the recorded one"
    if moves[-1].meta["to"] != approval.state:
        return f"it is {approval.state}, and was recorded as {moves[-1].meta['to']}"
    return _changed_votes(approval, own)


def _changed_votes(approval: Approval, own: Sequence[SealedFields]) -> str | None:
    cast: dict[str, SealedFields] = {}
    for one in own:
        if one.action == "vote":
            if one.meta.get("digest") != approval.digest:
                return "a vote was recorded on another digest"
            cast[one.who["id"]] = one
        elif one.action == "withdraw":
            cast.pop(one.meta.get("vote_of", one.who["id"]), None)  # Of an agent that the person drives.
    recorded = {by: (one.meta.get("decision"), one.who["role"], one.meta.get("key_id")) for by, one in cast.items()}
    votes = counted_votes(approval)
    if len(votes) != len(recorded) or {one.by: (one.decision, one.role, one.key_id) for one in votes} != recorded:
        return "its votes are not the recorded ones"
    drivers = {by: one.meta["driver"] for by, one in cast.items() if "driver" in one.meta}
    if any(vote.by in drivers and (vote.driver or "") != drivers[vote.by] for vote in votes):
        return "the drivers of its votes are not the recorded ones"
    if any(vote.key_made_by != cast[vote.by].meta.get("key_made_by") for vote in votes):
        return "who made the keys of its votes is not the recorded one"
    if any(vote.key_makers != cast[vote.by].meta.get("key_makers", []) for vote in votes):
        return "the makers of the keys of its votes are not the recorded ones"
    if any(vote.option_id != cast[vote.by].meta.get("option_id", vote.option_id) for vote in votes):
        return "the options that its votes named are not the recorded ones"
    if approval.option_id is not None and not _may_name(approval, votes):
        return "the option that it names is not one that its votes gave it"
    if approval.state == "granted" and approval.kind != "question":
        grants = [vote for vote in votes if vote.decision == "grant"]
        enough = len(grants) >= approval.required and all(
            sum(group.role in named_roles(vote.role) for vote in grants) >= group.min for group in approval.groups)
        if not enough:
            return "the recorded votes do not grant it"
    return None


def _may_name(approval: Approval, votes: Sequence[Vote]) -> bool:
    """Return whether a vote gave an approval its option, which is of the kind that votes may name: once, and not
    always."""
    return any(vote.option_id == approval.option_id and option.option_id == vote.option_id
               and option.kind == ("allow_once" if vote.decision == "grant" else "reject_once")
               for vote in votes for option in approval.options)


def changed_command(record: CommandRecord, approvals: Collection[ApprovalRecord], records: Sequence[SealedFields]
                    ) -> str | None:
    """Return how a live execute's row differs from its records; None if it does not. `approvals` are the live ones of
    its session."""
    command = record.command
    own = [one for one in records if one.command_id == command.id and one.approval_id is None]
    moves = [one for one in own if one.meta.get("to") in STATES]
    if not moves or moves[0].action != "enqueue" or "from" in moves[0].meta:
        return "there is no audit record of its submission"
    first = moves[0]
    payload = bytes(command.payload) if isinstance(command.payload, msgspec.Raw) else b""
    if _sha256(payload) != command.payload_sha256 or first.meta.get("digest") not in (None, command.payload_sha256):
        return "its payload is not the recorded one"
    targets = [one.meta["target_sha256"] for one in own if "target_sha256" in one.meta]
    if targets and targets[-1] != target(record):
        return "its target, actor or origin is not the recorded one"
    if moves[-1].meta["to"] != command.state:
        return f"it is {command.state}, and was recorded as {moves[-1].meta['to']}"
    reached = [one.meta["progress_sha256"] for one in records
               if one.command_id == command.id and "progress_sha256" in one.meta]
    if reached and reached[-1] != progress_sha256(record):
        return "its deadlines, prompt, turn, cancel or place in the queue is not the recorded one"
    there = {one.approval.id for one in approvals}
    lost = next((name for name in _open_approvals(records, command.id) if name not in there), None)
    if lost is not None:
        return f"its approval {lost} is missing"
    held = [one.approval for one in approvals
            if one.approval.command_id == command.id and one.approval.door == "command" and one.approval.budget is None]
    if command.state == "pending_approval" and not any(one.state == "pending" for one in held):
        return "the approval that it waits for is missing"
    waited = any(one.meta["to"] == "pending_approval" for one in moves)
    if record.needs_asking != _needs_asking(own):
        return "whether it needs an agent that asks is not the recorded one"
    boxes = [one.meta["needs_box"] for one in moves if "needs_box" in one.meta]
    if box_fact(record.needs_box) != (boxes[-1] if boxes else {}):
        return "the box that it needs is not the recorded one"
    if command.state == "queued" and waited:
        granted = any(one.action == "approve" and one.meta.get("digest") == command.payload_sha256
                      for one in records if one.command_id == command.id and one.approval_id is not None)
        if not granted:
            return "there is no audit record of the approval that it waited for"
    return None


def _needs_asking(own: Sequence[SealedFields]) -> bool:
    """Return whether a command starts only if its agent asks, by its own records: the last one that states it counts. A
    record from before it was stated there drops the condition by moving the command to an approval."""
    needs = False
    for one in own:
        if "needs_asking" in one.meta:
            needs = one.meta["needs_asking"] is True
        elif one.meta.get("to") == "pending_approval":
            needs = False
    return needs


def _open_approvals(records: Sequence[SealedFields], command_id: str) -> list[str]:
    """Return the approvals of a command that are pending or granted by their records."""
    last: dict[str, str] = {}
    for one in records:
        if one.command_id == command_id and one.approval_id is not None and "door" in one.meta:
            last[one.approval_id] = one.meta.get("to", "")
    return [name for name, to in last.items() if to in ("pending", "granted")]


def _name(actor: Actor | None) -> str:
    return "" if actor is None else named(actor)


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
