"""Real ACP agents that a developer has installed, pointed at the tests' model server; no test needs them.

Each is looked for in the `bin` directory of INTERLOCK_TEST_LAB: a slow agent that happens to be on PATH is left alone.
It gets a home of its own and the settings of `interlock.probe.model_endpoint`, and is configured as `interlock agents`
prints it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.agents.known_agents import KNOWN, KnownAgent
from interlock.model_stand_in import ModelServer
from interlock.ports.agent import AgentSpec
from interlock.probe.model_endpoint import pointing_of
from interlock.probe.scratch import furnish

LAB_VARIABLE = "INTERLOCK_TEST_LAB"
DRIVEN = ("claude-acp", "codex-acp", "gemini", "kimi", "opencode", "pi", "qwen")
"""The agents whose whole sessions are driven by tests/agents/test_lab_agents.py."""


def lab_path() -> str | None:
    """A PATH with the lab's programs in front; None without a lab."""
    lab = os.environ.get(LAB_VARIABLE)
    return f"{lab}/bin:" + os.environ.get("PATH", os.defpath) if lab else None


def lab_program(known: KnownAgent) -> str:
    """The agent's program in the lab; skips the test if it is not there."""
    lab = os.environ.get(LAB_VARIABLE)
    command = shutil.which(known.program, path=f"{lab}/bin") if lab else None
    if command is None:
        pytest.skip(f"the agent {known.agent_id} is optional: name a directory with bin/{known.program} in "
                    f"{LAB_VARIABLE}")
    return command


def known_agent(name: str) -> KnownAgent:
    """The line of the table of known agents."""
    return next(one for one in KNOWN if one.agent_id == name)


def configured(name: str, env: Mapping[str, str] | None = None) -> AgentSpec:
    """The agent of the lab as `interlock agents` prints it, with `env` added; skips the test if it is not there."""
    known = known_agent(name)
    command = lab_program(known)
    more: dict[str, Any] = {"mode": known.mode} if known.mode else {}
    return AgentSpec(adapter=known.adapter, command=command, args=list(known.args), asks=known.asks,
                     env={"PATH": lab_path() or "", **(env or {}), **known.env}, **more)


def lab_agent(name: str, home: Path, server: ModelServer) -> AgentSpec:
    """The agent as it is configured, using the tests' model server; skips the test if its program is not there."""
    spec = configured(name)
    pointing = pointing_of(spec.adapter, spec.command)
    furnish(home, {}, pointing.files(server.url))
    env = {"HOME": str(home), **pointing.env(server.url), **spec.env}
    return AgentSpec(adapter=spec.adapter, command=spec.command, args=[*spec.args, *pointing.args], asks=spec.asks,
                     env=env, mode=spec.mode)
