"""The line that shows what a command does while it runs has the parts that are known."""

from __future__ import annotations

import pytest

from interlock.cli.tasks.screen import Screen
from interlock.cli.tasks.turn_status import status_line

pytestmark = pytest.mark.req("Y-6")


def test_unknown_parts_are_left_out() -> None:
    screen = Screen("claude")
    assert status_line(screen, 5) == "5 s · working"
    screen.tokens = 12_345
    assert status_line(screen, 720) == "12 min · 12,345 tokens · working"
