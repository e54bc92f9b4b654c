"""Choose the credentials of the runner's environment that an agent gets (Y-12). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from interlock.agents.model_hosts import PROGRAMS, PROVIDERS
from interlock.ports.agent import AgentSpec

ANY_PROVIDER = frozenset({"goose", "opencode", "kilo", "hermes-acp", "pi-acp", "cline"})
"""Programs that accept the key of any provider."""

_ABOUT_CREDENTIALS = re.compile(
    r"api[ _-]?key|credential|authenticat|authori[sz]ation|unauthori[sz]ed|log(?:ged)?[ -]?in\b|\b401\b|auth[ _-]token",
    re.IGNORECASE)


def remark_on(failure: str, agent_id: str, left_out: Sequence[str]) -> str:
    """Return the remedy for an agent's failure that mentions credentials, if keys that it could use are set for the
    runner and `left_out` of the agent's environment; "" for any other failure."""
    if not left_out or _ABOUT_CREDENTIALS.search(failure) is None:
        return ""
    names = ", ".join(left_out)
    line = "env_pass = [" + ", ".join(f'"{name}"' for name in left_out) + "]"
    return f"{names} is set here, not passed on; if the agent needs it, write in [agents.{agent_id}]: {line}."


def not_passed_on(spec: AgentSpec, environment: Mapping[str, str]) -> list[str]:
    """Return the variables with a key that the agent's program could use, that are set in this environment, and that
    the agent does not get: they are neither in its `env` nor in its `env_pass`."""
    program = PurePath(spec.command).name or spec.adapter
    hosts = set(PROGRAMS.get(program, ()))
    names = [name for provider in PROVIDERS if program in ANY_PROVIDER or hosts.intersection(provider.hosts)
             for name in provider.keys]
    return [name for name in names if environment.get(name) and name not in spec.env and name not in spec.env_pass]


def not_set(spec: AgentSpec, environment: Mapping[str, str]) -> list[str]:
    """Return the variables that should be passed on, and are not set in this environment."""
    return [name for name in spec.env_pass if not environment.get(name)]
