"""When a session key continues with a new session: the daily hour, idleness, or a person's command (I-1, I-2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Literal, NamedTuple

import msgspec

from interlock.session.chat.chat_route import ChatType

AT_HOUR_DEFAULT = 4
IDLE_MINUTES_DEFAULT = 60
"""Mode `idle`'s default, in minutes."""
MINUTE_MS = 60_000

ResetMode = Literal["daily", "idle", "none"]
ResetCause = Literal["daily", "idle"]


class ResetRule(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`session.reset`, or the differences for a chat type or a channel; None is not set."""

    mode: ResetMode | None = None
    at_hour: int | None = None
    """0 to 23, local time."""
    idle_minutes: int | None = None

    def __post_init__(self) -> None:
        if self.at_hour is not None and not 0 <= self.at_hour <= 23:
            raise ValueError("atHour: an hour from 0 to 23")
        if self.idle_minutes is not None and self.idle_minutes < 1:
            raise ValueError("idleMinutes: at least 1")


class ResetRules(NamedTuple):
    """The config of resets. `legacy_idle_minutes` is `session.idleMinutes`."""

    reset: ResetRule | None = None
    by_type: Mapping[str, ResetRule] = {}
    by_channel: Mapping[str, ResetRule] = {}
    legacy_idle_minutes: int | None = None


class Reset(NamedTuple):
    """The rule for one session; None is never."""

    at_hour: int | None
    idle_ms: int | None


class Clocks(NamedTuple):
    """The two clocks of a session, milliseconds since 1970 (I-2)."""

    started_ms: int
    interacted_ms: int

    def until(self, now_ms: int) -> Clocks:
        """Return the clocks limited to `now_ms`: a later time was stored while the host's clock was ahead."""
        return Clocks(min(self.started_ms, now_ms), min(self.interacted_ms, now_ms))


def reset_for(rules: ResetRules, chat_type: ChatType, channel: str, *, thread: bool = False) -> Reset:
    """Return the rule of a chat: its channel's rule alone, otherwise the thread's, the group's or direct's field by
    field, then the general one (I-1)."""
    own = rules.by_channel.get(channel)
    if own is not None:
        return _reset([own], None)
    kinds = [*(["thread"] if thread else []), "direct" if chat_type == "direct" else "group"]
    layers = [rules.by_type[kind] for kind in kinds if kind in rules.by_type]
    if rules.reset is not None:
        layers.append(rules.reset)
    return _reset(layers, rules.legacy_idle_minutes, is_configured=bool(rules.reset or rules.by_type))


def _reset(layers: list[ResetRule], legacy_idle_minutes: int | None, *, is_configured: bool = True) -> Reset:
    mode = next((rule.mode for rule in layers if rule.mode is not None), None)
    if mode is None:
        # A config with only the old setting had no daily reset, and gets none.
        mode = "idle" if not is_configured and legacy_idle_minutes is not None else "daily"
    at_hour = next((rule.at_hour for rule in layers if rule.at_hour is not None), AT_HOUR_DEFAULT)
    idle = next((rule.idle_minutes for rule in layers if rule.idle_minutes is not None), legacy_idle_minutes)
    if mode == "none":
        return Reset(None, None)
    if mode == "idle":
        return Reset(None, (idle or IDLE_MINUTES_DEFAULT) * MINUTE_MS)
    return Reset(at_hour, idle * MINUTE_MS if idle is not None else None)


def due(reset: Reset, clocks: Clocks, now_ms: int, zone: tzinfo) -> ResetCause | None:
    """Return why a person's next message starts a new session, the earliest cause, or None."""
    clocks = clocks.until(now_ms)
    idle_at = clocks.interacted_ms + reset.idle_ms if reset.idle_ms is not None else None
    daily_at = next_daily_ms(clocks.started_ms, reset.at_hour, zone) if reset.at_hour is not None else None
    if idle_at is not None and idle_at <= now_ms and (daily_at is None or idle_at <= daily_at):
        return "idle"
    return "daily" if daily_at is not None and daily_at <= now_ms else None


def next_daily_ms(after_ms: int, at_hour: int, zone: tzinfo) -> int:
    """Return the first daily reset after an instant."""
    day = _local(after_ms, zone).date()
    # Includes yesterday's: if a clock is set back over midnight, a date begins twice.
    for days in range(-1, 4):
        at = daily_ms(day + timedelta(days=days), at_hour, zone)
        if at > after_ms:
            return at
    raise AssertionError("no daily reset within three days")


def daily_ms(day: date, at_hour: int, zone: tzinfo) -> int:
    """Return the first instant at which the local clock shows `day`, `at_hour`:00 or later.

    So an hour that occurs twice counts the first time, and one that is skipped is the instant at which the clock jumps
    over it (I-2), also if a whole day is skipped.
    """
    wanted = datetime.combine(day, time(at_hour))
    # Inside a gap, fold 0 uses the offset before it and so is after the jump, fold 1 is before it.
    late, early = (int(wanted.replace(tzinfo=zone, fold=fold).timestamp()) for fold in (0, 1))
    if _shown(late, zone) == wanted:
        return late * 1000
    while late - early > 1:
        middle = (early + late) // 2
        early, late = (early, middle) if _shown(middle, zone) >= wanted else (middle, late)
    return late * 1000


def _shown(at_s: int, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(at_s, UTC).astimezone(zone).replace(tzinfo=None, fold=0)


def _local(at_ms: int, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone)


class ResetCommand(NamedTuple):
    """A person's `/new` or `/reset`: the model that it selects, and the text that becomes the first message."""

    model: str | None
    text: str


def read_reset(message: str, models: Collection[str] = ()) -> ResetCommand | None:
    """Parse `/new` and `/reset`, alone or followed by text; None if a message is neither (I-1).

    The word after `/new` is a model if it is one of `models`, or is the only word and is written `provider/model`.
    """
    word, rest = _first_word(message)
    if word.lower() not in ("/new", "/reset"):
        return None
    text = rest.strip()
    first, behind = _first_word(text)
    if word.lower() == "/new" and first and (first in models or (not behind.strip() and _like_a_model(first))):
        return ResetCommand(first, behind.strip())
    return ResetCommand(None, text)


def _first_word(text: str) -> tuple[str, str]:
    stripped = text.lstrip()
    word = stripped.split(maxsplit=1)[0] if stripped else ""
    return word, stripped[len(word):]


def _like_a_model(word: str) -> bool:
    provider, slash, model = word.partition("/")
    return bool(slash and provider and model) and not word.startswith((".", "~")) and provider.isidentifier()
