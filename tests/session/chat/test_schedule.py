"""When cron jobs are due, over the days on which clocks are set (R-4)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.session.chat.schedule import BadSchedule, check_schedule, due_after, how_often, newest_due, next_due

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ["Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Seoul", "UTC",
         "Pacific/Apia", "Africa/Casablanca"]
SCHEDULES = ["30 2 * * *", "0 0 * * *", "*/15 * * * *", "0 * * * *", "59 23 * * 1-5", "10 1,2,3 * * *", "0 9 1 * *"]


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.req("R-4")
def test_a_missing_hour_is_due_at_the_jump_and_a_repeated_one_once() -> None:
    spring = list(islice(due_after("30 2 * * *", BERLIN, ms("2026-03-28T12:00+01:00")), 3))
    assert spring == [ms("2026-03-29T03:00+02:00"), ms("2026-03-30T02:30+02:00"), ms("2026-03-31T02:30+02:00")]
    autumn = list(islice(due_after("30 2 * * *", BERLIN, ms("2026-10-24T12:00+02:00")), 3))
    assert autumn == [ms("2026-10-25T02:30+02:00"), ms("2026-10-26T02:30+01:00"), ms("2026-10-27T02:30+01:00")]
    # A half-hourly job follows real time: both hours count.
    begin, end = ms("2026-10-25T01:59+02:00"), ms("2026-10-25T03:00+01:00")
    assert how_often("*/30 * * * *", BERLIN, begin, end, 99) == 4
    assert how_often("*/30 * * * *", BERLIN, begin, end, 3) == 3
    assert newest_due("*/30 * * * *", BERLIN, begin, end) == end
    assert newest_due("*/30 * * * *", BERLIN, end, end) is None


@pytest.mark.req("R-4")
@pytest.mark.parametrize("text", ["", "@daily", "* * * *", "* * * * * *", "61 * * * *", "0 0 31 4 *", "x * * * *"])
def test_an_invalid_schedule_is_refused(text: str) -> None:
    with pytest.raises(BadSchedule, match=r"five fields|is not a schedule|is never due"):
        check_schedule(text)


@pytest.mark.req("R-4")
@settings(deadline=None, max_examples=60)
@given(st.sampled_from(SCHEDULES), st.sampled_from(ZONES), st.integers(0, 20 * 365 * 24 * 60))
def test_a_schedule_restarted_at_any_instant_yields_the_same_instants(text: str, zone: str, minute: int) -> None:
    check_schedule(text)
    begin = round((datetime(2015, 1, 1, tzinfo=UTC) + timedelta(minutes=minute)).timestamp() * 1000)
    expected = list(islice(due_after(text, ZoneInfo(zone), begin), 40))
    assert expected == sorted(set(expected))
    at: int | None = begin
    for due in expected:
        at = next_due(text, ZoneInfo(zone), at or 0)
        assert at == due
        # Also for a caller just before it, as a restarted gateway is.
        assert next_due(text, ZoneInfo(zone), due - 1) == due


@pytest.mark.req("R-4")
@settings(deadline=None, max_examples=30)
@given(st.sampled_from(ZONES), st.integers(2015, 2034), st.integers(0, 23), st.integers(0, 59))
def test_a_daily_job_is_due_once_on_each_day_of_a_year(zone: str, year: int, hour: int, minute: int) -> None:
    begin = round(datetime(year, 1, 1, tzinfo=ZoneInfo(zone)).timestamp() * 1000) - 1
    until = round(datetime(year + 1, 1, 1, tzinfo=ZoneInfo(zone)).timestamp() * 1000) - 1
    found = [*takewhile(lambda at: at <= until, due_after(f"{minute} {hour} * * *", ZoneInfo(zone), begin))]
    days = (datetime(year + 1, 1, 1, tzinfo=UTC) - datetime(year, 1, 1, tzinfo=UTC)).days
    assert len(found) == days
    assert len({datetime.fromtimestamp(at / 1000, ZoneInfo(zone)).date() for at in found}) == days
