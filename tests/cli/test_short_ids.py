"""`--runner`: by an id, a name, or a unique beginning of either (Y-10)."""

from __future__ import annotations

import pytest

from interlock.cli.short_ids import pick_runner
from interlock.cli.verb_error import Trouble
from interlock.protocol.resources import Node

pytestmark = pytest.mark.req("Y-10")


def node(runner_id: str, name: str) -> Node:
    return Node(node_id=runner_id, device_name=name, status="online", last_seen="", capabilities=[],
                active_sessions_count=0, config_versions={})


NODES = [node("local", "laptop"), node("rnr_01AAAA", "build-1"), node("rnr_01ABBB", "build-10"),
         node("rnr_02CCCC", "Desk"), node("rnr_03DDDD", "gpu"), node("rnr_04EEEE", "gpu")]


@pytest.mark.parametrize(("text", "found"), [
    ("local", "local"), ("laptop", "local"), ("lap", "local"), ("rnr_01AAAA", "rnr_01AAAA"), ("01ab", "rnr_01ABBB"),
    ("desk", "rnr_02CCCC"), ("rnr_02", "rnr_02CCCC"), (" Desk ", "rnr_02CCCC"),
])
def test_a_runner_is_found(text: str, found: str) -> None:
    assert pick_runner(text, NODES).node_id == found


def test_a_whole_name_goes_before_a_longer_one_that_begins_with_it() -> None:
    assert pick_runner("build-1", NODES).node_id == "rnr_01AAAA"


@pytest.mark.parametrize(("text", "sentence"), [
    ("build", "--runner 'build' could be any of 2 runners: rnr_01AAAA (build-1), rnr_01ABBB (build-10)."),
    ("gpu", "--runner 'gpu' could be any of 2 runners: rnr_03DDDD (gpu), rnr_04EEEE (gpu)."),
    ("rnr_", "--runner 'rnr_' could be any of 5 runners: rnr_01AAAA (build-1), rnr_01ABBB (build-10), "
             "rnr_02CCCC (Desk), rnr_03DDDD (gpu), rnr_04EEEE (gpu)."),
    ("tower", "There is no runner 'tower'."), ("  ", "--runner is empty."),
])
def test_what_names_several_or_none_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(Trouble) as refused:
        pick_runner(text, NODES)
    assert refused.value.sentence == sentence
