"""When a key moves on to a new session (I-1, I-2)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interlock.session.chat.resets import (
    Clocks,
    Reset,
    ResetCommand,
    ResetRule,
    ResetRules,
    daily_ms,
    due,
    next_daily_ms,
    read_reset,
    reset_for,
)

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = sorted(name for name in available_timezones() if "/" in name and not name.startswith(("Etc", "posix", "right")))
FIRST, DAYS = date(2006, 1, 1), 366 * 20


def at(text: str, zone: ZoneInfo = BERLIN, fold: int = 0) -> int:
    """Local time as milliseconds since 1970."""
    return int(datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).timestamp() * 1000)


def shown(second: int, zone: ZoneInfo) -> datetime:
    """The time of the wall clock."""
    return datetime.fromtimestamp(second, UTC).astimezone(zone).replace(tzinfo=None)


def plain_daily_ms(day: date, hour: int, zone: ZoneInfo) -> int:
    """The plain reference: look at the clock on the wall every minute until it shows the hour or later."""
    wanted = datetime(day.year, day.month, day.day, hour)
    minute = int(wanted.replace(tzinfo=UTC).timestamp()) - 30 * 3600
    while shown(minute, zone) < wanted:
        minute += 60
    return minute * 1000


@lru_cache(maxsize=4096)
def changes(name: str) -> list[int]:
    """Days, counted from FIRST, on which a zone's offset changes."""
    zone = ZoneInfo(name)

    def offset(n: int) -> timedelta | None:
        return (datetime(2006, 1, 1, tzinfo=UTC) + timedelta(days=n)).astimezone(zone).utcoffset()

    months = [n for n in range(0, DAYS, 28) if offset(n) != offset(n + 28)]
    return [next(n for n in range(month, month + 28) if offset(n) != offset(n + 1)) for month in months] or [0]


@st.composite
def zone_days(draw: st.DrawFn) -> tuple[str, date]:
    """A zone, and a day near one of its changes or any day of 20 years."""
    name = draw(st.sampled_from(ZONES))
    near = changes(name)[draw(st.integers(0, 10_000)) % len(changes(name))]
    day = draw(st.one_of(st.integers(0, DAYS), st.integers(-2, 2).map(lambda off: near + off)))
    return name, FIRST + timedelta(days=day)


@pytest.mark.req("I-2")
@settings(max_examples=60, deadline=None)
@given(zone_days(), st.integers(0, 23))
@example(("Europe/Berlin", date(2026, 3, 29)), 2)
@example(("Europe/Berlin", date(2026, 10, 25)), 2)
@example(("Australia/Lord_Howe", date(2025, 10, 5)), 2)
@example(("Pacific/Apia", date(2011, 12, 30)), 4)
@example(("America/St_Johns", date(2010, 11, 7)), 0)
@example(("America/Sao_Paulo", date(2018, 11, 4)), 0)
def test_the_daily_hour_is_its_first_occurrence_on_the_wall_clock(zone_day: tuple[str, date], hour: int) -> None:
    name, day = zone_day
    assert daily_ms(day, hour, ZoneInfo(name)) == plain_daily_ms(day, hour, ZoneInfo(name))


@pytest.mark.req("I-2")
@settings(max_examples=60, deadline=None)
@given(zone_days(), st.integers(0, 23), st.integers(0, 86_399))
@example(("America/St_Johns", date(2010, 11, 6)), 0, 84_600)
def test_a_daily_reset_is_due_once_for_each_calendar_day(
    zone_day: tuple[str, date], hour: int, second: int
) -> None:
    name, day = zone_day
    zone = ZoneInfo(name)
    after = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() + second) * 1000
    days = [day + timedelta(days=n) for n in range(-2, 4)]
    assert next_daily_ms(after, hour, zone) == min(
        boundary for one in days if (boundary := plain_daily_ms(one, hour, zone)) > after)


@pytest.mark.req("I-2")
def test_a_missing_hour_rolls_forward_and_a_repeated_one_is_its_first() -> None:
    assert daily_ms(date(2026, 3, 29), 2, BERLIN) == at("2026-03-29T03:00")
    assert daily_ms(date(2026, 10, 25), 2, BERLIN) == at("2026-10-25T02:00", fold=0)
    assert daily_ms(date(2026, 10, 25), 2, BERLIN) + 3_600_000 == at("2026-10-25T02:00", fold=1)


@pytest.mark.req("I-1")
def test_a_session_of_yesterday_ends_at_four() -> None:
    daily, clocks = Reset(4, None), Clocks(at("2026-06-01T22:00"), at("2026-06-02T03:59"))
    assert due(daily, clocks, at("2026-06-02T03:59"), BERLIN) is None
    assert due(daily, clocks, at("2026-06-02T04:00"), BERLIN) == "daily"
    # A session begun at exactly that hour belongs to the day that begins then.
    assert due(daily, Clocks(at("2026-06-02T04:00"), 0), at("2026-06-03T03:59"), BERLIN) is None


@pytest.mark.req("I-1")
def test_with_both_rules_the_first_due_one_is_the_cause() -> None:
    both = Reset(4, 60 * 60_000)
    assert due(both, Clocks(at("2026-06-01T22:00"), at("2026-06-01T23:00")), at("2026-06-02T09:00"), BERLIN) == "idle"
    assert due(both, Clocks(at("2026-06-01T22:00"), at("2026-06-02T03:30")), at("2026-06-02T09:00"), BERLIN) == "daily"
    assert due(both, Clocks(at("2026-06-01T22:00"), at("2026-06-01T23:00")), at("2026-06-01T23:59"), BERLIN) is None
    assert due(Reset(None, None), Clocks(0, 0), at("2026-06-01T23:59"), BERLIN) is None


@pytest.mark.req("I-2")
def test_a_clock_that_was_ahead_does_not_prevent_resets() -> None:
    ahead, now = at("2031-01-01T12:00"), at("2026-06-01T22:00")
    assert due(Reset(4, 60 * 60_000), Clocks(ahead, ahead), now, BERLIN) is None, "it is as new as it can be"


@pytest.mark.req("I-1")
def test_a_thread_takes_its_fields_from_thread_then_group_then_the_general_rule() -> None:
    rules = ResetRules(
        ResetRule(mode="daily", at_hour=5),
        {"thread": ResetRule(mode="idle"), "group": ResetRule(idle_minutes=30), "direct": ResetRule(at_hour=6)},
    )
    assert reset_for(rules, "group", "chat", thread=True) == Reset(None, 30 * 60_000)
    assert reset_for(rules, "room", "chat") == Reset(5, 30 * 60_000)
    assert reset_for(rules, "direct", "chat") == Reset(6, None)


@pytest.mark.req("I-1")
def test_a_channels_rule_replaces_all_the_others() -> None:
    rules = ResetRules(ResetRule(mode="idle", idle_minutes=5), {"direct": ResetRule(at_hour=9)},
                       {"chat": ResetRule(mode="daily")}, legacy_idle_minutes=7)
    assert reset_for(rules, "direct", "chat") == Reset(4, None)
    assert reset_for(rules, "direct", "other") == Reset(None, 5 * 60_000)


@pytest.mark.req("I-1")
def test_the_old_idle_minutes_setting_alone_means_idle_resets_only() -> None:
    assert reset_for(ResetRules(), "direct", "chat") == Reset(4, None)
    assert reset_for(ResetRules(legacy_idle_minutes=7), "direct", "chat") == Reset(None, 7 * 60_000)
    assert reset_for(ResetRules(ResetRule(mode="daily"), legacy_idle_minutes=7), "direct", "x") == Reset(4, 7 * 60_000)
    assert reset_for(ResetRules(ResetRule(mode="none"), legacy_idle_minutes=7), "direct", "x") == Reset(None, None)


@pytest.mark.req("I-1")
@pytest.mark.parametrize(("message", "asked"), [
    ("/new", ResetCommand(None, "")),
    (" /RESET ", ResetCommand(None, "")),
    ("/new hello there", ResetCommand(None, "hello there")),
    ("/new\nhello\nthere", ResetCommand(None, "hello\nthere")),
    ("/reset opus", ResetCommand(None, "opus")),
    ("/new opus", ResetCommand("opus", "")),
    ("/new opus  write it", ResetCommand("opus", "write it")),
    ("/new openai/gpt-5", ResetCommand("openai/gpt-5", "")),
    ("/new src/main.py is broken", ResetCommand(None, "src/main.py is broken")),
    ("/newsletter", None),
    ("say /new", None),
    ("/ new", None),
    ("", None),
])
def test_a_persons_command_for_a_new_session_is_recognised(message: str, asked: ResetCommand | None) -> None:
    assert read_reset(message, {"opus"}) == asked
