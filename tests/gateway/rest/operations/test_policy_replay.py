"""Over REST: rules that are tried on recorded calls, without anything being changed (J-13)."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import msgspec
import pytest

from interlock.gateway.rest.operations import policy_replay
from interlock.ports.ledger import Append
from interlock.protocol.identifiers import session_stream
from small_gateway.running import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.req("J-13")]
AT = "2026-01-01T00:00:00.000Z"


def frame(name: str, **payload: Any) -> bytes:
    return msgspec.json.encode({"type": name, "message_id": "m", "timestamp": AT, "metadata": {}, "payload": payload})


def call(name: str, line: str) -> list[bytes]:
    """The frames of a call that policy allowed."""
    return [frame("tool.invoke.request", invocation_id=f"i{name}", turn_id="t1", tool_name="shell",
                  input={"command": line}),
            frame("agent.interaction.request", interaction_id=name, interaction_type="PERMISSION", title=line,
                  context={"tool_name": "shell", "invocation_id": f"i{name}"}, options=[]),
            frame("control.interaction.response", interaction_id=name, decision="allow", by="policy:all")]


async def recorded(gateway: Gateway, *lines: str, session_id: str = "s1", tenant: str = "default") -> None:
    await gateway.desk.add_session(session_id, tenant)
    bodies = [body for number, line in enumerate(lines) for body in call(f"x{number}", line)]
    await gateway.desk.commit([Append("default", session_stream(session_id), "C", 1, body) for body in bodies])


async def replayed(client: Any, **body: Any) -> Any:
    key = hashlib.sha256(msgspec.json.encode(body)).hexdigest()
    return await client.post("/v1/policy/replay", json=body, headers={"Idempotency-Key": key})


async def test_recorded_calls_are_shown_with_their_past_and_new_decision(gateway: Gateway) -> None:
    await recorded(gateway, "git log", "rm -r /")
    rules = [{"name": "git", "effect": "allow", "words": "git log **"}, {"name": "no", "effect": "deny",
                                                                         "command": "rm .*"}]
    async with gateway.as_role("operator") as client:
        answer = (await replayed(client, rules=rules)).json()
        assert [(one["what"], one["was"], one["was_rule"], one["now"], one["now_rule"]) for one in answer["calls"]] == [
            ("$ git log", "allow", "all", "allow", "git"), ("$ rm -r /", "allow", "all", "deny", "no")]
        assert (answer["sessions"], answer["changed"], answer["has_more"]) == (1, 1, False)
        changed = (await replayed(client, rules=rules, changed=True)).json()
        assert [one["what"] for one in changed["calls"]] == ["$ rm -r /"]
        in_force = (await replayed(client, session_id="s1")).json()
        assert [one["now"] for one in in_force["calls"]] == ["ask", "ask"], "without rules those in force"
        bounded = (await replayed(client, calls=1)).json()
        assert (len(bounded["calls"]), bounded["has_more"]) == (1, True)
        none = (await replayed(client, rules=rules, changed=True, calls=1)).json()
        assert (none["calls"], none["has_more"]) == ([], True), "calls that do not change count, too"


async def test_no_session_of_another_tenant_is_read(gateway: Gateway) -> None:
    await recorded(gateway, "git log", session_id="theirs", tenant="other")
    async with gateway.as_role("admin") as client:
        assert (await replayed(client)).json()["calls"] == []
        refused = await replayed(client, session_id="theirs")
        assert (refused.status_code, refused.json()["code"]) == (404, "NotFound")
    async with gateway.as_role("viewer") as client:
        assert (await replayed(client)).status_code == 403


@pytest.mark.parametrize(("rule", "sentence"), [
    ({"name": "x"}, "effect"), ({"name": "", "effect": "deny"}, "name"),
    ({"name": "x", "effect": "allow", "command": "git (status"}, "command"),
    ({"name": "x", "effect": "deny", "colour": "red"}, "colour"),
])
async def test_an_invalid_rule_is_refused_with_its_place(
    gateway: Gateway, rule: dict[str, Any], sentence: str
) -> None:
    async with gateway.as_role("operator") as client:
        answer = await replayed(client, rules=[{"name": "fine", "effect": "deny", "command": "x"}, rule])
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["pointer"] == "/rules/1"
        assert sentence in answer.json()["detail"]


async def test_a_pattern_with_backtracking_is_matched_in_bounded_time(gateway: Gateway) -> None:
    await recorded(gateway, "a" * 4_000 + "!")
    async with gateway.as_role("operator") as client:
        began = time.process_time()
        answer = await replayed(client, rules=[{"name": "slow", "effect": "deny", "command": "(a+)+b"}])
        assert answer.status_code == 200
        assert time.process_time() - began < 5, "exponential would take years"


async def test_a_long_session_is_read_to_a_bound_and_marked(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_replay, "FRAMES_MAX", 6)
    monkeypatch.setattr(policy_replay, "FRAMES_A_PAGE", 3)
    await recorded(gateway, "one", "two", "three")
    async with gateway.as_role("auditor") as client:
        answer = (await replayed(client)).json()
        assert ([one["what"] for one in answer["calls"]], answer["has_more"]) == (["$ one", "$ two"], True)


async def test_many_sessions_are_read_to_a_common_bound(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_replay, "FRAMES_ALL_MAX", 3)
    monkeypatch.setattr(policy_replay, "FRAMES_A_PAGE", 3)
    await recorded(gateway, "one", session_id="s1")
    await recorded(gateway, "two", session_id="s2")
    async with gateway.as_role("operator") as client:
        answer = (await replayed(client)).json()
        assert (len(answer["calls"]), answer["has_more"]) == (1, True)
