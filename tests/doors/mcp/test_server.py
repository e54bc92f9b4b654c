"""The MCP server's answers: a refusal of the gateway is an error of the tool (O-8)."""

from __future__ import annotations

import pytest

from interlock.sdk.problems import NotFound, ProblemBody

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
