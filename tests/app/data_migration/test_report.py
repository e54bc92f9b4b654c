"""Both sides of a move are counted: a difference stops it, and the sentence names each table that differs."""

from __future__ import annotations

import pytest

from interlock.app.data_migration.report import MoveRefused, compared


def test_equal_counts_are_moved_whatever_else_the_target_contains() -> None:
    compared({"session": 3, "command": 0}, {"session": 3, "command": 0, "lane": 9})


def test_each_table_that_differs_is_named_with_both_counts() -> None:
    with pytest.raises(MoveRefused) as refused:
        compared({"session": 3, "command": 5, "event": 7}, {"session": 3, "command": 4})

    assert "command (5 and 4), event (7 and None)" in str(refused.value)
    assert "session" not in str(refused.value)
    assert "nothing was moved" in str(refused.value)
