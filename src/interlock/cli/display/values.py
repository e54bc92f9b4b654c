"""Conversion of values from and to the forms that people read and write."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from interlock.cli.display.terminal import one_line
from interlock.cli.verb_error import usage
from interlock.protocol.clock import parse_iso
from interlock.protocol.limits import KIB, MIB

RULE_CHARS = 400
"""A rule's line is cut here."""
_DURATION = re.compile(r"(\d{1,9})(ms|s|m|h|d)?")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(text: str, option: str) -> int:
    """Read "90s", "15m", "2h", or a plain number of seconds. Raises Trouble."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or int(found[1]) == 0:
        raise usage(f"{option} {text!r} is not a duration.", "Write it as 90s, 15m or 2h.")
    return int(found[1]) * _UNIT_MS[found[2] or "s"]


def span(seconds: float) -> str:
    """Format a span for a person: "45 s", "12 min", "3 h", "2 d"."""
    for limit, size, unit in ((90, 1, "s"), (90 * 60, 60, "min"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{max(0, round(seconds / size))} {unit}"
    return f"{round(seconds / 86400)} d"


def until(moment: str) -> str:
    """Format the time left until an ISO instant."""
    left = seconds_from_now(moment)
    return "no time" if left <= 0 else span(left)


def ago(moment: str) -> str:
    """Write how long ago an ISO instant was."""
    return f"{span(max(0.0, -seconds_from_now(moment)))} ago"


def age(moment: str) -> str:
    """Format the time since an ISO instant, for a column whose heading says so: "12 min"."""
    return span(max(0.0, -seconds_from_now(moment)))


def between(start: str | None, end: str | None) -> str:
    """Format the span between two ISO instants; "" if one is missing."""
    if not start or not end:
        return ""
    try:
        seconds = (parse_iso(end) - parse_iso(start)) / 1000
    except ValueError:
        return ""
    return f"{seconds:.1f} s" if seconds < 90 else span(seconds)


def size(number: int) -> str:
    """Write a count of bytes as people do: 512 B, 1.5 KiB, 3.0 MiB."""
    if number < KIB:
        return f"{number} B"
    return f"{number / KIB:.1f} KiB" if number < MIB else f"{number / MIB:.1f} MiB"


def count(number: int, noun: str) -> str:
    """Write "1 frame", "3 frames"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def seconds_from_now(moment: str) -> float:
    """Return the seconds until an ISO instant, negative after it; 0 for a text that is not an instant."""
    try:
        return parse_iso(moment) / 1000 - time.time()
    except ValueError:
        return 0.0


def not_a_glob(source: str) -> str:
    """Return the remark on a rule's expression that looks like a glob of a shell."""
    return (f"command = {one_line(source)!r} is a regular expression, in which * repeats the character before it; "
            'a glob is written with words, such as words = "echo **"')


def rule_line(rule: Mapping[str, Any], limit: int | None = RULE_CHARS) -> str:
    """Return a policy rule on one line, as the config would write it, without its name and source."""
    left_out = {"name", "source", "effect"}
    conditions = [f"{name} = {msgspec.json.encode(value).decode()}"
                  for name, value in rule.items() if name not in left_out]
    return one_line(f"{rule.get('effect', '?')} where " + (", ".join(conditions) or "anything"), limit)
