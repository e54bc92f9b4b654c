"""`/acp`: the door of `interlock acp` over a WebSocket, for a client that cannot start processes (O-7).

The client authenticates as for any WebSocket of the gateway, by its key or by a ticket, and names an agent and a runner
in the query: `/acp?agent=ID&runner=ID`. It may do what its key may do over REST, since the door is a client of the REST
API with that very credential.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import NamedTuple
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from interlock.gateway.rest.app import RestApp
from interlock.protocol.identifiers import AGENT_ID
from interlock.protocol.problems import Place, Problem

PATHS = frozenset({"/acp", "/v1/acp"})
RUNNER_CHARS = 256
CONNECTION = "interlock.gateway.acp.connection"


class Selection(NamedTuple):
    """The agent and runner for the sessions of a connection; None is unspecified."""

    agent_id: str | None
    runner_id: str | None


class AcpEndpoint:
    """Serves the WebSockets at PATHS. `rest` is the REST API."""

    def __init__(self, rest: RestApp) -> None:
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, whose host and origin were already checked. Raises Problem before it is accepted."""
        async with self._rest.connection(scope) as opening:
            chosen = selection(scope["query_string"])
            # The SDK is loaded with the first client, off the event loop: most gateways have no client here.
            await asyncio.to_thread(import_module, CONNECTION)
            from interlock.gateway.acp.connection import serve_connection

            await serve_connection(self._rest, scope, receive, send, opening.lost, *chosen)


def selection(query: bytes) -> Selection:
    """Read the agent and the runner from the query of the URL. Raises Problem InvalidPayload."""
    found = dict[str, str]()
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in ("agent", "runner"):
            raise _invalid(name, f"There is no query parameter `{name}` here; known: agent, runner.")
        if name in found:
            raise _invalid(name, f"The query parameter `{name}` is there twice.")
        found[name] = value
    agent_id, runner_id = found.get("agent"), found.get("runner")
    if agent_id is not None and not AGENT_ID.fullmatch(agent_id):
        raise _invalid("agent", f"{agent_id!r} is not an agent's id.")
    if runner_id is not None and not 0 < len(runner_id) <= RUNNER_CHARS:
        raise _invalid("runner", f"A runner's id has 1 to {RUNNER_CHARS} characters.")
    return Selection(agent_id, runner_id)


def _invalid(name: str, sentence: str) -> Problem:
    return Problem("InvalidPayload", sentence, errors=(Place(name, "not accepted"),))
