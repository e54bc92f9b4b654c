"""A gateway whose clock is set by hours while it works: people are notified, counted and shown times as before."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from end_to_end.receiver import Receiver, receiving
from end_to_end.tasks import body, new_key
from interlock.protocol.clock import parse_iso
from interlock.protocol.limits import DAY_MS
from proof.processes.skewed_gateway import JUMP_NAME
from proof.processes.stack import Stack

HOUR_MS = 3_600_000
HOOK_SECRET = "a secret of a hook, long enough"
NEAR_MS = 120_000
"""A time that is shown is within this of the clock as it is set."""
CONFIG = """
[webhooks.ops]
url = "{url}"
secret_file = "ops.secret"

[hooks.ci]
auth = "token"
agent = "shell"
message = "echo delivered"
secret_file = "hook.secret"

[outgoing]
allow = ["127.0.0.1/32"]

[rates]
principal_commands_a_day = 2
"""


class SettableStack(NamedTuple):
    """A stack, the clock of whose gateway can be set, and the receiver of its notices."""

    stack: Stack
    receiver: Receiver

    def set_clock(self, by_ms: int) -> None:
        """Set the clock of the gateway's machine, compared with the true time."""
        beside = self.stack.state / f"{JUMP_NAME}.new"
        beside.write_text(str(by_ms))
        beside.rename(self.stack.state / JUMP_NAME)

    def execute(self) -> tuple[int, dict[str, Any]]:
        """Submit a command whose tool call waits for a person."""
        answer = self.stack.post("/v1/commands", body("shell", "echo one", workspace=self.stack.workspace), new_key())
        return answer.status_code, answer.json()


@pytest.fixture
def settable(tmp_path: Path) -> Iterator[SettableStack]:
    with receiving() as receiver:
        stack = Stack(tmp_path, CONFIG.format(url=receiver.url), on_file=True)
        stack.entry["gateway"] = ["proof.processes.skewed_gateway"]
        for name, secret in (("ops", "whsec_" + base64.b64encode(bytes(32)).decode()), ("hook", HOOK_SECRET)):
            (stack.state / f"{name}.secret").write_text(secret)
            (stack.state / f"{name}.secret").chmod(0o600)
        try:
            stack.up()
            yield SettableStack(stack, receiver)
        finally:
            stack.down()


@pytest.mark.req("C-1", "P-8")
@pytest.mark.parametrize("by_ms", [20 * HOUR_MS, -20 * HOUR_MS], ids=["forward", "back"])
def test_approvers_are_notified_at_once_and_sessions_are_shown_by_the_clock_as_it_is_set(
        settable: SettableStack, by_ms: int) -> None:
    settable.set_clock(by_ms)
    status, command = settable.execute()
    assert status == 202, command

    def is_now(text: str) -> bool:
        return abs(parse_iso(text) - time.time() * 1000 - by_ms) < NEAR_MS

    settable.stack.until(lambda: bool(settable.receiver.bodies))
    assert is_now(json.loads(settable.receiver.bodies[0])["timestamp"])
    [session] = settable.stack.get("/v1/sessions", active=10)["items"]
    assert [name for name in ("created_at", "updated_at") if not is_now(session[name])] == []
    lines = map(json.loads, settable.stack.transcript(session["session_id"]))
    assert [line for line in lines if line["type"] == "message" and not is_now(line["timestamp"])] == []


@pytest.mark.req("C-1", "K-3")
def test_the_day_of_a_limit_does_not_end_by_setting_the_clock(settable: SettableStack) -> None:
    assert [settable.execute()[0] for _ in range(3)] == [202, 202, 429]
    past_midnight_ms = DAY_MS - int(time.time() * 1000) % DAY_MS + 60_000
    settable.set_clock(min(past_midnight_ms, DAY_MS - 60_000))  # By a day, it would be a clock's first setting.
    status, refused = settable.execute()
    assert (status, refused["code"]) == (429, "QuotaExceeded")


@pytest.mark.req("C-1", "R-4")
def test_a_delivery_that_is_repeated_at_once_runs_once_though_the_clock_was_set_in_between(settable: SettableStack
                                                                                           ) -> None:
    def deliver() -> httpx2.Response:
        return httpx2.post(f"{settable.stack.url}/v1/hooks/ci", content=b"{}", timeout=30,
                           headers={"Authorization": f"Bearer {HOOK_SECRET}"})

    first = deliver()
    assert first.status_code == 202, first.text
    settable.set_clock(20 * HOUR_MS)
    again = deliver()
    assert (again.content, again.headers.get("idempotency-replayed")) == (first.content, "true")
