"""When a cron job is due: five fields in a time zone, including days with clock changes (R-4). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from itertools import islice, takewhile

from cronsim import CronSim, CronSimError

FIELDS = 5
BEGINNING = datetime(2020, 1, 1, tzinfo=UTC)
"""A schedule that is never due after this, such as the 31st of April, is a mistake."""


class BadSchedule(ValueError):
    """Raised if a schedule cannot be parsed; the message is one sentence without its full stop."""


def check_schedule(text: str) -> None:
    """Raises BadSchedule."""
    if len(text.split()) != FIELDS:
        raise BadSchedule(f"{text!r} has not the five fields minute, hour, day, month and weekday")
    try:
        next(CronSim(text, BEGINNING))
    except CronSimError as error:
        raise BadSchedule(f"{text!r} is not a schedule: {str(error).lower()}") from None
    except StopIteration:
        raise BadSchedule(f"{text!r} is never due") from None


def due_after(text: str, zone: tzinfo, after_ms: int) -> Iterator[int]:
    """Yield the instants, milliseconds since 1970, at which a job is due after one; each once.

    A time of day that is skipped when clocks are set forward is due at the jump; one that occurs twice when they are
    set back is due the first time. A job of every hour or minute is due by real time.
    """
    for moment in CronSim(text, datetime.fromtimestamp(after_ms // 1000, UTC).astimezone(zone)):
        at_ms = round(moment.timestamp() * 1000)
        if at_ms > after_ms:
            yield at_ms


def next_due(text: str, zone: tzinfo, after_ms: int) -> int | None:
    """Return the first instant of `due_after`; None if there is none in fifty years."""
    return next(due_after(text, zone, after_ms), None)


def newest_due(text: str, zone: tzinfo, after_ms: int, until_ms: int) -> int | None:
    """Return the last instant at which a job was due after one and up to another."""
    return max(takewhile(lambda at_ms: at_ms <= until_ms, due_after(text, zone, after_ms)), default=None)


def how_often(text: str, zone: tzinfo, after_ms: int, before_ms: int, most: int) -> int:
    """Return, up to `most`, how many times a job was due between two instants."""
    return sum(1 for _ in islice(takewhile(lambda at_ms: at_ms < before_ms, due_after(text, zone, after_ms)), most))
