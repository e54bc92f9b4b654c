"""The gateways that a host is paired with: one record and one token each, the first one's outbox kept (L-3, D-5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.cli.config.pairings import Paired, drop, home_of, homes, keep, pairings
from interlock.cli.config.place import LOCAL_HOME, RUNNER_DIRECTORY
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("L-3", "D-5")


def pair(state: Path, url: str, runner_id: str) -> object:
    return keep(state, Paired(url, runner_id), f"token of {runner_id}")


def urls(state: Path) -> list[str]:
    return [one.paired.url for one in pairings(state)]


def test_the_first_pairing_comes_first_and_each_has_a_private_token(tmp_path: Path) -> None:
    assert pair(tmp_path, "https://b", "run_b") is None
    assert pair(tmp_path, "https://a", "run_a") is None
    found = pairings(tmp_path)

    assert urls(tmp_path) == ["https://b", "https://a"]
    assert [one.token_file.read_text() for one in found] == ["token of run_b\n", "token of run_a\n"]
    assert {one.token_file.stat().st_mode & 0o777 for one in found} == {0o600}
    assert home_of(found) == "run_b"


def test_pairing_again_replaces_that_pairing_and_keeps_the_other_outboxes(tmp_path: Path) -> None:
    pair(tmp_path, "https://b", "run_b")
    pair(tmp_path, "https://a", "run_a")
    before = pair(tmp_path, "https://b", "run_new")
    found = pairings(tmp_path)

    assert before is not None
    assert [one.paired.runner_id for one in found] == ["run_new", "run_a"]
    assert home_of(found) == "run_b"  # The other gateway's cursor is in it.


def test_a_single_pairing_begins_its_own_outbox(tmp_path: Path) -> None:
    pair(tmp_path, "https://b", "run_b")
    pair(tmp_path, "https://b", "run_new")

    assert home_of(pairings(tmp_path)) == "run_new"


def test_a_dropped_pairing_is_removed_and_the_other_remains(tmp_path: Path) -> None:
    pair(tmp_path, "https://b", "run_b")
    pair(tmp_path, "https://a", "run_a")
    drop(tmp_path, pairings(tmp_path)[0])

    assert urls(tmp_path) == ["https://a"]


def test_an_unreadable_record_gives_one_sentence(tmp_path: Path) -> None:
    pair(tmp_path, "https://b", "run_b")
    (pairings(tmp_path)[0].directory / "runner.json").write_text("half")

    with pytest.raises(Trouble):
        pairings(tmp_path)


def test_an_unpaired_host_has_only_the_runner_of_up(tmp_path: Path) -> None:
    assert homes(tmp_path) == [tmp_path / LOCAL_HOME]
    keep(tmp_path, Paired("https://g", "run_1"), "token")
    assert homes(tmp_path) == [tmp_path / RUNNER_DIRECTORY / "run_1", tmp_path / LOCAL_HOME]
