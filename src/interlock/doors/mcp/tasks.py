"""MCP's tasks (extension `io.modelcontextprotocol/tasks`): a command as a task of the protocol itself (O-8).

A client that declares the extension gets a task from `start_task`, polls it with `tasks/get` and ends it with
`tasks/cancel`. A pending approval is an input request with the link to the page that decides: the client's answer to it
is received and decides nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestURLParams,
    RequestParams,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from interlock.doors.mcp.tools import TERMINAL, GatewayTools, Members, explained
from interlock.sdk import InterlockError
from interlock.sdk.problems import Refused

Context = ServerRequestContext[Any, Any]
IDENTIFIER = "io.modelcontextprotocol/tasks"
POLL_MS = 2_000
"""The polling interval that clients are asked to respect."""
STARTS = "start_task"
"""The tool whose result is a task."""
_VERSIONS = frozenset(MODERN_PROTOCOL_VERSIONS)


class TaskParams(RequestParams):
    """Parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str = Field(alias="taskId", max_length=200)


class TaskUpdateParams(TaskParams):
    """Parameters of `tasks/update`."""

    input_responses: dict[str, Any] = Field(alias="inputResponses")


class GatewayTasks(Extension):
    """The extension over the tools of a gateway."""

    identifier = IDENTIFIER

    def __init__(self, tools: Callable[[], GatewayTools]) -> None:
        self._tools = tools

    def methods(self) -> Sequence[MethodBinding]:
        """Return the three methods of the extension."""
        return (MethodBinding("tasks/get", TaskParams, self._get, _VERSIONS),
                MethodBinding("tasks/update", TaskUpdateParams, self._update, _VERSIONS),
                MethodBinding("tasks/cancel", TaskParams, self._cancel, _VERSIONS))

    async def intercept_tool_call(self, params: CallToolRequestParams, ctx: Context, call_next: CallNext
                                  ) -> HandlerResult:
        """Return a started command as a task to a client that declares the extension."""
        result = await call_next(ctx)
        if (params.name != STARTS or ctx.protocol_version not in _VERSIONS or not _declares(ctx)
                or not isinstance(result, CallToolResult) or result.is_error):
            return result
        started: Members = result.structured_content or {}
        task = await self._tools().task_status(started["task"])
        return {**_common(task, _status(task, _shows_pages(ctx))), "resultType": "task"}

    async def _get(self, ctx: Context, params: TaskParams) -> HandlerResult:
        task = await self._task(ctx, params)
        status = _status(task, _shows_pages(ctx))
        shown = _common(task, status)
        if status == "input_required":
            shown["inputRequests"] = {one["approval"]: _request(one) for one in task["waits_for_a_person"]}
        elif status == "completed":
            shown["result"] = _result(task)
        return shown

    async def _update(self, ctx: Context, params: TaskUpdateParams) -> HandlerResult:
        """Acknowledge responses. They report that a person has opened a page, or refused; the page decides."""
        await self._task(ctx, params)
        return {}

    async def _cancel(self, ctx: Context, params: TaskParams) -> HandlerResult:
        task = await self._task(ctx, params)
        if task["state"] not in TERMINAL:
            await _known(self._tools().steer_task(params.task_id, "cancel"))
        return {}

    async def _task(self, ctx: Context, params: TaskParams) -> Members:
        """Return a task's current state. Raises MCPError if the client lacks the extension, or there is no task."""
        if not _declares(ctx):
            required: Members = {"requiredCapabilities": {"extensions": {IDENTIFIER: {}}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY,
                           f"The client does not declare the extension {IDENTIFIER}.", required)
        return await _known(self._tools().task_status(params.task_id))


async def _known(work: Awaitable[Members]) -> Members:
    """Return an answer of the gateway. Raises MCPError for a refusal."""
    try:
        return await work
    except Refused as refused:
        raise MCPError(INVALID_PARAMS, explained(refused), {"code": refused.code}) from None
    except InterlockError as error:
        raise MCPError(INTERNAL_ERROR, str(error)) from None


def _declares(ctx: Context) -> bool:
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and IDENTIFIER in (capabilities.extensions or {})


def _shows_pages(ctx: Context) -> bool:
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    return elicitation is not None and elicitation.url is not None


def _status(task: Members, shows_pages: bool) -> str:
    """Return the status in MCP's terms. A command that failed is a completed task whose result is an error: `failed` is
    only for errors of JSON-RPC."""
    if task["state"] == "canceled":
        return "cancelled"
    if task["state"] in TERMINAL:
        return "completed"
    return "input_required" if shows_pages and task.get("waits_for_a_person") else "working"


def _common(task: Members, status: str) -> Members:
    waits = [f"{one['what']}: a person decides at {one['a_person_decides_at']}."
             for one in task.get("waits_for_a_person", ())]
    message = " ".join(waits) or task["state"].replace("_", " ")
    return {"taskId": task["task"], "status": status, "statusMessage": message, "createdAt": task["created_at"],
            "lastUpdatedAt": task["updated_at"], "ttlMs": None, "pollIntervalMs": POLL_MS}


def _request(waiting: Members) -> Members:
    params = ElicitRequestURLParams(message=f"{waiting['what']} waits for your decision.",
                                    url=waiting["a_person_decides_at"])
    return ElicitRequest(params=params).model_dump(by_alias=True, mode="json", exclude_none=True)


def _result(task: Members) -> Members:
    text = task.get("answer") or task.get("error") or task["state"].replace("_", " ")
    result = CallToolResult(content=[TextContent(text=text)], structured_content=task,
                            is_error=task["state"] != "succeeded")
    return result.model_dump(by_alias=True, mode="json", exclude_none=True)
