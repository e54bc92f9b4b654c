"""A check of real agents: goose, and those of a developer's lab."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import pytest

from agents.lab import configured
from installed import require
from interlock.ports.agent import AgentSpec
from interlock.probe.check import check

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.mark.req("H-10", "H-11")
@pytest.mark.needs("goose")
@pytest.mark.parametrize(("own", "configured_mode", "opened_in", "verdict"), [
    ("approve", "", "approve", "asks"), ("auto", "", "approve", "asks"), ("approve", "auto", "auto", "command"),
])
async def test_goose_is_put_into_the_mode_that_asks_unless_its_config_names_another(
    own: str, configured_mode: str, opened_in: str, verdict: str
) -> None:
    command, path = str(require("goose")), os.environ.get("PATH", os.defpath)
    spec = AgentSpec(adapter="acp", command=command, args=["acp"], env={"PATH": path, "GOOSE_MODE": own},
                     mode=configured_mode)
    found = await check("goose", spec, os.environ, NOW)

    assert (found.mode, found.verdict) == (opened_in, verdict)
    assert found.seconds < 30
    if verdict == "asks":
        assert {one.tool: one.state for one in found.tools}["MCP tool"] == "asked"


@pytest.mark.parametrize("name", ["codex-acp", "gemini", "opencode"])
async def test_an_agent_of_the_lab_asks_as_it_is_set_up(name: str) -> None:
    found = await check(name, configured(name), os.environ, NOW)

    assert (found.verdict, found.seconds < 30) == ("asks", True)
