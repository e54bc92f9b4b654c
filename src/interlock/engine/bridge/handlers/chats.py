"""Handle messages of chats, cron jobs and hooks for a session (R-4, I-1, V-1)."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.engine.bridge import entries
from interlock.engine.bridge.commands import submission
from interlock.engine.bridge.commands.cancellation import stop_all
from interlock.engine.bridge.commands.dispatch import queued
from interlock.engine.bridge.context.compaction import window
from interlock.engine.bridge.inputs import people as i
from interlock.engine.bridge.lane import Lane
from interlock.protocol.inbound import Received
from interlock.protocol.problems import Problem
from interlock.session.chat.chat_route import Chat
from interlock.session.chat.chat_words import ChatStatus, status_text, stopped_text
from interlock.session.chat.send_policy import may_send


def lane_status(lane: Lane) -> ChatStatus:
    """Return what `/status` shows of a lane's session."""
    state, entry = lane.state, lane.state.entry
    waiting = [record for record in lane.commands.values() if record.command.type == "execute"]
    return ChatStatus(
        agent_id=state.agent_id, model=entry.model_override or state.model, state=lane.session_state(),
        session_key=state.session_key, session_id=state.session_id,
        age_ms=lane.wall - (entry.session_started_at or state.created_ms), input_tokens=state.input_tokens,
        output_tokens=state.output_tokens, cost_usd=state.cost_usd, context_tokens=state.context_tokens,
        context_estimated=state.context_estimated, context_window=window(lane), compactions=entry.compaction_count,
        running=int(state.active is not None), waiting=len(queued(lane)),
        asking=sum(record.command.state == "pending_approval" for record in waiting)
        + sum(one.approval.state == "pending" and one.approval.door == "tool" for one in lane.approvals.values()),
    )


def message(lane: Lane, input_: i.ChatMessageReceived) -> Received | Problem:
    """Queue a chat's message as a command, or stay silent if policy requires it (R-4)."""
    who = input_.principal.who
    if input_.begins:
        entries.begin_again(lane, who, input_.before, input_.cause or "first", input_.model)
    entries.describe(lane, {**input_.described, "chatType": input_.chat.chat_type,
                            "provider": input_.chat.channel.lower()})
    received = Received(session_id=lane.state.session_id, session_key=input_.key, reset=input_.cause)
    if input_.body is None:
        lane.state.note_message(lane.wall, person=True)
        return received
    if not may_send(input_.sending, lane.state.entry.send_policy, input_.chat, input_.key):
        entries.record_unanswered(lane, who, input_.body)
        return msgspec.structs.replace(received, denied=True)
    command = submission.submit(lane, input_.principal, input_.body)
    if isinstance(command, Problem):
        return command
    return msgspec.structs.replace(received, command_id=command.id)


def system_message(lane: Lane, input_: i.SystemMessageReceived) -> Received | Problem:
    """Queue the message of a cron job or a hook as a command (I-2)."""
    received = Received(session_id=lane.state.session_id, session_key=input_.key)
    chat = Chat(input_.origin, "direct")
    if not may_send(input_.sending, lane.state.entry.send_policy, chat, input_.key):
        entries.record_unanswered(lane, input_.principal.who, input_.body, person=False)
        return msgspec.structs.replace(received, denied=True)
    command = submission.submit(lane, input_.principal, input_.body, input_.origin)
    if isinstance(command, Problem):
        return command
    return msgspec.structs.replace(received, command_id=command.id)


def word(lane: Lane, input_: i.ChatWord) -> Received:
    """Answer a chat command to the gateway itself (V-1)."""
    silent = not may_send(input_.sending, lane.state.entry.send_policy, input_.chat, input_.key)
    if input_.name == "stop":
        reply = stopped_text(stop_all(lane, input_.principal.who))
    else:
        reply = status_text(lane_status(lane))
    return Received(session_id=lane.state.session_id, session_key=input_.key, reply=None if silent else reply,
                    denied=silent)


HANDLERS: dict[type[Any], Any] = {
    i.ChatMessageReceived: message, i.SystemMessageReceived: system_message, i.ChatWord: word,
}
