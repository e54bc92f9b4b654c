"""A runner in `interlock status`: nothing that is not known, and no separator behind the last part (Y-8)."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.backends.sqlite.lock import LOCK_NAME, lock_state
from interlock.cli.access import context_verbs
from interlock.cli.config.place import GATEWAY_FILE, UP_LOCK, GatewayFile, Where, holder
from interlock.cli.exit_status import ExitStatus
from interlock.cli.host import processes
from interlock.cli.host.up import take_lock
from interlock.cli.link.gateway_link import locate, start_remedy
from interlock.cli.operations.runner_line import runner_line, up_is_starting, up_process
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
    lock, held = tmp_path / UP_LOCK, take_lock(tmp_path)
    os.utime(lock, (1_000, 1_000))
    assert up_is_starting(tmp_path, 1_000 + READY_TIMEOUT_S - 1)
    assert not up_is_starting(tmp_path, 1_000 + READY_TIMEOUT_S)
    assert not up_is_starting(tmp_path, 999), "the clock was set back"
    for text in ("", "nonsense", "0", "-1", str(2**40), "4194305"):
        lock.write_text(text)
        os.utime(lock, (1_000, 1_000))
        assert not up_is_starting(tmp_path, 1_001)
    os.close(held)


def test_a_process_that_has_the_number_of_an_ended_up_is_none(tmp_path: Path) -> None:
    os.close(take_lock(tmp_path))
    assert (tmp_path / UP_LOCK).read_text() == f"{os.getpid()}\n"
    assert up_process(tmp_path) is None


def test_two_looks_at_a_lock_that_is_free_take_neither_for_its_holder(tmp_path: Path) -> None:
    lock_state(tmp_path).release()
    with open(tmp_path / LOCK_NAME) as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert holder(tmp_path / LOCK_NAME) is None


def test_the_address_of_a_gateway_that_was_killed_receives_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its file is left behind, and any program may listen there now."""
    monkeypatch.delenv("INTERLOCK_URL", raising=False)
    (tmp_path / "owner.key").write_text("ilk_1\n")
    (tmp_path / GATEWAY_FILE).write_bytes(msgspec.json.encode(GatewayFile("http://127.0.0.1:7420", os.getpid())))
    lock = lock_state(tmp_path)
    assert locate(Where(state=tmp_path)).key == "ilk_1"
    lock.release()
    with pytest.raises(Trouble, match="No gateway runs on"):
        locate(Where(state=tmp_path))
    with pytest.raises(Trouble, match="No gateway runs on"):
        processes.runner(where=Where(state=tmp_path))
    assert context_verbs.listing(state=tmp_path) == ExitStatus.DONE
    assert "none runs" in capsys.readouterr().out
    held = take_lock(tmp_path)  # It restarts the gateway at this address.
    assert locate(Where(state=tmp_path)).url == "http://127.0.0.1:7420"
    os.close(held)


def test_a_starting_gateway_is_not_called_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTERLOCK_URL", raising=False)
    with pytest.raises(Trouble, match="No gateway runs on"):
        locate(Where(state=tmp_path))
    held = take_lock(tmp_path)
    with pytest.raises(Trouble, match="is still starting"):
        locate(Where(state=tmp_path))
    os.close(held)


def test_a_gateway_that_up_restarts_gets_no_advice_to_start_it(tmp_path: Path) -> None:
    assert start_remedy(None) == start_remedy(tmp_path) == "Start one with: interlock up"
    held = take_lock(tmp_path)
    assert start_remedy(tmp_path) == (f"`interlock up` (process {os.getpid()}) restarts it; try again in some seconds, "
                                      "or see: interlock logs gateway")
    os.close(held)


def test_an_empty_url_is_not_another_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--url "$GATEWAY"`, and the variable is not set."""
    monkeypatch.setenv("INTERLOCK_URL", "http://127.0.0.1:7420")
    with pytest.raises(Trouble, match="'' is not the URL of a gateway"):
        locate(Where(state=tmp_path, url=""))
