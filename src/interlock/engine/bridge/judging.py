"""What policy is shown of a tool call, and what it answers in an approval's words (P-1)."""

from __future__ import annotations

import hashlib
import posixpath
import re
import shlex
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from interlock.command.policy import Origin, Permission, Subject, Verdict
from interlock.engine.bridge.lane import Lane
from interlock.protocol import payloads as p
from interlock.protocol.records import CommandRecord
from interlock.protocol.resources import Approval, Quorum

_PATH_NAMES = re.compile(
    r"(?:.*_)?(?:path|file|filename|dir|directory|folder|source|src|destination|dest|dst)s?", re.IGNORECASE
)
"""Members of a tool's input that name a path. One too many only makes an `allow` rule narrower."""
_COMMAND_NAMES = frozenset({"command", "description", "title", "timeout", "timeout_ms"})
"""Members beside a command line that do not change what it does."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def quorums(verdict: Verdict) -> list[Quorum]:
    """The groups that all must say yes."""
    return [Quorum(role=group.role, min=group.min) for group in verdict.groups]


def origin_of(record: CommandRecord | None) -> Origin:
    """Who is behind a turn, as policy asks it: a cron job and a hook are nobody's word."""
    if record is None:
        return "system"
    return record.command.actor.type if record.origin == "user" else record.origin


def subject_of(
    lane: Lane, record: CommandRecord | None, asked: p.InteractionRequest, input_bytes: bytes, kind: str | None
) -> Subject:
    """A tool call as policy judges it. `record` is the command whose turn it is."""
    state = lane.state
    tools: tuple[str, ...] = ()
    if record is not None and isinstance(record.command.payload, msgspec.Raw):
        tools = tuple(msgspec.json.decode(record.command.payload, type=dict[str, Any]).get("tools", ()))
    return tool_subject(
        input_bytes, state.workspace, tenant_id=state.tenant_id, agent_id=state.agent_id,
        origin=origin_of(record), permission=state.permission,
        at_ms=lane.wall, tool_name=asked.context.tool_name, tool_kind=kind, trusted_kinds=state.trusted_kinds,
        allowed_tools=tools, cost_usd=state.cost_usd, session_id=state.session_id,
    )


def tool_subject(input_bytes: bytes, workspace: str, **known: Any) -> Subject:
    """A tool call by its input's bytes; `known` are the fields of Subject that do not come from them."""
    fields = _fields(input_bytes)
    return Subject(
        door="tool", command_line=_command_line(fields.get("command")), command_only=fields.keys() <= _COMMAND_NAMES,
        paths=tuple(relative(path, workspace) for path in _paths(fields)),
        digest=hashlib.sha256(input_bytes).hexdigest(), **known,
    )


def subject_of_approval(approval: Approval, now_ms: int, permission: Permission = "asks") -> Subject:
    """What an approval was asked on, as policy judges it now. The kind of the tool is the agent's word and not kept."""
    asker = approval.requested_by
    known: dict[str, Any] = {
        "tenant_id": approval.tenant_id, "agent_id": approval.agent_id, "permission": permission, "at_ms": now_ms,
        "origin": asker.type if asker is not None else "system", "session_id": approval.session_id,
    }
    if approval.door == "command":
        return Subject(door="command", command_type=approval.verb or "execute", digest=approval.digest, **known)
    return tool_subject(bytes(approval.input), approval.workspace or "", tool_name=approval.tool_name, **known)


def relative(path: str, workspace: str) -> str:
    """A path below the workspace as it is named from there, any other as an absolute one. Only text is looked at."""
    if not workspace or path.startswith("~"):
        return path
    whole = posixpath.normpath(posixpath.join(workspace, path))
    root = posixpath.normpath(workspace)
    if whole == root:
        return "."
    return whole.removeprefix(root.rstrip("/") + "/")


def _fields(input_bytes: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(input_bytes, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}


def _command_line(command: object) -> str | None:
    if isinstance(command, str):
        return command
    words = cast("list[object]", command) if isinstance(command, list) else []
    texts = [word for word in words if isinstance(word, str)]
    return shlex.join(texts) if texts and len(texts) == len(words) else None


def _paths(fields: dict[str, Any]) -> Iterator[str]:
    for name, value in fields.items():
        if _PATH_NAMES.fullmatch(_CAMEL.sub("_", name)) is None:
            continue
        for found in cast("list[object]", value) if isinstance(value, list) else [value]:
            if isinstance(found, str):
                yield found
