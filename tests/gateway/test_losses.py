"""Why frames of a history are lost (D-3, D-5): by the buffer's policy, or by the time for which an observer was
disconnected."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.gateway.link.intake import LOSSES, PLACE_LOST, why_lost
from interlock.protocol.envelope import Frame
from interlock.protocol.payloads import BufferStatus, History

pytestmark = pytest.mark.req("D-3", "D-5")


def history(policy: Any, place: object = None) -> Frame:
    payload = History(frames=[], buffer_status=BufferStatus(policy_applied=policy, truncated=True),
                      last_sync_timestamp="", last_message_id="")
    return Frame(type="session.history", payload=payload, message_id="m", timestamp="t", metadata={"place_lost": place})


@pytest.mark.parametrize("policy", ["RING", "DROP", "NONE"])
def test_each_policy_has_its_sentence(policy: str) -> None:
    assert why_lost(history(policy)) == LOSSES[policy]


@pytest.mark.parametrize("place", PLACE_LOST)
def test_an_observers_own_reason_comes_first(place: str) -> None:
    assert why_lost(history("RING", place)) == PLACE_LOST[place]


@pytest.mark.parametrize("place", ["unheard", 7, ["bytes"], {}])
def test_an_unknown_reason_of_a_newer_runner_is_ignored(place: object) -> None:
    assert why_lost(history("NONE", place)) == LOSSES["NONE"]
