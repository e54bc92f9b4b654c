"""A command as an A2A task, its events as updates, and a message as a prompt (O-9). Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from interlock.gateway.a2a.wire import A2AError, Part, TaskOptions
from interlock.protocol import payloads as p
from interlock.protocol.frames import FRAMES
from interlock.protocol.resources import Approval, Command, ExecutePayload, Output

CONTEXT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
SCOPE = "a2a"
"""First part of the name of a session that a client opened by A2A: its key is `agent:ID:a2a:CONTEXT`."""
ANSWER = "answer"
"""The id of the artifact that holds the agent's text."""

STATES: Mapping[str, str] = {
    "pending_approval": "TASK_STATE_AUTH_REQUIRED", "queued": "TASK_STATE_SUBMITTED",
    "dispatched": "TASK_STATE_SUBMITTED", "running": "TASK_STATE_WORKING", "pausing": "TASK_STATE_WORKING",
    "paused": "TASK_STATE_WORKING", "resuming": "TASK_STATE_WORKING", "canceling": "TASK_STATE_WORKING",
    "succeeded": "TASK_STATE_COMPLETED", "failed": "TASK_STATE_FAILED", "timed_out": "TASK_STATE_FAILED",
    "canceled": "TASK_STATE_CANCELED", "rejected": "TASK_STATE_REJECTED", "expired": "TASK_STATE_REJECTED",
}
"""A command's states as A2A's. A running command that waits for a person is INPUT_REQUIRED or AUTH_REQUIRED."""
TERMINAL = frozenset({"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"})
INTERRUPTED = frozenset({"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"})

_payload = msgspec.json.Decoder(ExecutePayload)


def session_key(agent_id: str, context_id: str) -> str:
    """Return the key of a context's session. Raises A2AError INVALID_PARAMS."""
    if CONTEXT_ID.fullmatch(context_id) is None:
        raise A2AError("INVALID_PARAMS", "`contextId` has 1 to 128 letters, digits, dots, underscores and hyphens. "
                       "Leave it out to begin a new context.")
    return f"agent:{agent_id}:{SCOPE}:{context_id}"


def context_of(key: str | None, session_id: str) -> str:
    """Return the context id of a session: the name in its key, or its id if the session was opened otherwise."""
    scope, _, name = (key or "").partition(":")[2].partition(":")[2].partition(":")
    return name if scope == SCOPE and CONTEXT_ID.fullmatch(name) else session_id


def prompt_of(parts: Sequence[Part], options: TaskOptions) -> dict[str, Any]:
    """Return the payload of an execute for the parts of a message. Raises A2AError."""
    content = [_content(part) for part in parts]
    payload: dict[str, Any] = {"messages": [{"role": "user", "content": content}]}
    payload.update({name: value for name, value in (("mode", options.mode), ("model", options.model)) if value})
    return payload


def text_of(parts: Sequence[Part]) -> str:
    """Return the text of a message that answers a question. Raises A2AError CONTENT_TYPE_NOT_SUPPORTED."""
    if any(part.text is None for part in parts):
        raise A2AError("CONTENT_TYPE_NOT_SUPPORTED", "A question is answered with text parts alone.")
    return "\n".join(part.text or "" for part in parts)


def _content(part: Part) -> dict[str, Any]:
    if sum((part.text is not None, part.raw is not None, part.url is not None, part.data is not msgspec.UNSET)) != 1:
        raise A2AError("INVALID_PARAMS", "A part has exactly one of `text`, `raw`, `url` and `data`.")
    if part.text is not None:
        return {"contentType": "text", "value": part.text}
    if part.url is not None:
        return {"contentType": "text", "value": f"[{part.filename or 'file'}]({part.url})"}
    if part.data is not msgspec.UNSET:
        return {"contentType": "text", "value": msgspec.json.encode(part.data).decode()}
    return _file(part)


def _file(part: Part) -> dict[str, Any]:
    try:
        base64.b64decode(part.raw or "", validate=True)
    except (binascii.Error, ValueError):
        raise A2AError("INVALID_PARAMS", "`raw` of a part is not base64.") from None
    kind = (part.media_type or "").partition("/")[0]
    value = {"encoding": "base64", "data": part.raw, "name": part.filename or "file",
             **({"media_type": part.media_type} if part.media_type else {})}
    return {"contentType": kind if kind in ("image", "audio", "video") else "file", "value": value}


def state_of(command: Command, waiting: Iterable[Approval]) -> str:
    """Return A2A's state of a command, given the approvals and questions of it that are pending."""
    state = STATES[command.state]
    kinds = {one.kind for one in waiting}
    if state in TERMINAL or not kinds:
        return state
    return "TASK_STATE_AUTH_REQUIRED" if "permission" in kinds else "TASK_STATE_INPUT_REQUIRED"


def task_of(command: Command, context_id: str, waiting: Sequence[Approval], origin: str, *,
            history_length: int | None = None, artifacts: bool = True) -> dict[str, Any]:
    """Return the task for a command. `origin` is the base URL of the gateway's pages, as `http://127.0.0.1:7420`."""
    task: dict[str, Any] = {"id": command.id, "contextId": context_id,
                            "status": status_of(command, waiting, origin), "metadata": {"interlock": _own(command)}}
    if artifacts and (found := artifacts_of(command)):
        task["artifacts"] = found
    if history_length != 0 and (message := _prompt_message(command, context_id)) is not None:
        task["history"] = [message]
    return task


def status_of(command: Command, waiting: Sequence[Approval], origin: str) -> dict[str, Any]:
    """Return `status` of a task: its state, since when, and what a person needs to know about it."""
    status: dict[str, Any] = {"state": state_of(command, waiting), "timestamp": command.updated_at}
    sentences = [asking(one, origin) for one in waiting] if status["state"] in INTERRUPTED else []
    if not sentences and command.state == "pending_approval" and command.approval_id:
        sentences = [f"The task waits for an approval. A person answers at {origin}/a/{command.approval_id}; "
                     "no message is a vote."]
    sentences += [_denied(denial.title, denial.by, denial.reason) for denial in command.denials]
    if command.error is not None:
        sentences.append(f"{command.error.message} ({command.error.code})")
    if sentences:
        status["message"] = {"messageId": f"{command.id}.{command.state}", "role": "ROLE_AGENT", "taskId": command.id,
                             "parts": [text_part(sentence) for sentence in sentences]}
    return status


def asking(approval: Approval, origin: str) -> str:
    """Return the sentence that states what the task waits for, and where a person answers."""
    if approval.kind == "question":
        return f"The agent asks: {approval.title} Answer with a message that has this task's id."
    return (f"The agent asks for permission: {approval.title}. A person answers at {origin}/a/{approval.id}; "
            "no message is a vote.")


def artifacts_of(command: Command) -> list[dict[str, Any]]:
    """Return the results of a task: the agent's answer first, then the output of each tool; none before its end."""
    output: Output | None = command.result.output if command.result is not None else None
    answer: list[dict[str, Any]] = []
    tools: list[dict[str, Any]] = []
    for item in output.output if output is not None else ():
        parts = [_part(part) for part in cast("list[Mapping[str, Any]]", item.get("content") or ())]
        if item.get("role") != "tool":
            answer += parts
        elif parts:
            tools.append({"artifactId": str(item.get("toolCallId")), "name": str(item.get("name") or "tool"),
                          "parts": parts, "metadata": {"interlock": {"status": item.get("status")}}})
    return [*([artifact_of(answer)] if answer else []), *tools]


def artifact_of(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the artifact that holds the agent's answer."""
    return {"artifactId": ANSWER, "name": "answer", "parts": parts}


def text_part(text: str) -> dict[str, Any]:
    """Return a part of text."""
    return {"text": text, "mediaType": "text/plain"}


def answer_text(artifact: Mapping[str, Any]) -> str:
    """Return the text of an artifact's parts."""
    return "".join(str(part["text"]) for part in artifact["parts"] if "text" in part)


def _part(item: Mapping[str, Any]) -> dict[str, Any]:
    value = item.get("value")
    return text_part(value) if isinstance(value, str) else {"data": dict(item), "mediaType": "application/json"}


def _denied(title: str, by: str, reason: str | None) -> str:
    return f"Denied by {by}: {title}{f' ({reason})' if reason else ''}."


def _own(command: Command) -> dict[str, Any]:
    usage = command.result.output.usage if command.result is not None else None
    found = {"state": command.state, "agent": command.target.agent_id, "runner": command.target.runner_id,
             "session": command.target.session_id, "actor": f"{command.actor.type}:{command.actor.id}",
             "usage": msgspec.to_builtins(usage) if usage is not None else None}
    return {name: value for name, value in found.items() if value is not None}


def _prompt_message(command: Command, context_id: str) -> dict[str, Any] | None:
    if not isinstance(command.payload, msgspec.Raw):
        return None
    payload = _payload.decode(command.payload)
    parts = [_prompt_part(part.value) for message in payload.messages for part in message.content]
    return {"messageId": command.idempotency_key or command.id, "role": "ROLE_USER", "contextId": context_id,
            "taskId": command.id, "parts": parts} if parts else None


def _prompt_part(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return text_part(value)
    name = cast("Mapping[str, Any]", value).get("name") if isinstance(value, dict) else None
    return text_part(f"[file: {name or 'attached'}]")


class AnswerText:
    """The text of one turn as it arrives: each piece once, at its offset, whatever is repeated after a reconnection."""

    def __init__(self) -> None:
        self.text = ""
        """All that was passed on."""
        self._passed: dict[str, int] = {}

    def piece(self, event: Mapping[str, Any], turn_id: str | None) -> str:
        """Return what a frame of the session adds to the text of the turn; "" if nothing."""
        payload = text_frame(event)
        if payload is None or payload.turn_id != turn_id:
            return ""
        passed = self._passed.get(payload.block_id, 0)
        offset = payload.offset if isinstance(payload, p.TextDelta) else 0
        fresh = payload.text[passed - offset:] if offset <= passed else ""
        if fresh:
            self._passed[payload.block_id] = offset + len(payload.text)
            self.text += fresh
        return fresh


def text_frame(event: Mapping[str, Any]) -> p.TextDelta | p.TextDone | None:
    """Return the text of an element of a session's stream; None for any other."""
    frame: dict[str, Any] = event.get("frame") or {}
    name = str(frame.get("type"))
    if name not in ("agent.text.delta", "agent.text.done") or event.get("kind") == "refused":
        return None
    try:
        return cast("p.TextDelta | p.TextDone", msgspec.convert(frame.get("payload"), FRAMES[name].payload))
    except msgspec.ValidationError:
        return None
