"""When memory is written before a compaction, and what that turn may do (Z-5)."""

from __future__ import annotations

import pytest

from interlock.session.context.compaction_plan import CompactionSettings, Flush, thresholds
from interlock.session.context.memory_flush import flush_due, prompt, system_prompt
from interlock.session.silence import TOKEN

pytestmark = [pytest.mark.req("Z-5")]
WINDOW = 200_000


def test_the_default_prompts_name_the_file_and_the_hint() -> None:
    assert "memory/2026-11-21.md" in prompt(Flush(), "2026-11-21")
    assert TOKEN in prompt(Flush(), "2026-11-21")
    assert TOKEN in system_prompt(Flush(), "2026-11-21")


def test_a_configured_prompt_gets_the_missing_hint() -> None:
    assert prompt(Flush(prompt="Write it down on {date}."), "2026-11-21").startswith("Write it down on 2026-11-21.")
    assert TOKEN in prompt(Flush(prompt="Write it down."), "2026-11-21")


def test_a_flush_runs_once_per_compaction_cycle_and_never_if_disabled() -> None:
    soft = thresholds(CompactionSettings(), WINDOW).flush
    assert soft == 176_000
    assert not flush_due(CompactionSettings(), WINDOW, soft, compactions=0, flushed_at=None)
    assert flush_due(CompactionSettings(), WINDOW, soft + 1, compactions=0, flushed_at=None)
    assert not flush_due(CompactionSettings(), WINDOW, soft + 1, compactions=0, flushed_at=0)
    assert flush_due(CompactionSettings(), WINDOW, soft + 1, compactions=1, flushed_at=0)
    off = CompactionSettings(memory_flush=Flush(enabled=False))
    assert not flush_due(off, WINDOW, WINDOW, compactions=0, flushed_at=None)
    assert not flush_due(CompactionSettings(enabled=False), WINDOW, WINDOW, compactions=0, flushed_at=None)
