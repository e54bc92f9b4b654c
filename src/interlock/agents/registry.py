"""The adapters for each kind of agent (A-7): names and features only; an adapter is imported when an agent opens."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from interlock.agents import mcp_servers
from interlock.agents.builtin.choice import KEY_NAMES, why_not
from interlock.ports.agent import Agent, AgentSpec, AgentStartFailed, Secrets
from interlock.ports.process import Spawn
from interlock.protocol.extras import install
from interlock.protocol.hold import Holding
from interlock.protocol.payloads import AgentOffer


class Adapter(NamedTuple):
    """One adapter: the path of its class, which takes a `Spawn`, and its agents' entries in hello (L-4)."""

    place: str
    adapter_type: Literal["process", "sdk"]
    permission: Literal["asks", "never"]
    context_owner: Literal["agent", "gateway"]
    access: tuple[Literal["rw", "ro", "none"], ...]
    """The values of `workspace_access` that can be enforced for its agents."""
    trusted_kinds: bool = False
    """The tools and their kinds are ours: policy may trust them."""
    keys: tuple[str, ...] = ()
    """Variables of the runner's environment with secrets of the adapter itself; no process gets them (A-1)."""


ADAPTERS: dict[str, Adapter] = {
    "acp": Adapter("interlock.agents.acp.agent:AcpAgent", "process", "asks", "agent", ("rw", "ro")),
    "dps": Adapter("interlock.agents.dps.agent:DpsAgent", "process", "asks", "agent", ("rw", "ro")),
    "claude": Adapter("interlock.agents.claude.agent:ClaudeAgent", "sdk", "asks", "agent", ("rw", "ro")),
    "builtin": Adapter("interlock.agents.builtin.agent:BuiltinAgent", "sdk", "asks", "gateway", ("rw", "ro", "none"),
                       trusted_kinds=True, keys=KEY_NAMES),
    "exec": Adapter("interlock.agents.exec.agent:ExecAgent", "process", "never", "agent", ("rw",)),
}

UNKNOWN = Adapter("", "process", "never", "agent", ())
"""Placeholder for an unknown adapter, in the report of an agent that names it."""
SHELL = AgentSpec(adapter="acp", command=sys.executable, args=["-m", "interlock.shell_agent"], name="Interlock shell")
"""Our own agent without a model: always present, unless the config defines another `shell`."""
BUILTIN = AgentSpec(adapter="builtin")
"""Our own agent with a model (B-1): present for users with an API key, unless the config defines another `builtin`."""


def with_builtin(agents: Mapping[str, AgentSpec]) -> dict[str, AgentSpec]:
    """Return the configured agents, `shell` and `builtin`."""
    return {"shell": SHELL, "builtin": BUILTIN, **agents}


def offers(agents: Mapping[str, AgentSpec], environment: Mapping[str, str] | None = None,
           holdings: Mapping[str, Holding] | None = None) -> list[AgentOffer]:
    """Return the hello's entry for each agent; one with an unknown adapter has the reason why it cannot start.
    `environment` is the runner's own, on whose PATH programs are searched. `holdings` has how each is held."""
    found: list[AgentOffer] = []
    for agent_id, spec in agents.items():
        adapter = ADAPTERS.get(spec.adapter, UNKNOWN)
        found.append(AgentOffer(
            agent_id=agent_id, adapter=spec.adapter, adapter_type=adapter.adapter_type,
            permission=adapter.permission if spec.asks else "never", context_owner=adapter.context_owner,
            trusted_kinds=spec.trusted_kinds or adapter.trusted_kinds,
            roots=spec.roots, unavailable=_why_not(agent_id, spec, environment or {}),
            holding=(holdings or {}).get(agent_id),
        ))
    return found


def _why_not(agent_id: str, spec: AgentSpec, environment: Mapping[str, str]) -> str | None:
    """Return why an agent will not start, if that can be seen beforehand."""
    if spec.adapter not in ADAPTERS:
        return f"there is no adapter {spec.adapter!r}; choose one of: {', '.join(sorted(ADAPTERS))}"
    if spec.adapter == "claude" and importlib.util.find_spec("claude_agent_sdk") is None:
        return f"the Claude Agent SDK is not installed on the runner; run: {install('agents')}"
    if spec.adapter == "builtin":
        if importlib.util.find_spec("pydantic_ai") is None:
            return f"pydantic-ai is not installed on the runner; run: {install('agent')}"
        return why_not(spec, keys_of(spec, environment))
    if lacks_command(spec):
        return f"it has no command; set `command` in [agents.{agent_id}]"
    path = spec.env.get("PATH") or environment.get("PATH") or os.defpath
    is_below_workspace = "/" in spec.command and not spec.command.startswith("/")  # It is searched from there.
    if spec.command and not is_below_workspace and shutil.which(spec.command, path=path) is None:
        return f"its program {spec.command!r} is not on the runner; install it, or correct [agents.{agent_id}]"
    return mcp_servers.why_not(agent_id, spec, environment, path)


def lacks_command(spec: AgentSpec) -> bool:
    """Return whether an agent cannot start because its adapter starts a program and its config names none."""
    adapter = ADAPTERS.get(spec.adapter)
    return adapter is not None and adapter.adapter_type == "process" and not spec.command


def keys_of(spec: AgentSpec, environment: Mapping[str, str]) -> Secrets:
    """Return the secrets that an adapter itself needs: from the agent's `env`, else from the runner's environment."""
    adapter = ADAPTERS.get(spec.adapter)
    names = (*adapter.keys, spec.api_key_env) if adapter is not None and adapter.keys else ()
    found = {name: spec.env.get(name) or environment.get(name, "") for name in names if name}
    return Secrets({name: value for name, value in found.items() if value})


def make_agent(spec: AgentSpec, spawn: Spawn) -> Agent:
    """Import the adapter and create an agent. Raises AgentStartFailed for an unknown name."""
    adapter = ADAPTERS.get(spec.adapter)
    if adapter is None:
        known = ", ".join(sorted(ADAPTERS))
        raise AgentStartFailed(f"There is no adapter {spec.adapter!r}; choose one of: {known}.")
    module, _, name = adapter.place.partition(":")
    made: Any = getattr(importlib.import_module(module), name)
    return made(spawn)
