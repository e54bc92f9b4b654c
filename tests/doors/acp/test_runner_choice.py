"""The runner that an editor's settings name: by an id, a name or a unique beginning (Y-10)."""

from __future__ import annotations

import pytest

from interlock.doors.acp.door import RUNNERS_SHOWN, DoorError, runner_of
from interlock.protocol.resources import Node

pytestmark = pytest.mark.req("Y-10")


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
def test_what_names_several_or_none_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(DoorError) as refused:
        runner_of(text, NODES)
    assert str(refused.value) == sentence


def test_an_error_lists_a_few_runners_at_most() -> None:
    with pytest.raises(DoorError) as refused:
        runner_of("x", [node(f"rnr_{number}", "host") for number in range(100)])
    assert str(refused.value).count("rnr_") == RUNNERS_SHOWN
