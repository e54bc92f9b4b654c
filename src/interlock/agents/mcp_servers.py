"""MCP servers of the config, for one conversation of an agent (Y-13). Pure except for the search on PATH."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from interlock.ports.agent import AgentSpec, AgentStartFailed, McpServer, Secrets
from interlock.ports.mcp_spec import McpSpec


class _Unavailable(Exception):
    """Raised if a server is not available; the text is a clause with the remedy."""


def servers_of(agent_id: str, spec: AgentSpec, environment: Mapping[str, str], path: str | None) -> \
        tuple[McpServer, ...]:
    """Return the servers of an agent's config, with secrets from the runner's `environment` and programs found on the
    agent's own `path`. Raises AgentStartFailed for one that is not available."""
    try:
        return _servers(agent_id, spec, environment, path)
    except _Unavailable as reason:
        raise AgentStartFailed(f"The agent {agent_id} cannot start: {reason}.") from None


def why_not(agent_id: str, spec: AgentSpec, environment: Mapping[str, str], path: str | None) -> str | None:
    """Return why a server of an agent is not available, as a clause with what to do; None if all are."""
    try:
        _servers(agent_id, spec, environment, path)
    except _Unavailable as reason:
        return str(reason)
    return None


def _servers(agent_id: str, spec: AgentSpec, environment: Mapping[str, str], path: str | None) -> \
        tuple[McpServer, ...]:
    return tuple(_server(f"{agent_id}.mcp.{name}", name, one, environment, path) for name, one in spec.mcp.items())


def _server(table: str, name: str, spec: McpSpec, environment: Mapping[str, str], path: str | None) -> McpServer:
    if missing := not_set(spec, environment):
        raise _Unavailable(f"its MCP server {name} needs {', '.join(missing)}, which the runner was started without; "
                           "set it where `interlock up` or `interlock runner` is started and start that again, or "
                           f"change [agents.{table}]")
    if spec.url:
        secret = {header: environment[variable] for header, variable in spec.header_env.items()}
        return McpServer(name, url=spec.url, headers=Secrets({**spec.headers, **secret}))
    program = program_of(spec, path)
    if program is None:
        raise _Unavailable(f"{spec.command}, the program of its MCP server {name}, is not on PATH; install it, or "
                           f"correct `command` in [agents.{table}]")
    passed = {variable: environment[variable] for variable in spec.env_pass}
    return McpServer(name, program, tuple(spec.args), Secrets({**spec.env, **passed}))


def not_set(spec: McpSpec, environment: Mapping[str, str]) -> list[str]:
    """Return the variables that a server's secrets come from, and that are not set."""
    return [name for name in (*spec.env_pass, *spec.header_env.values()) if not environment.get(name)]


def program_of(spec: McpSpec, path: str | None) -> str | None:
    """Return a server's program as an absolute path; None if it is not found. The agent's directory is a repository of
    unknown origin, so it is not searched, nor is any relative part of PATH."""
    absolute = [one for one in (path or os.defpath).split(os.pathsep) if one.startswith("/")]
    return shutil.which(spec.command, path=os.pathsep.join(absolute))


def summary(spec: McpSpec) -> str:
    """Describe a server in a few words, without values of variables and headers."""
    return spec.url or " ".join((spec.command, *spec.args))
