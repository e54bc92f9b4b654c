"""A client of gateways that die: it repeats a request under the same key until there is a final answer."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import httpx2

from proof.processes.cluster import ClusterStack

PATIENCE_S = 60.0
http = httpx2.Client(limits=httpx2.Limits(max_keepalive_connections=0), timeout=30)
"""Any gateway may be killed during a request: each request has its own connection."""


def repeat_until_answered(ask: Callable[[], httpx2.Response]) -> httpx2.Response:
    """Repeat a request until any gateway gives a final answer. Raises TimeoutError after PATIENCE_S."""
    until = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(httpx2.TransportError):
            answer = ask()
            again = answer.status_code == 409 and answer.json().get("retryable")
            if answer.status_code < 500 and not again:
                return answer
        if time.monotonic() > until:
            raise TimeoutError("no gateway gave a final answer")
        time.sleep(0.05)


def execute(stack: ClusterStack, lane: int, prompt: str, key: str, timeout_ms: int) -> str:
    """Give the agent of a lane's session a prompt; gives the command's id. Raises AssertionError for a refusal."""
    body = {"type": "execute", "timeout_ms": timeout_ms,
            "target": {"agent_id": "scripted", "session_key": f"agent:scripted:lane-{lane}",
                       "workspace": str(stack.workspace), **stack.target(lane)},
            "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": prompt}]}]}}
    answer = repeat_until_answered(lambda: stack.post("/v1/commands", body, key))
    if answer.status_code != 202:
        raise AssertionError(f"{prompt}: {answer.status_code} {answer.text}")
    return str(answer.json()["id"])


def state_of(stack: ClusterStack, command_id: str, at: str | None = None) -> str:
    """A command's state, from one gateway or any live one."""
    return str(repeat_until_answered(lambda: http.get(f"{at or stack.url}/v1/commands/{command_id}",
                                                      headers=stack.headers)
                      ).json()["state"])


def until_state(stack: ClusterStack, command_id: str, wanted: Callable[[str], bool]) -> str:
    """Wait until a command is in such a state, or for PATIENCE_S."""
    until = time.monotonic() + PATIENCE_S
    while not wanted(state := state_of(stack, command_id)) and time.monotonic() < until:
        time.sleep(0.02)
    return state
