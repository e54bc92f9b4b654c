"""Requests on commands (racp sections 1 and 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from interlock.protocol.answers import CommandPage, StatusPage
from interlock.protocol.api.commands import GET_COMMAND, GET_COMMAND_APPROVAL, GET_STATUS, LIST_COMMANDS, SUBMIT_COMMAND
from interlock.protocol.resources import (
    ApprovalRequirement,
    Command,
    CommandApproval,
    CommandBody,
    CommandState,
    CommandType,
    ContentPart,
    ExecutePayload,
    Heartbeat,
    OnBusy,
    StatusEvent,
    Target,
    UserMessage,
)
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.follower import Following
from interlock.sdk.methods import ApiResource, Driven, EventMethod, Every, LinkT, SingleRequest, ToEnd
from interlock.sdk.pages import wait
from interlock.sdk.requests.base import change, read, written

_event = msgspec.json.Decoder(StatusEvent)
_heartbeat = msgspec.json.Decoder(Heartbeat)


def submit(
    prompt: str | ExecutePayload,
    *,
    agent: str | None = None,
    session_id: str | None = None,
    session_key: str | None = None,
    runner_id: str | None = None,
    workspace: str | None = None,
    tools: Sequence[str] = (),
    priority: int = 0,
    timeout_ms: int | None = None,
    approvals: int | None = None,
    on_busy: OnBusy = "enqueue",
    close_session: bool = False,
    reason: str | None = None,
    wait_s: int | None = None,
    idempotency_key: str | None = None,
) -> RequestSpec[Command]:
    """Submit a task: a prompt for an agent. Returns the accepted task, or with `wait_s` the ended one; Timeout is
    raised if that takes longer (30 s at most), and the task continues. `approvals` is the minimum number of people who
    must approve it before it starts; `tools` names the only tools that it may use, and policy decides on each."""
    payload = prompt if isinstance(prompt, ExecutePayload) else _payload(prompt, tools)
    return _given(CommandBody(
        type="execute", target=Target(agent_id=agent, session_id=session_id, session_key=session_key,
                                      runner_id=runner_id, workspace=workspace),
        payload=msgspec.Raw(msgspec.json.encode(payload)), priority=priority, timeout_ms=timeout_ms,
        approval=ApprovalRequirement(required=approvals) if approvals is not None else None, reason=reason,
        on_busy=on_busy, close_session=close_session,
    ), wait_s, idempotency_key)


def _payload(text: str, tools: Sequence[str]) -> ExecutePayload:
    message = UserMessage(role="user", content=[ContentPart(contentType="text", value=text)])
    return ExecutePayload(messages=[message], tools=list(tools))


def cancel(command_id: str, *, reason: str | None = None, wait_s: int | None = None,
           idempotency_key: str | None = None) -> RequestSpec[Command]:
    """Cancel a task. Returns the cancel, which is a command of its own (C-2)."""
    return _steer("cancel", command_id, reason, wait_s, idempotency_key)


def pause(command_id: str, *, reason: str | None = None, wait_s: int | None = None,
          idempotency_key: str | None = None) -> RequestSpec[Command]:
    """Pause a task and its clocks (C-6)."""
    return _steer("pause", command_id, reason, wait_s, idempotency_key)


def resume(command_id: str, *, reason: str | None = None, wait_s: int | None = None,
           idempotency_key: str | None = None) -> RequestSpec[Command]:
    """Resume a paused task."""
    return _steer("resume", command_id, reason, wait_s, idempotency_key)


def _steer(kind: CommandType, command_id: str, reason: str | None, wait_s: int | None, key: str | None
           ) -> RequestSpec[Command]:
    return _given(CommandBody(type=kind, target=Target(command_id=command_id), reason=reason), wait_s, key)


def _given(body: CommandBody, wait_s: int | None, key: str | None) -> RequestSpec[Command]:
    return replace(change(SUBMIT_COMMAND, body=body, key=key), wait_s=wait_s)


def show(command_id: str) -> RequestSpec[Command]:
    """Return a task or another command."""
    return read(GET_COMMAND, command_id)


def listing(
    *, state: CommandState | None = None, agent: str | None = None, session: str | None = None,
    actor: str | None = None, kind: CommandType | None = None, cursor: str | None = None, limit: int | None = None,
) -> RequestSpec[CommandPage]:
    """Return a page of commands, newest first; `kind` is their type: tasks are `execute`."""
    return read(LIST_COMMANDS, state=state, agent=agent, session=session, actor=actor, type=kind, cursor=cursor,
                limit=limit)


def approval(command_id: str) -> RequestSpec[CommandApproval]:
    """Return the votes that a command's approval needs, and its votes so far."""
    return read(GET_COMMAND_APPROVAL, command_id)


def status(command_id: str, *, since: str | None = None, last: int | None = None, limit: int | None = None,
           wait: int | None = None) -> RequestSpec[StatusPage]:
    """Return a page of a command's status events; with `wait`, the gateway waits up to that number of seconds for the
    first."""
    return read(GET_STATUS, command_id, since=since, last=last, limit=limit, wait=wait)


def follow(command_id: str, *, since: str | None = None) -> Following[StatusEvent | Heartbeat]:
    """Follow a command's status events until it has ended, from after the cursor `since`."""
    return Following(GET_STATUS.at(command_id), _read, written({}), since)


def _read(event: str, data: bytes) -> StatusEvent | Heartbeat:
    return _heartbeat.decode(data) if event == "heartbeat" else _event.decode(data)


class CommandMethods(ApiResource[LinkT]):
    """Tasks and the commands about them: submit, follow, end."""

    run = ToEnd(submit)  # Before the next line, from which on `submit` is the method.
    submit = SingleRequest(submit)
    cancel = SingleRequest(cancel)
    pause = SingleRequest(pause)
    resume = SingleRequest(resume)
    get = SingleRequest(show)
    list = SingleRequest(listing)
    every = Every(listing)
    approval = SingleRequest(approval)
    status = SingleRequest(status)
    follow = EventMethod(follow)
    wait = Driven(wait)
