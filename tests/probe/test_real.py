"""A check of real agents: goose, and those of a developer's lab."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime

import pytest

from agents.lab import LAB_VARIABLE
from installed import require
from interlock.agents.evidence import Evidence
from interlock.cli.known_agents import KNOWN
from interlock.ports.agent import AgentSpec
from interlock.probe.check import check

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 11, 22, tzinfo=UTC)


async def checked(command: str, name: str, path: str, **env: str) -> Evidence:
    known = next(one for one in KNOWN if one.agent_id == name)
    spec = AgentSpec(adapter="acp", command=command, args=list(known.args), env={"PATH": path, **known.env, **env},
                     mode=known.mode)
    return await check(name, spec, os.environ, NOW)


@pytest.mark.needs("goose")
@pytest.mark.parametrize("mode", ["approve", "auto"])
async def test_goose_asks_in_the_mode_that_interlock_sets_and_not_in_its_own(mode: str) -> None:
    command, path = str(require("goose")), os.environ.get("PATH", os.defpath)
    spec = AgentSpec(adapter="acp", command=command, args=["acp"], env={"PATH": path, "GOOSE_MODE": mode})
    found = await check("goose", spec, os.environ, NOW)

    assert found.mode == mode
    assert found.verdict == ("asks" if mode == "approve" else "command")
    assert found.seconds < 30


@pytest.mark.parametrize("name", ["codex-acp", "gemini", "opencode"])
async def test_an_agent_of_the_lab_asks_as_it_is_set_up(name: str) -> None:
    lab = os.environ.get(LAB_VARIABLE)
    command = shutil.which(next(one for one in KNOWN if one.agent_id == name).program, path=f"{lab}/bin") if lab else ""
    if not command:
        pytest.skip(f"the agent {name} is optional: name a directory with its program in bin/ in {LAB_VARIABLE}")
    found = await checked(command, name, f"{lab}/bin:{os.environ.get('PATH', os.defpath)}")

    assert (found.verdict, found.seconds < 30) == ("asks", True)
