"""What the door reads for an editor: the runner that its settings name, and the names in its list of sessions."""

from __future__ import annotations

import pytest

from interlock.doors.acp.door import RUNNERS_SHOWN, DoorError, _listed, runner_of
from interlock.protocol.resources import Node, Session

pytestmark = pytest.mark.req("Y-10")
AT = "2026-11-21T10:00:00.000Z"


def node(runner_id: str, name: str) -> Node:
    return Node(node_id=runner_id, device_name=name, status="online", last_seen="", capabilities=[],
                active_sessions_count=0, config_versions={})


NODES = [node("local", "laptop"), node("rnr_01A", "gpu"), node("rnr_02B", "gpu-2")]


@pytest.mark.parametrize(("text", "found"), [("rnr_02B", "rnr_02B"), ("gpu", "rnr_01A"), ("LAP", "local")])
def test_the_runner_is_found(text: str, found: str) -> None:
    assert runner_of(text, NODES) == found


@pytest.mark.parametrize(("text", "sentence"), [
    ("rnr", "The runner 'rnr' could be any of 2: rnr_01A (gpu), rnr_02B (gpu-2)."),
    ("tower", "There is no runner 'tower'; there are: local (laptop), rnr_01A (gpu), rnr_02B (gpu-2)."),
    ("", "There is no runner ''; there are: local (laptop), rnr_01A (gpu), rnr_02B (gpu-2)."),
])
def test_an_ambiguous_or_unknown_name_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(DoorError) as refused:
        runner_of(text, NODES)
    assert str(refused.value) == sentence


def test_an_error_lists_a_bounded_number_of_runners() -> None:
    with pytest.raises(DoorError) as refused:
        runner_of("x", [node(f"rnr_{number}", "host") for number in range(100)])
    assert str(refused.value).count("rnr_") == RUNNERS_SHOWN


@pytest.mark.req("Y-8")
@pytest.mark.parametrize(("title", "shown"), [
    ("Make the tests faster", "Make the tests faster"), (None, "claude · agent:claude:main"),
])
def test_a_session_is_named_by_its_title_or_else_by_agent_and_key(title: str | None, shown: str) -> None:
    listed = _listed(Session(session_id="s1", session_key="agent:claude:main", tenant_id="default", agent_id="claude",
                             title=title, workspace="/w", state="idle", created_at=AT, updated_at=AT))
    assert listed == {"sessionId": "agent:claude:main", "cwd": "/w", "updatedAt": AT, "title": shown}
