"""The configs of push notifications in A2A's methods, and the roles that may set them (O-9)."""

from __future__ import annotations

import hashlib
from typing import Any

from interlock.gateway.a2a.internal_api import InternalApi
from interlock.gateway.a2a.task_pushes import TaskPushes
from interlock.gateway.a2a.task_view import STATES, TERMINAL
from interlock.gateway.a2a.wire import A2AError, GatewayRefusal, PushConfig
from interlock.ports.outbound_http import UrlRefused
from interlock.protocol.access import Whoami
from interlock.protocol.api.operation import OPERATORS
from interlock.protocol.records import TaskPush
from interlock.protocol.resources import Command


class PushConfigs:
    """The configs for one request. A principal that may command agents may have the gateway send requests."""

    def __init__(self, api: InternalApi, pushes: TaskPushes | None, origin: str) -> None:
        self._api = api
        self._pushes = pushes
        self._origin = origin

    async def check(self, config: PushConfig) -> None:
        """Check a config before its task begins. Raises A2AError."""
        pushes = self._served()
        await self._me()
        try:
            pushes.sender.check(config.url)
        except UrlRefused as refused:
            raise A2AError("INVALID_PARAMS", f"`url` is not one that this gateway sends to: {refused}") from None

    async def put(self, command: Command, config: PushConfig) -> dict[str, Any]:
        """Store a checked config; it replaces one with the same id. Raises A2AError, Problem."""
        if STATES[command.state] in TERMINAL:
            raise A2AError("UNSUPPORTED_OPERATION", f"The task {command.id} has ended: {command.state}. Get it.")
        config_id = config.id or hashlib.sha256(config.url.encode()).hexdigest()[:16]
        receiver = config.authentication
        me = await self._me()
        push = TaskPush(config_id=config_id, task_id=command.id, url=config.url, origin=self._origin,
                        key_id=me.key_id, token=config.token, scheme=receiver.scheme if receiver else "",
                        credentials=receiver.credentials if receiver else "")
        await self._served().put(_named(me), command, push)
        return _shown(push)

    async def get(self, command: Command, config_id: str) -> dict[str, Any]:
        """Return a config. Raises A2AError."""
        for one in await self._found(command):
            if one.config_id == config_id:
                return _shown(one)
        raise _missing(command, config_id)

    async def listed(self, command: Command) -> dict[str, Any]:
        """Return a task's configs. Raises A2AError."""
        return {"configs": [_shown(one) for one in await self._found(command)], "nextPageToken": ""}

    async def delete(self, command: Command, config_id: str) -> None:
        """Delete a config; a missing one counts as deleted. Raises A2AError."""
        await self._served().delete(_named(await self._me()), command, config_id)

    async def _found(self, command: Command) -> list[TaskPush]:
        await self._me()
        return await self._served().listed(command.tenant_id, command.id)

    def _served(self) -> TaskPushes:
        if self._pushes is None:
            raise A2AError("PUSH_NOTIFICATION_NOT_SUPPORTED", "This gateway sends no push notifications. "
                           "Subscribe to the task.")
        return self._pushes

    async def _me(self) -> Whoami:
        """Return the client. Raises A2AError for a role that cannot command agents."""
        me = await self._api.read(Whoami, "/v1/whoami")
        if OPERATORS.isdisjoint(me.roles):
            raise GatewayRefusal(403, "Forbidden", f"The role {'+'.join(me.roles)} may not have notifications sent; "
                                 f"{', '.join(sorted(OPERATORS))} may.")
        return me


def _named(me: Whoami) -> dict[str, str]:
    """Return the client as the audit log names it."""
    return {"id": f"{me.principal.type}:{me.principal.id}", "role": "+".join(me.roles)}


def _shown(push: TaskPush) -> dict[str, Any]:
    """Return a config without its token and credentials, which are sent to its URL alone."""
    shown: dict[str, Any] = {"id": push.config_id, "taskId": push.task_id, "url": push.url}
    if push.scheme:
        shown["authentication"] = {"scheme": push.scheme}
    return shown


def _missing(command: Command, config_id: str) -> A2AError:
    return A2AError("TASK_NOT_FOUND", f"The task {command.id} has no push notification config {config_id}.",
                    taskId=command.id)
