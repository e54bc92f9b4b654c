"""Three gateways, of which one runs an hour ahead and one an hour behind: every time that is shown is the ledger's."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from interlock.protocol.clock import parse_iso
from proof.processes.cluster import ClusterStack
from proof.processes.gateways import GATEWAYS
from proof.processes.skewed_gateway import JUMP_NAME
from proof.sessions.timers import HOUR_MS

pytestmark = pytest.mark.long

APART_MS = (HOUR_MS, -HOUR_MS, 0)
"""How wrong the clock of each gateway is."""
NEAR_MS = 120_000
"""A time counts as an hour off within this tolerance; no shown time is intentionally that far off."""
PATHS = ("/v1/status", "/v1/sessions", "/v1/commands", "/v1/approvals", "/v1/runners", "/v1/edge/nodes",
         "/v1/keys", "/v1/usage", "/v1/audit")


def times(value: Any, place: str) -> Iterator[tuple[str, int]]:
    """Yield each time in an answer, in milliseconds since 1970, with its path."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from times(one, f"{place}.{name}")
    elif isinstance(value, list):
        for one in value:
            yield from times(one, place)
    elif isinstance(value, str) and value[4:5] == "-" and value.endswith("Z"):
        yield place, parse_iso(value)
    elif isinstance(value, int) and value > 1_500_000_000_000:
        yield place, value


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterStack]:
    stack = ClusterStack(tmp_path_factory.mktemp("clocks"), module="proof.processes.skewed_gateway", runners=1)
    for number, off_ms in enumerate(APART_MS):
        (stack.gateways.home(number) / JUMP_NAME).write_text(str(off_ms))
    try:
        stack.up()
        yield stack
    finally:
        stack.down()


def ask(stack: ClusterStack, number: int, method: str, path: str, body: Any = None) -> Any:
    """Ask one gateway."""
    answer = httpx2.request(method, stack.gateways.url(number) + path, json=body, timeout=30,
                            headers={**stack.headers, "Idempotency-Key": secrets.token_hex(8)})
    assert answer.status_code < 300, answer.text
    return answer.json()


def done(stack: ClusterStack, number: int) -> str:
    """Have a gateway take a command in whose tool call the next gateway allows; returns its session."""
    command = ask(stack, number, "POST", "/v1/commands", {
        "type": "execute", "target": {"agent_id": "shell", "workspace": str(stack.workspace),
                                      "session_key": f"agent:shell:clock-{number}"},
        "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": "echo here"}]}]}})

    def pending() -> list[Any]:
        found = ask(stack, number, "GET", "/v1/approvals?state=pending")["items"]
        return [one for one in found if one["session_id"] == command["target"]["session_id"]]

    stack.until(pending)
    [approval] = pending()
    ask(stack, (number + 1) % GATEWAYS, "POST", f"/v1/approvals/{approval['id']}/grants",
        {"decision": "grant", "digest": approval["digest"]})
    stack.until(lambda: ask(stack, number, "GET", f"/v1/commands/{command['id']}")["state"] == "succeeded")
    return str(command["target"]["session_id"])


@pytest.mark.req("C-1", "C-4")
def test_every_time_that_a_gateway_shows_comes_from_the_ledger(stack: ClusterStack) -> None:
    began_ms = time.time() * 1000
    sessions = [done(stack, number) for number in range(GATEWAYS)]
    paths = [*PATHS, *(f"/v1/sessions/{one}" for one in sessions), *(f"/v1/sessions/{one}/history" for one in sessions)]
    seen, wrong = set[str](), set[str]()
    for number in range(GATEWAYS):
        for path in paths:
            for place, at_ms in times(ask(stack, number, "GET", path), path.partition("?")[0]):
                seen.add(place)
                off_ms = abs(at_ms - began_ms)
                if abs(off_ms - HOUR_MS) < NEAR_MS:
                    wrong.add(f"gateway {number}: {place} is {at_ms - began_ms:.0f} ms off")
    assert wrong == set()
    assert len(seen) > 10, "times were shown at all"
    lines = list(stack.lines("/v1/audit/export"))
    records = [json.loads(line) for line in lines]
    assert [place for one in records for place, at_ms in times(one, "audit")
            if abs(abs(at_ms - began_ms) - HOUR_MS) < NEAR_MS] == []
