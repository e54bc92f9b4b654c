"""Effects of `demo --sabotage` on a link: numbers stay consistent, so that only the demonstration's checks can
notice."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from interlock.demo.sabotage import make_tap


def durable(seq: int, name: str = "agent.state.changed") -> dict[str, Any]:
    return {"type": name, "session_id": "s", "seq": seq, "message_id": f"m{seq}", "timestamp": "t", "payload": {}}


def ack(seq: int) -> dict[str, Any]:
    return {"type": "x-interlock.ack", "payload": {"session_id": "s", "seq": seq}}


def new_ids() -> Any:
    numbers = count(1)
    return lambda: f"new{next(numbers)}"


@pytest.mark.parametrize(("sabotage", "name", "sent", "acks"), [
    ("drop-frame", "tool.invoke.result", [1, 2, 3], {1: 1, 2: 3, 3: 4}),
    ("double-frame", "agent.text.done", [1, 2, 3, 4, 5], {1: 1, 2: 2, 3: 2, 4: 3, 5: 4}),
])
def test_a_miscount_is_not_visible_in_any_number(
    sabotage: str, name: str, sent: list[int], acks: dict[int, int]
) -> None:
    tap = make_tap(sabotage, new_ids())
    made = [durable(1), durable(2, name), durable(3), durable(4, name)]
    onward = [out for frame in made for passed in [tap.from_runner(frame)] if passed for out in passed.onward]
    assert [frame["seq"] for frame in onward] == sent
    assert len({frame["message_id"] for frame in onward}) == len(onward)
    history = {"type": "session.history", "session_id": "s", "payload": {"frames": made[1:]}}
    again = tap.from_runner(history)
    assert again is not None
    assert [frame["seq"] for frame in again.onward[0]["payload"]["frames"]] == sent[1:]
    [hello] = _onward(tap.from_runner({"type": "x-interlock.hello", "payload": {
        "sessions": [{"session_id": "s", "acked_seq": 4}, {"session_id": "other", "acked_seq": 4}]}}))
    assert [one["acked_seq"] for one in hello["payload"]["sessions"]] == [sent[-1], 4]
    for acknowledged, meant in acks.items():
        ack_frame = tap.from_gateway(ack(acknowledged))
        assert ack_frame is not None
        assert ack_frame.onward[0]["payload"]["seq"] == meant


def test_a_forged_grant_is_numbered_between_the_real_ones() -> None:
    tap = make_tap("auto-allow", new_ids())
    assert [out["seq"] for out in _onward(tap.from_gateway(durable(1, "control.session.open")))] == [1]
    asked = {**durable(1, "agent.interaction.request"), "payload": {"interaction_id": "i"}}
    passed = tap.from_runner(asked)
    assert passed is not None
    assert (list(passed.onward), passed.back[0]["seq"], passed.back[0]["payload"]["by"]) == ([asked], 2, "nobody")
    assert [out["seq"] for out in _onward(tap.from_gateway(durable(2, "x-interlock.interaction.held")))] == [3]
    confirmed = [_onward(tap.from_runner(ack(seq)))[0]["payload"]["seq"] for seq in (1, 2, 3)]
    assert confirmed == [1, 1, 2]


def _onward(passed: Any) -> list[dict[str, Any]]:
    assert passed is not None
    return list(passed.onward)
