"""A day as a person types it: today, yesterday, a day of the week, or a date, in a time zone (Y-9). Pure."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, tzinfo
from typing import NamedTuple

from interlock.cli.verb_error import usage

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
LEAST_LETTERS = 3
"""Minimum letters of a shortened day of the week."""


class Day(NamedTuple):
    """A day in a time zone; both times are Unix milliseconds, the end is exclusive."""

    name: str
    start_ms: int
    end_ms: int


def read_day(text: str, now: datetime, zone: tzinfo | None = None, option: str = "--on") -> Day:
    """Parse a day before or at `now`, an aware time. A day of the week is its last one, which may be today. If `zone`
    is None, this machine's zone is used, with its rule for each date. Raises Trouble."""
    today = now.astimezone(zone).date()
    day = _date_of(text.strip().lower(), today)
    if day is None:
        raise usage(f"{option} {text!r} is not a day.", "Write it as today, yesterday, tuesday or 2026-11-24.")
    if day > today:
        raise usage(f"{option} {text!r} is a day that has not come yet.")
    return Day(f"{day:%A} {day.isoformat()}", _midnight_ms(day, zone), _midnight_ms(day + timedelta(days=1), zone))


def _date_of(word: str, today: date) -> date | None:
    if word in ("today", "yesterday"):
        return today - timedelta(days=word == "yesterday")
    for number, name in enumerate(WEEKDAYS):
        if len(word) >= LEAST_LETTERS and name.startswith(word):
            return today - timedelta(days=(today.weekday() - number) % 7)
    try:
        found = date.fromisoformat(word)
    except ValueError:
        return None
    return found if date(1970, 1, 2) <= found < date.max else None


def _midnight_ms(day: date, zone: tzinfo | None) -> int:
    midnight = datetime.combine(day, time(), zone)
    return round((midnight if zone is not None else midnight.astimezone()).timestamp() * 1000)
