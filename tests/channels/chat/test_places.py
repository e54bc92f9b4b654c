"""State of a bot that survives a restart: one small file, bounded, written completely or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.channels.chat.places import (
    MAX_ASKED,
    MAX_SESSIONS,
    MAX_THREADS,
    MAX_UNDELIVERED,
    AskedQuestion,
    Awaited,
    FollowedSession,
    PlacesFile,
)
from interlock.ports.chat_service import Spot

SPOT = Spot("C1", 7)


def test_stored_places_are_read_back(tmp_path: Path) -> None:
    kept = PlacesFile(tmp_path / "slack.json")
    kept.now.feed = "c9"
    kept.now.sessions["s"] = FollowedSession("c1", {"cmd_1": Awaited(SPOT, 5, "p", "t")}, ["ToolsNotGated"])
    kept.now.asked["apr_1"] = AskedQuestion("$ ls", [(SPOT, "m1"), (Spot(-100), 2)])
    kept.now.undelivered["apr_2"] = "Slack refused."
    kept.save()
    assert PlacesFile(tmp_path / "slack.json").now == kept.now
    assert (tmp_path / "slack.json").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["slack.json"]


def test_a_missing_file_means_no_places(tmp_path: Path) -> None:
    found = PlacesFile(tmp_path / "none.json").now
    assert (found.sessions, found.asked, found.feed, found.threads, found.undelivered) == ({}, {}, None, {}, {})


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"sessions":7}'])
def test_a_foreign_file_is_left_alone_with_a_sentence(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "x.json").write_bytes(raw)
    with pytest.raises(ValueError, match="Move it away to begin again"):
        PlacesFile(tmp_path / "x.json")
    assert (tmp_path / "x.json").read_bytes() == raw


def test_the_oldest_places_are_removed_first_except_those_awaited(tmp_path: Path) -> None:
    kept = PlacesFile(tmp_path / "x.json")
    kept.now.asked = {str(number): AskedQuestion("t") for number in range(MAX_ASKED + 3)}
    kept.now.threads = {str(number): number for number in range(MAX_THREADS + 2)}
    kept.now.undelivered = {str(number): "" for number in range(MAX_UNDELIVERED + 1)}
    kept.now.sessions = {"awaited": FollowedSession(commands={"c": Awaited(SPOT, 1)}), **{
        str(number): FollowedSession() for number in range(MAX_SESSIONS + 4)}}
    kept.save()
    found = PlacesFile(tmp_path / "x.json").now
    assert (len(found.asked), "2" in found.asked, "3" in found.asked) == (MAX_ASKED, False, True)
    assert (len(found.threads), len(found.undelivered)) == (MAX_THREADS, MAX_UNDELIVERED)
    assert (len(found.sessions), "awaited" in found.sessions, "4" in found.sessions) == (MAX_SESSIONS, True, False)
