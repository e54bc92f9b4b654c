"""How people write durations, and how spans, sizes and rules are written for them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from interlock.cli.display.values import (
    RULE_CHARS,
    age,
    ago,
    between,
    count,
    milliseconds,
    rule_line,
    size,
    span,
    until,
)
from interlock.cli.verb_error import Trouble
from interlock.protocol.clock import iso


@pytest.mark.parametrize(("text", "ms"), [
    ("90s", 90_000), ("15m", 900_000), ("2h", 7_200_000), (" 2d ", 172_800_000), ("45", 45_000), ("250ms", 250)])
def test_a_duration_has_a_unit_or_is_seconds(text: str, ms: int) -> None:
    assert milliseconds(text, "--for") == ms


@pytest.mark.parametrize("text", ["", "0", "0s", "-5s", "1.5h", "5 m", "5M", "soon", "9" * 10, "1h30m"])
def test_an_invalid_duration_gives_one_sentence_with_its_option(text: str) -> None:
    with pytest.raises(Trouble, match=r"--for .* is not a duration") as caught:
        milliseconds(text, "--for")
    assert (caught.value.status, caught.value.remedy) == (2, "Write it as 90s, 15m or 2h.")


@pytest.mark.parametrize(("seconds", "text"), [
    (-5, "0 s"), (0.4, "0 s"), (45, "45 s"), (89, "89 s"), (90, "2 min"), (5_399, "90 min"), (5_400, "2 h"),
    (172_799, "48 h"), (172_800, "2 d"), (8_640_000, "100 d"),
])
def test_a_span_is_one_figure(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_an_instant_is_shown_relative_to_now() -> None:
    now_ms = int(time.time() * 1000)
    assert until(iso(now_ms + 600_500)) == "10 min"
    assert until(iso(now_ms - 1_000)) == until("not an instant") == "no time"
    assert ago(iso(now_ms - 7_200_000)) == "2 h ago"
    assert ago(iso(now_ms + 7_200_000)) == "0 s ago", "a clock that is ahead is not a negative age"
    assert age(iso(now_ms - 7_200_000)) == "2 h"


@pytest.mark.parametrize(("start", "end", "text"), [
    (None, iso(0), ""), (iso(0), None, ""), (iso(0), "odd", ""), (iso(0), iso(1_530), "1.5 s"), (iso(0), iso(600_000),
    "10 min")])
def test_the_span_between_two_instants_is_shown(start: str | None, end: str | None, text: str) -> None:
    assert between(start, end) == text


@pytest.mark.parametrize(("number", "text"), [
    (0, "0 B"), (1_023, "1023 B"), (1_536, "1.5 KiB"), (3 * 1_024**2, "3.0 MiB"), (5 * 1_024**3, "5120.0 MiB")])
def test_bytes_have_the_usual_units(number: int, text: str) -> None:
    assert size(number) == text


def test_one_is_singular() -> None:
    assert [count(number, "frame") for number in (0, 1, 2)] == ["0 frames", "1 frame", "2 frames"]


@pytest.mark.parametrize(("rule", "line"), [
    ({"effect": "deny", "name": "n", "source": "config", "tool": "bash"}, 'deny where tool = "bash"'),
    ({"effect": "allow"}, "allow where anything"), ({}, "? where anything"),
    ({"effect": "ask", "tool": ["a", "b\n\x1b[2J"]}, 'ask where tool = ["a","b\\n\\u001b[2J"]'),
])
def test_a_rule_is_one_line_in_the_form_of_the_config(rule: dict[str, Any], line: str) -> None:
    assert rule_line(rule) == line


def test_a_long_rule_is_cut() -> None:
    assert len(rule_line({"effect": "deny", "command": "x" * 5_000})) <= RULE_CHARS
