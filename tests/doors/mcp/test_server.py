"""The MCP server's answers: a refusal of the gateway is an error of the tool (O-8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlock.sdk.problems import NotFound, ProblemBody

if TYPE_CHECKING:
    from interlock.doors.mcp.tools import GatewayTools

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-8"), pytest.mark.needs("mcp")]


@pytest.mark.parametrize("detail", ["there is no command c1", "there is no command c1."])
async def test_a_refusal_and_its_remedy_are_two_sentences(detail: str) -> None:
    from mcp.server.mcpserver.exceptions import ToolError

    from interlock.doors.mcp.server import _answered

    async def refused() -> None:
        raise NotFound(ProblemBody(code="NotFound", title="Not found", status=404, detail=detail, hint="List them."))

    with pytest.raises(ToolError) as raised:
        await _answered(refused())
    assert str(raised.value) == "NotFound: there is no command c1. List them."


@pytest.mark.parametrize(("hint", "shown"), [
    ("List them with `GET /v1/sessions`.", "List them with `list_sessions`."),
    ("List them with `GET /v1/sessions/{id}/tree`.", "List them with `read_transcript`."),
    ("See `interlock agents`; add it to the config.", "See `list_agents`; add it to the config."),
    ("List them with `GET /v1/commands`.", "Name the id of a task as start_task returned it."),
    ("List them with `GET /v1/keys`.", "List them with `GET /v1/keys`."),
    ("Try again after `Retry-After`.", "Try again in a few seconds.")])
async def test_a_remedy_names_the_tool_that_a_model_can_call(hint: str, shown: str) -> None:
    from mcp.server.mcpserver.exceptions import ToolError

    from interlock.doors.mcp.server import _answered

    async def refused() -> None:
        raise NotFound(ProblemBody(code="NotFound", detail="There is none.", hint=hint))

    with pytest.raises(ToolError) as raised:
        await _answered(refused())
    assert str(raised.value) == f"NotFound: There is none. {shown}"


async def test_each_tool_that_a_remedy_names_is_offered() -> None:
    from interlock.doors.mcp.server import make_server
    from interlock.doors.mcp.tools import LISTED

    def unreached() -> GatewayTools:
        raise AssertionError("Listing the tools reaches no gateway.")

    offered = {tool.name for tool in await make_server(unreached).list_tools()}
    assert set(LISTED.values()) | {"start_task"} <= offered


async def test_an_invalid_argument_is_named_with_the_valid_form() -> None:
    from mcp.server.mcpserver.exceptions import ToolError

    from interlock.doors.mcp.server import make_server

    def unreached() -> GatewayTools:
        raise AssertionError("A call that does not fit reaches no gateway.")

    with pytest.raises(ToolError) as raised:
        await make_server(unreached).call_tool("steer_task", {"task": "cmd_1", "how": "stop"})
    assert str(raised.value) == "steer_task was not called. `how` must be 'pause', 'resume' or 'cancel', not 'stop'."
