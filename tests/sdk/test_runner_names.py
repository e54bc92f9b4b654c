"""A runner by an id, a name, or a unique beginning of either (Y-10)."""

import pytest

from interlock.protocol.resources import Node
from interlock.sdk.runner_names import runners_named

pytestmark = pytest.mark.req("Y-10")


def node(runner_id: str, name: str) -> Node:
    return Node(node_id=runner_id, device_name=name, status="online", last_seen="", capabilities=[],
                active_sessions_count=0, config_versions={})


NODES = [node("local", "Laptop"), node("rnr_01A", "gpu"), node("rnr_02B", "gpu-2"), node("rnr_gpu", "other")]


@pytest.mark.parametrize(("text", "found"), [
    ("gpu", ["rnr_01A", "rnr_gpu"]), ("gpu-", ["rnr_02B"]), ("GPU-2", ["rnr_02B"]), (" lap ", ["local"]),
    ("rnr_0", ["rnr_01A", "rnr_02B"]), ("01a", ["rnr_01A"]), ("0", ["rnr_01A", "rnr_02B"]), ("local", ["local"]),
    ("", []), ("   ", []), ("rnr_", ["rnr_01A", "rnr_02B", "rnr_gpu"]), ("tower", []),
])
def test_exact_names_take_precedence_over_prefixes(text: str, found: list[str]) -> None:
    assert [one.node_id for one in runners_named(text, NODES)] == found


def test_nodes_may_be_read_once() -> None:
    assert [one.node_id for one in runners_named("gpu-2", iter(NODES))] == ["rnr_02B"]
