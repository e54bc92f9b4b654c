"""The log of a runner that dials a gateway which does not answer."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from interlock.runner.link.link import LinkState
from interlock.runner.link.link_log import LinkLog

UNREACHABLE = LinkState("detached", "The gateway at 127.0.0.1 cannot be reached.", "g1")
ATTACHED = LinkState("attached", "The runner is attached.", "g1")


def logged(*states: LinkState) -> list[tuple[str, str, int]]:
    link = LinkLog("ws://127.0.0.1:7420/rawp")
    with capture_logs() as entries:
        for state in states:
            link.note(state, "0 of 1")
    return [(one["state"], one["sentence"], one.get("repeated", 0)) for one in entries]


@pytest.mark.req("L-5")
def test_an_attempt_that_fails_like_the_last_one_is_counted_and_not_logged() -> None:
    refused = LinkState("detached", "The gateway answered HTTP 503 instead of opening the link.", "g1")
    assert logged(*[UNREACHABLE] * 300, refused, ATTACHED) == [
        ("detached", UNREACHABLE.sentence, 0), ("detached", refused.sentence, 299), ("attached", ATTACHED.sentence, 0)]


@pytest.mark.parametrize("state", [ATTACHED, LinkState("notice", "A session was closed.", "g1")])
def test_other_states_are_logged_each_time(state: LinkState) -> None:
    assert len(logged(state, state)) == 2


def test_a_refusal_is_logged_with_its_code() -> None:
    with capture_logs() as entries:
        LinkLog("wss://gw.example/rawp").note(LinkState("refused", "The token was revoked.", "g1", "Revoked"), "0 of 1")
    assert entries == [{"event": "link", "log_level": "info", "state": "refused", "sentence": "The token was revoked.",
                        "gateway_id": "g1", "url": "wss://gw.example/rawp", "attached": "0 of 1",
                        "error_code": "Revoked"}]
