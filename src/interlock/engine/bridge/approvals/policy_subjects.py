"""The policy subjects of commands and tool calls, and policy's verdict in an approval's terms (P-1)."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from interlock.command.card.permission_request import (
    PermissionRequest,
    request_from,
    request_of_approval,
    workspace_files,
)
from interlock.command.card.request import ReceivedRequest
from interlock.command.facts.request import AgentRequest, facts
from interlock.command.policy.policy import Origin, Permission, PolicySubject, PolicyVerdict
from interlock.engine.bridge.lane import Lane
from interlock.protocol import payloads as p
from interlock.protocol.box import Box, parts
from interlock.protocol.clock import parse_iso
from interlock.protocol.records import ApprovalRecord, CommandRecord, Judged
from interlock.protocol.resources import Actor, Quorum
from interlock.session.turn import OpenTool


def quorums(verdict: PolicyVerdict) -> list[Quorum]:
    """Return the groups that must all say yes."""
    return [Quorum(role=group.role, min=group.min) for group in verdict.groups]


def origin_of(record: CommandRecord | None) -> Origin:
    """Return the origin of a turn, for policy: a cron job or a hook has no person behind it."""
    if record is None:
        return "system"
    return record.command.actor.type if record.origin == "user" else record.origin


def command_subject(lane: Lane, actor: Actor, driver: Actor | None, origin: str, digest: str, permission: Permission
            ) -> PolicySubject:
    """Return the policy subject of an execute, for an agent that asks or never does."""
    state = lane.state
    return PolicySubject(door="command", tenant_id=state.tenant_id, agent_id=state.agent_id,
                         origin=actor.type if origin == "user" else origin,  # type: ignore[arg-type]
                         permission=permission, at_ms=lane.wall, command_type="execute", session_id=state.session_id,
                         cost_usd=state.cost_usd, digest=digest, runner_id=state.runner_id or None,
                         workspace=state.workspace or None, person=person_of(actor, driver),
                         box=parts(box) if (box := state.expected_box) is not None else ())


def request_of(payload: p.InteractionRequest, announced: OpenTool | None) -> PermissionRequest:
    """Return the permission request in a frame (H-1). A frame without a subject is of a runner that sends only the
    input; if that is also absent, the announced input is used."""
    context = payload.context
    if isinstance(context.subject, msgspec.Raw):
        return request_from(bytes(context.subject))
    own = bytes(context.input) if isinstance(context.input, msgspec.Raw) else None
    if own is None:
        own = announced.input if announced is not None else b"{}"
    kind = announced.kind if announced is not None else None
    return PermissionRequest(ReceivedRequest(context.tool_name, own, payload.title, kind), None)


def subject_of(lane: Lane, record: CommandRecord | None, request: PermissionRequest) -> PolicySubject:
    """Return the policy subject of a tool call. `record` is the command whose turn it is."""
    state = lane.state
    tools: tuple[str, ...] = ()
    if record is not None and isinstance(record.command.payload, msgspec.Raw):
        tools = tuple(msgspec.json.decode(record.command.payload, type=dict[str, Any]).get("tools", ()))
    return request_subject(
        facts_of(request, state.workspace), request.digest, tenant_id=state.tenant_id, agent_id=state.agent_id,
        origin=origin_of(record), permission=state.permission,
        at_ms=lane.wall, tool_name=request.asked.tool_name, tool_kind=request.asked.kind,
        trusted_kinds=state.trusted_kinds, allowed_tools=tools, cost_usd=state.cost_usd, session_id=state.session_id,
        runner_id=state.runner_id or None,
        person=person_of(record.command.actor, record.driver) if record is not None else None,
        box=parts(state.stated_box),
    )


def tool_subject(input_bytes: bytes, workspace: str, **known: Any) -> PolicySubject:
    """Return the policy subject of a tool call from its input's bytes; `known` are the remaining fields of Subject."""
    return request_subject(AgentRequest(input_bytes, workspace), hashlib.sha256(input_bytes).hexdigest(), **known)


def request_subject(request: AgentRequest, digest: str, **known: Any) -> PolicySubject:
    """Return the policy subject of a tool call from the whole permission request, as received; `digest` is of what is
    shown and voted on."""
    return PolicySubject(door="tool", facts=facts(request), workspace=request.workspace or None, digest=digest, **known)


def facts_of(request: PermissionRequest, workspace: str) -> AgentRequest:
    """Return the request in the form that the normaliser accepts."""
    asked = request.asked
    return AgentRequest(None if asked.described and asked.input == b"{}" else asked.input, workspace, asked.title,
                        asked.locations, asked.content, asked.described, request.resolved_paths)


def person_of(actor: Actor | None, driver: Actor | None) -> str | None:
    """Return the person that a rule's `person` matches: the one who drives the agent that asked, otherwise the
    requester."""
    who = driver or actor
    return f"{who.type}:{who.id}" if who is not None else None


def files_subject(files: p.WorkspaceFiles, digest: str, **known: Any) -> PolicySubject:
    """Return the policy subject of files that configure an agent, which have a door of their own (H-13). Their
    directory is the one that links resolve to."""
    return PolicySubject(door="workspace", workspace=files.directory, digest=digest,
                         workspace_files=tuple(file.path for file in files.files), **known)


def judged(subject: PolicySubject, box: Box | None = None, *, fell: bool = False) -> Judged:
    """Return what is stored of a subject besides the request, so that the same subject can be judged again. `box` is
    the one that the subject's parts refer to."""
    return Judged(at_ms=subject.at_ms, origin=subject.origin, permission=subject.permission, cost_usd=subject.cost_usd,
                  trusted_kinds=subject.trusted_kinds, allowed_tools=subject.allowed_tools, person=subject.person,
                  box=box, fell=fell)


def subject_of_approval(record: ApprovalRecord, now_ms: int | None = None) -> PolicySubject:
    """Return the subject that an approval was opened on: the same facts that policy used. With `now_ms` only the time
    differs."""
    approval, asker = record.approval, record.approval.requested_by
    was = record.judged or Judged(at_ms=parse_iso(approval.created_at), permission="asks",
                                  origin=asker.type if asker is not None else "system",
                                  person=person_of(asker, approval.driver))
    known: dict[str, Any] = {
        "tenant_id": approval.tenant_id, "agent_id": approval.agent_id, "permission": was.permission,
        "at_ms": was.at_ms if now_ms is None else now_ms, "origin": was.origin, "session_id": approval.session_id,
        "runner_id": approval.runner_id, "person": was.person, "cost_usd": was.cost_usd, "box": parts(was.box),
    }
    if approval.workspace_files and (files := workspace_files(bytes(approval.input))) is not None:
        return files_subject(files, approval.digest, **known)
    if approval.door == "command":
        return PolicySubject(door="command", command_type=approval.verb or "execute", digest=approval.digest,
                             workspace=approval.workspace, **known)
    request = request_of_approval(approval)
    return request_subject(facts_of(request, approval.workspace or ""), approval.digest, tool_name=approval.tool_name,
                           tool_kind=request.asked.kind, trusted_kinds=was.trusted_kinds,
                           allowed_tools=was.allowed_tools, **known)
