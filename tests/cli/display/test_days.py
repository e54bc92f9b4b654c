"""Days as people name them, in a zone (Y-9)."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from interlock.cli.display.days import read_day
from interlock.cli.verb_error import Trouble
from interlock.protocol.clock import iso

pytestmark = pytest.mark.req("Y-9")
BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 24, 23, 30, tzinfo=UTC)
"""A Tuesday in UTC, half an hour after midnight of Wednesday in Berlin."""
HOUR_MS = 3_600_000


@pytest.mark.parametrize(("text", "start", "name"), [
    ("tuesday", "2026-11-23T23:00:00.000Z", "Tuesday 2026-11-24"),
    (" TUE ", "2026-11-23T23:00:00.000Z", "Tuesday 2026-11-24"),
    ("wednesday", "2026-11-24T23:00:00.000Z", "Wednesday 2026-11-25"),
    ("today", "2026-11-24T23:00:00.000Z", "Wednesday 2026-11-25"),
    ("yesterday", "2026-11-23T23:00:00.000Z", "Tuesday 2026-11-24"),
    ("thursday", "2026-11-18T23:00:00.000Z", "Thursday 2026-11-19"),
    ("2026-07-01", "2026-06-30T22:00:00.000Z", "Wednesday 2026-07-01"),
])
def test_a_weekday_is_the_last_one_of_its_name_in_the_zone(text: str, start: str, name: str) -> None:
    day = read_day(text, NOW, BERLIN)
    assert (iso(day.start_ms), day.name) == (start, name)
    assert day.end_ms - day.start_ms == 24 * HOUR_MS


@pytest.mark.parametrize(("text", "hours"), [("2026-03-29", 23), ("2026-10-25", 25)])
def test_a_day_with_a_clock_change_is_complete(text: str, hours: int) -> None:
    day = read_day(text, NOW, BERLIN)
    assert day.end_ms - day.start_ms == hours * HOUR_MS


def test_the_zone_of_the_machine_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    local = read_day("2026-11-01", NOW)
    midnight = datetime.fromtimestamp(local.start_ms / 1000, UTC).astimezone()
    assert (midnight.hour, midnight.minute, midnight.day) == (0, 0, 1)


@pytest.mark.parametrize("text", ["", "tu", "someday", "2026-13-01", "24.11.2026", "0001-01-01", "9999-12-31"])
def test_an_invalid_day_gives_one_sentence(text: str) -> None:
    with pytest.raises(Trouble, match=r"is not a day|not come yet"):
        read_day(text, NOW, BERLIN)


def test_a_future_day_is_refused() -> None:
    with pytest.raises(Trouble, match="has not come yet"):
        read_day("2026-11-26", NOW, BERLIN)
