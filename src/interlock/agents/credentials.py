"""Which credentials of the runner's environment an agent gets (Y-12). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from interlock.agents.model_hosts import PROGRAMS, PROVIDERS
from interlock.ports.agent import AgentSpec

ANY_PROVIDER = frozenset({"goose", "opencode", "kilo", "hermes-acp", "pi-acp", "cline"})
"""Programs that take the key of any provider."""


def not_passed_on(spec: AgentSpec, environment: Mapping[str, str]) -> list[str]:
    """Return the variables with a key that the agent's program could use, that are set in this environment, and that
    the agent does not get: it has them neither in `env` nor in `env_pass`."""
    program = PurePath(spec.command).name or spec.adapter
    hosts = set(PROGRAMS.get(program, ()))
    names = [name for provider in PROVIDERS if program in ANY_PROVIDER or hosts.intersection(provider.hosts)
             for name in provider.keys]
    return [name for name in names if environment.get(name) and name not in spec.env and name not in spec.env_pass]


def not_set(spec: AgentSpec, environment: Mapping[str, str]) -> list[str]:
    """Return the variables that are to be passed on, and are not set in this environment."""
    return [name for name in spec.env_pass if not environment.get(name)]
