"""A runner in `interlock status`: nothing that is not known, and no separator behind the last part (Y-8)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.config.place import UP_LOCK, Where
from interlock.cli.link.gateway_link import locate, start_remedy
from interlock.cli.operations.runner_line import runner_line, up_is_starting
from interlock.cli.verb_error import Trouble
from interlock.protocol.limits import READY_TIMEOUT_S
from interlock.protocol.resources import Node

pytestmark = pytest.mark.req("Y-8", "G-7")


def node(**fields: Any) -> Node:
    return Node(**{"node_id": "local", "device_name": "laptop", "status": "online", "last_seen": "", "capabilities": [],
                   "active_sessions_count": 0, "config_versions": {}, **fields})


@pytest.mark.parametrize(("fields", "starting", "line"), [
    ({"agents": [{"agent_id": "shell"}], "roots": ["/w", "/x"]}, False, "laptop (local) · online · shell · /w, /x"),
    ({"agents": [{"agent_id": "shell"}]}, True, "laptop (local) · online · shell"),
    ({}, False, "laptop (local) · online · no agents"),
    ({"status": "offline"}, True, "laptop (local) · starting"),
    ({"status": "offline"}, False, "laptop (local) · offline"),
    ({"status": "offline", "node_id": "rnr_1", "device_name": ""}, True, "rnr_1 (rnr_1) · offline"),
    ({"status": "offline", "roots": ["/w"]}, False, "laptop (local) · offline · /w"),
])
def test_only_known_parts_are_shown(fields: dict[str, Any], starting: bool, line: str) -> None:
    assert runner_line(node(**fields), starting=starting) == line


def test_an_up_counts_as_starting_within_its_time_limit_while_it_lives(tmp_path: Path) -> None:
    assert not up_is_starting(tmp_path), "none was ever started"
    lock = tmp_path / UP_LOCK
    lock.write_text(f"{os.getpid()}\n")
    os.utime(lock, (1_000, 1_000))
    assert up_is_starting(tmp_path, 1_000 + READY_TIMEOUT_S - 1)
    assert not up_is_starting(tmp_path, 1_000 + READY_TIMEOUT_S)
    assert not up_is_starting(tmp_path, 999), "the clock was set back"
    for text in ("", "nonsense", "0", "-1", str(2**40), "4194305"):
        lock.write_text(text)
        os.utime(lock, (1_000, 1_000))
        assert not up_is_starting(tmp_path, 1_001)


def test_a_starting_gateway_is_not_called_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTERLOCK_URL", raising=False)
    with pytest.raises(Trouble, match="No gateway runs on"):
        locate(Where(state=tmp_path))
    (tmp_path / UP_LOCK).write_text(f"{os.getpid()}\n")
    with pytest.raises(Trouble, match="is still starting"):
        locate(Where(state=tmp_path))


def test_a_gateway_that_up_restarts_gets_no_advice_to_start_it(tmp_path: Path) -> None:
    assert start_remedy(None) == start_remedy(tmp_path) == "Start one with: interlock up"
    (tmp_path / UP_LOCK).write_text(f"{os.getpid()}\n")
    assert start_remedy(tmp_path) == (f"`interlock up` (process {os.getpid()}) restarts it; try again in some seconds, "
                                      "or see: interlock logs gateway")
