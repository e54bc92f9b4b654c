"""The operations of A2A on one agent, each by the gateway's own API (O-9). No message to a task is ever a vote."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec

from interlock.gateway.a2a.internal_api import InternalApi
from interlock.gateway.a2a.push_configs import PushConfigs
from interlock.gateway.a2a.task_pushes import TaskPushes
from interlock.gateway.a2a.task_view import (
    ANSWER,
    INTERRUPTED,
    SCOPE,
    STATES,
    TERMINAL,
    AnswerText,
    answer_text,
    artifact_of,
    artifacts_of,
    context_of,
    prompt_of,
    session_key,
    state_of,
    status_of,
    task_of,
    text_frame,
    text_of,
    text_part,
)
from interlock.gateway.a2a.wire import (
    A2AError,
    A2AMessage,
    GatewayRefusal,
    ListRequest,
    PushConfig,
    PushListRequest,
    PushRequest,
    SendRequest,
    TaskRequest,
)
from interlock.protocol.access import Whoami
from interlock.protocol.answers import ApprovalPage, CommandPage, FramePage, NodeList, SessionPage
from interlock.protocol.identifiers import COMMAND_PREFIX
from interlock.protocol.limits import IDEMPOTENCY_KEY_MAX, IDEMPOTENCY_KEY_MIN, PAGE_MAX
from interlock.protocol.resources import Approval, Command, Node, Session

BLOCKING_MAX_S = 600.0
"""A blocking SendMessage returns the current task after this time; the task continues."""
LISTED_MAX = 1_000
"""Tasks that one ListTasks orders by their last change, and counts: a larger `totalSize` is reported as this one."""
UPDATES_WAITING = 64

_KEY = re.compile(rf"[\x21-\x7e]{{{IDEMPOTENCY_KEY_MIN},{IDEMPOTENCY_KEY_MAX}}}")
_TASK_ID = re.compile(rf"{COMMAND_PREFIX}[0-9A-Za-z]{{1,64}}")

Update = dict[str, Any]
"""One `StreamResponse`: a member `task`, `statusUpdate` or `artifactUpdate`."""


class SentMessage(NamedTuple):
    """The command of a message, and where to continue reading its session's frames: None from their beginning."""

    command: Command
    since: str | None


class TaskWindow(NamedTuple):
    """Tasks in the order of their last change; `next` is the cursor of the tasks that started before them."""

    tasks: list[Command]
    next: str | None


class ListPlace(NamedTuple):
    """Where a list continues: in the window that starts at a cursor, after a task that changed at a time."""

    begins: str
    after: tuple[str, str] | None

    @property
    def text(self) -> str:
        """Return it as a page token."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode()

    @classmethod
    def read(cls, token: str) -> ListPlace:
        """Read a page token; "" is the beginning. Raises A2AError INVALID_PARAMS."""
        if not token:
            return cls("", None)
        try:
            return msgspec.json.decode(base64.urlsafe_b64decode(token), type=cls)
        except (ValueError, msgspec.MsgspecError):
            raise A2AError("INVALID_PARAMS", "`pageToken` is not one of this list.") from None


class AgentOperations:
    """The operations of a client on one agent. `origin` is the base URL of the gateway's pages."""

    def __init__(self, api: InternalApi, agent_id: str, origin: str, pushes: TaskPushes | None = None) -> None:
        self._api = api
        self._push = PushConfigs(api, pushes, origin)
        self._agent_id = agent_id
        self.origin = origin
        self._contexts: dict[str, str] = {}
        """The context ids of sessions that this request has read."""
        self._windows: dict[str, TaskWindow] = {}
        """The tasks that this request has read, by the cursor that they start at."""

    # --- sending ---
    async def send(self, request: SendRequest) -> dict[str, Any]:
        """`SendMessage`: return the task, once it has ended or waits for a person. Raises A2AError."""
        sent = await self._sent(request)
        command = sent.command
        if not request.configuration.return_immediately:
            try:
                async with asyncio.timeout(BLOCKING_MAX_S):
                    command = await self._settled(command)
            except TimeoutError:
                command = await self._command(command.id)
        return {"task": await self._task(command, request.configuration.history_length)}

    async def stream(self, request: SendRequest) -> AsyncGenerator[Update]:
        """`SendStreamingMessage`: yield the task, then its updates until it has ended. Raises A2AError."""
        sent = await self._sent(request)
        async with aclosing(self._updates(sent.command, sent.since, request.configuration.history_length)) as updates:
            async for update in updates:
                yield update

    async def _sent(self, request: SendRequest) -> SentMessage:
        config = request.configuration.task_push_notification_config
        if config is not None:
            await self._push.check(config)
        sent = await self._passed_on(request)
        if config is not None:
            await self._push.put(sent.command, config)
        return sent

    async def _passed_on(self, request: SendRequest) -> SentMessage:
        message = request.message
        if message.task_id:
            return SentMessage(await self._answered(message), "")
        key = message.message_id if _KEY.fullmatch(message.message_id) else f"a2a-{_digest(message.message_id)}"
        target: dict[str, Any] = {"agent_id": self._agent_id}
        options = request.metadata.interlock
        since: str | None = None
        if (session := await self._session(message.context_id)) is not None:
            target["session_id"] = session.session_id
            page = await self._api.read(FramePage, f"/v1/sessions/{session.session_id}/frames", last=0, limit=1)
            since = page.next_cursor
        else:
            context_id = message.context_id or await self._fresh_context(message)
            target["session_key"] = session_key(self._agent_id, context_id)
            target.update({name: value for name, value in (("workspace", options.workspace),
                                                           ("runner_id", options.runner)) if value})
        body = {"type": "execute", "target": target, "payload": prompt_of(message.parts, options)}
        return SentMessage(await self._api.change(Command, "/v1/commands", body, key), since)

    async def _session(self, context_id: str) -> Session | None:
        """Return the session of a context; None if it has none yet. Raises A2AError INVALID_PARAMS."""
        if not context_id:
            return None
        found = await self._api.read(SessionPage, "/v1/sessions", key=session_key(self._agent_id, context_id), limit=1)
        if found.items:
            return found.items[0]
        try:
            session = await self._api.read(Session, f"/v1/sessions/{context_id}")
        except GatewayRefusal as refusal:
            if refusal.kind.status == 404:
                return None
            raise
        if session.agent_id != self._agent_id:
            raise A2AError("INVALID_PARAMS", f"The context {context_id} is of another agent.")
        return session

    async def _fresh_context(self, message: A2AMessage) -> str:
        """Return the name of a new context: the same for the same message of the same client, so that a repeated
        message is recognised."""
        principal = (await self._api.read(Whoami, "/v1/whoami")).principal
        return _digest(f"{principal.type}:{principal.id}\n{message.message_id}")

    async def _answered(self, message: A2AMessage) -> Command:
        """Answer the question that a task waits with. Raises A2AError: no message decides an approval."""
        command = await self._command(message.task_id)
        context = await self._context(command)
        if message.context_id and message.context_id != context:
            raise A2AError("INVALID_PARAMS", f"The task {command.id} is of the context {context}, not of "
                           f"{message.context_id}.")
        waiting = await self._waiting(command)
        questions = [one for one in waiting if one.kind == "question"]
        state = state_of(command, waiting)
        if state != "TASK_STATE_INPUT_REQUIRED" or not questions:
            raise A2AError("UNSUPPORTED_OPERATION", _not_taken(command, state, self.origin, waiting))
        await self._api.change(Approval, f"/v1/approvals/{questions[0].id}/answers", {"text": text_of(message.parts)},
                               f"a2a-{_digest(message.message_id)}")
        return await self._command(command.id)

    # --- tasks ---
    async def get(self, request: TaskRequest) -> dict[str, Any]:
        """`GetTask`. Raises A2AError."""
        return await self._task(await self._command(request.id), request.history_length)

    async def cancel(self, request: TaskRequest) -> dict[str, Any]:
        """`CancelTask`: return the task, which may not have ended yet. Raises A2AError."""
        command = await self._command(request.id)
        if STATES[command.state] in TERMINAL:
            raise A2AError("TASK_NOT_CANCELABLE", f"The task {command.id} has ended: {command.state}.")
        body = {"type": "cancel", "target": {"command_id": command.id}, "reason": "canceled over A2A"}
        await self._api.change(Command, "/v1/commands", body, f"a2a-cancel-{command.id}")
        return await self._task(await self._command(command.id), request.history_length)

    async def subscribe(self, request: TaskRequest) -> AsyncGenerator[Update]:
        """`SubscribeToTask`: yield the current task, then its updates. Raises A2AError."""
        command = await self._command(request.id)
        if STATES[command.state] in TERMINAL:
            raise A2AError("UNSUPPORTED_OPERATION", f"The task {command.id} has ended: {command.state}. Get it.")
        async with aclosing(self._updates(command, "", request.history_length)) as updates:
            async for update in updates:
                yield update

    async def listed(self, request: ListRequest) -> dict[str, Any]:
        """`ListTasks`: return the last changed first, within each LISTED_MAX tasks that started last. Raises
        A2AError."""
        if request.status and request.status not in STATES.values():
            raise A2AError("INVALID_PARAMS", f"`status` is one of {', '.join(sorted(set(STATES.values())))}.")
        session = await self._session(request.context_id)
        if request.context_id and session is None:
            return {"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0}
        session_id = session.session_id if session is not None else None
        pending = await self._pending(agent=self._agent_id, session=session_id)
        place = ListPlace.read(request.page_token)
        tasks: list[dict[str, Any]] = []
        while True:
            window = await self._window(session_id, place.begins)
            behind = [one for one in window.tasks if place.after is None or _changed(one) < place.after]
            for number, command in enumerate(behind, 1):
                if (task := await self._listed(command, request, pending)) is not None:
                    tasks.append(task)
                if len(tasks) == request.page_size:
                    place = (ListPlace(place.begins, _changed(command)) if number < len(behind)
                             else ListPlace(window.next, None) if window.next is not None else None)
                    return await self._page(tasks, place, session_id)
            if window.next is None:
                return await self._page(tasks, None, session_id)
            place = ListPlace(window.next, None)
            if not request.status and not request.status_timestamp_after:
                continue
            return await self._page(tasks, place, session_id)  # Tasks excluded by a filter are read in steps.

    async def _page(self, tasks: list[dict[str, Any]], place: ListPlace | None, session_id: str | None
                    ) -> dict[str, Any]:
        return {"tasks": tasks, "nextPageToken": place.text if place is not None else "", "pageSize": len(tasks),
                "totalSize": len((await self._window(session_id, "")).tasks)}

    async def _window(self, session_id: str | None, begins: str) -> TaskWindow:
        """Return at most LISTED_MAX tasks, from a cursor on, the last changed first."""
        if begins in self._windows:
            return self._windows[begins]
        found: list[Command] = []
        cursor = begins or None
        while len(found) < LISTED_MAX:
            page = await self._api.read(CommandPage, "/v1/commands", agent=self._agent_id, type="execute",
                                        session=session_id, cursor=cursor, limit=PAGE_MAX)
            found += page.items
            cursor = page.next_cursor if page.has_more else None
            if cursor is None:
                break
        self._windows[begins] = TaskWindow(sorted(found, key=_changed, reverse=True), cursor)
        return self._windows[begins]

    async def _listed(self, command: Command, request: ListRequest, pending: list[Approval]) -> dict[str, Any] | None:
        """Return the task if it matches. A list of commands has no prompts: they are read if history is requested."""
        waiting = _of(command, pending)
        if (request.status not in ("", state_of(command, waiting))
                or command.updated_at < request.status_timestamp_after):
            return None
        if request.history_length:
            command = await self._command(command.id)
        return task_of(command, await self._context(command), waiting, self.origin,
                       history_length=request.history_length, artifacts=request.include_artifacts)

    # --- push notifications ---
    async def put_push(self, config: PushConfig) -> dict[str, Any]:
        """`CreateTaskPushNotificationConfig`. Raises A2AError."""
        await self._push.check(config)
        return await self._push.put(await self._command(config.task_id), config)

    async def get_push(self, request: PushRequest) -> dict[str, Any]:
        """`GetTaskPushNotificationConfig`. Raises A2AError."""
        return await self._push.get(await self._command(request.task_id), request.id)

    async def list_pushes(self, request: PushListRequest) -> dict[str, Any]:
        """`ListTaskPushNotificationConfigs`. Raises A2AError."""
        return await self._push.listed(await self._command(request.task_id))

    async def delete_push(self, request: PushRequest) -> dict[str, Any]:
        """`DeleteTaskPushNotificationConfig`. Raises A2AError."""
        await self._push.delete(await self._command(request.task_id), request.id)
        return {}

    async def known_agent(self) -> list[Node]:
        """Return the runners that offer the agent. Raises A2AError INVALID_PARAMS if there is none."""
        nodes = (await self._api.read(NodeList, "/v1/edge/nodes")).nodes
        found = [node for node in nodes if any(one.get("agent_id") == self._agent_id for one in node.agents)]
        if not found:
            raise A2AError("INVALID_PARAMS", f"No runner offers an agent {self._agent_id}. "
                           "List the agents with `interlock agents`.")
        return found

    # --- one task ---
    async def _command(self, task_id: str) -> Command:
        """Return the command of a task of this agent. Raises A2AError TASK_NOT_FOUND."""
        missing = A2AError("TASK_NOT_FOUND", f"The agent {self._agent_id} has no task {task_id}.", taskId=task_id)
        if _TASK_ID.fullmatch(task_id) is None:
            raise missing
        try:
            command = await self._api.read(Command, f"/v1/commands/{task_id}")
        except GatewayRefusal as refusal:
            raise missing if refusal.kind.status == 404 else refusal from None
        if command.type != "execute" or command.target.agent_id != self._agent_id:
            raise missing
        return command

    async def _task(self, command: Command, history_length: int | None) -> dict[str, Any]:
        return task_of(command, await self._context(command), await self._waiting(command), self.origin,
                       history_length=history_length)

    async def _context(self, command: Command) -> str:
        session_id = command.target.session_id
        if session_id is None:  # Not open yet: only its key exists.
            return context_of(command.target.session_key, command.id)
        if command.target.session_key is not None:
            return context_of(command.target.session_key, session_id)
        if session_id not in self._contexts:
            session = await self._api.read(Session, f"/v1/sessions/{session_id}")
            self._contexts[session_id] = context_of(session.session_key, session_id)
        return self._contexts[session_id]

    async def _waiting(self, command: Command) -> list[Approval]:
        """Return the approvals of a command that wait for a person."""
        if STATES[command.state] in TERMINAL or command.target.session_id is None:
            return []
        return _of(command, await self._pending(session=command.target.session_id))

    async def _pending(self, **where: str | None) -> list[Approval]:
        return (await self._api.read(ApprovalPage, "/v1/approvals", state="pending", limit=PAGE_MAX, **where)).items

    async def _settled(self, command: Command) -> Command:
        """Wait until the task has ended or waits for a person."""
        if state_of(command, await self._waiting(command)) in TERMINAL | INTERRUPTED:
            return command
        async with self._api.events(f"/v1/commands/{command.id}/status") as events:
            async for name, _ in events:
                if name in ("state", "approval"):
                    command = await self._command(command.id)
                    if state_of(command, await self._waiting(command)) in TERMINAL | INTERRUPTED:
                        return command
        return await self._command(command.id)

    async def _updates(self, command: Command, since: str | None, history_length: int | None
                       ) -> AsyncGenerator[Update]:
        context = await self._context(command)
        waiting = await self._waiting(command)
        yield {"task": task_of(command, context, waiting, self.origin, history_length=history_length)}
        if state_of(command, waiting) in TERMINAL:
            return
        about = {"taskId": command.id, "contextId": context}
        shown, answer = status_of(command, waiting, self.origin), AnswerText()
        async with aclosing(self._merged(command, since)) as merged:
            async for source, event in merged:
                if source == "frames":
                    text = text_frame(event)
                    if text is not None and command.turn_id is None:
                        command = await self._command(command.id)
                    if piece := answer.piece(event, command.turn_id):
                        append = answer.text != piece
                        yield _artifact(about, artifact_of([text_part(piece)]), append=append)
                    continue
                command = await self._command(command.id)
                status = status_of(command, await self._waiting(command), self.origin)
                if status["state"] in TERMINAL:
                    break
                if (status["state"], status.get("message")) != (shown["state"], shown.get("message")):
                    shown = status
                    yield {"statusUpdate": {**about, "status": status}}
        command = await self._command(command.id)
        for artifact in artifacts_of(command):
            if artifact["artifactId"] != ANSWER or answer_text(artifact) != answer.text:
                yield _artifact(about, artifact, append=False, last=True)
        yield {"statusUpdate": {**about, "status": status_of(command, (), self.origin)}}

    async def _merged(self, command: Command, since: str | None) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
        """Yield the command's events and the frames of its session, as they arrive, until the command has ended.
        `since` is a cursor; "" starts at the session's present end, None with its first frame."""
        updates = asyncio.Queue[tuple[str, dict[str, Any]] | Exception | None](UPDATES_WAITING)
        status = self._api.events(f"/v1/commands/{command.id}/status")
        tasks = [asyncio.create_task(_pump("status", status, updates))]
        try:
            begun = False
            while True:
                if not begun and command.target.session_id is not None:
                    begun = True
                    place: dict[str, str | int | None] = {"last": 0} if since == "" else {"since": since}
                    frames = self._api.events(f"/v1/sessions/{command.target.session_id}/frames", **place)
                    tasks.append(asyncio.create_task(_pump("frames", frames, updates)))
                update = await updates.get()
                if update is None:
                    return
                if isinstance(update, Exception):
                    raise update
                if not begun:
                    command = await self._command(command.id)
                yield update
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(source: str, opened: Any, updates: asyncio.Queue[Any]) -> None:
    """Forward a stream's events; the end of the command's events ends both."""
    try:
        async with opened as events:
            async for name, data in _decoded(events):
                if source == "frames" or name in ("state", "approval"):
                    await updates.put((source, data))
        if source == "status":
            await updates.put(None)
    except A2AError as error:
        await updates.put(error)


async def _decoded(events: AsyncIterator[tuple[str, bytes]]) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
    async for name, data in events:
        yield name, msgspec.json.decode(data)


def _changed(command: Command) -> tuple[str, str]:
    return command.updated_at, command.id


def _of(command: Command, pending: list[Approval]) -> list[Approval]:
    """Return the approvals that a command waits for."""
    return [one for one in pending if one.command_id == command.id and STATES[command.state] not in TERMINAL]


def _not_taken(command: Command, state: str, origin: str, waiting: list[Approval]) -> str:
    if state == "TASK_STATE_AUTH_REQUIRED":
        place = waiting[0].id if waiting else command.approval_id
        return (f"The task {command.id} waits for an approval, and no message is a vote. A person answers at "
                f"{origin}/a/{place}.")
    if state in TERMINAL:
        return f"The task {command.id} has ended: {command.state}. Send a message with its context id alone."
    return (f"The task {command.id} asks for nothing. Send a message with its context id alone; it is worked on after "
            "this task.")


def _artifact(about: dict[str, Any], artifact: dict[str, Any], *, append: bool, last: bool = False) -> Update:
    return {"artifactUpdate": {**about, "artifact": artifact, "append": append, "lastChunk": last}}


def _digest(text: str) -> str:
    return hashlib.sha256(f"{SCOPE}\n{text}".encode()).hexdigest()[:32]
