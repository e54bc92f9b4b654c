"""The tables that limit the size of a conversation (Z-1, Z-2, Z-5, Z-6, Z-7): OpenClaw's names, and bounds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.config.contexts import (
    MAX_PROMPT_CHARS,
    BeforeCompactSection,
    CompactionSection,
    ContextPruningSection,
    DefaultsSection,
    MemoryFlushSection,
)
from interlock.session.context.windows import LEAST_WINDOW, MOST_WINDOW

pytestmark = pytest.mark.req("Z-1", "Z-2", "Z-5", "Z-6", "Z-7")


@pytest.mark.parametrize(("form", "table", "sentence"), [
    (CompactionSection, {"windows": {"m": LEAST_WINDOW - 1}}, "is not a window of 'm'"),
    (CompactionSection, {"windows": {"m": MOST_WINDOW + 1}}, "is not a window of 'm'"),
    (CompactionSection, {"reserveTokens": -1}, "reserveTokens"), (CompactionSection, {"reserve_tokens": 1},
    "reserve_t"),
    (CompactionSection, {"beforeCompact": {"url": "https://x"}}, "secretFile: name the file"),
    (BeforeCompactSection, {"url": "x", "secretEnv": "A", "secretFile": "b"}, "secretFile: name the file"),
    (BeforeCompactSection, {"url": "x", "secretEnv": "A", "timeoutMs": 99}, "timeoutMs"),
    (BeforeCompactSection, {"secretEnv": "A"}, "url"), (MemoryFlushSection, {"prompt": ""}, "prompt"),
    (MemoryFlushSection, {"systemPrompt": "x" * (MAX_PROMPT_CHARS + 1)}, "systemPrompt"),
    (ContextPruningSection, {"softTrimRatio": 1.1}, "softTrimRatio"), (ContextPruningSection, {"placeholder": ""},
    "plac"),
    (ContextPruningSection, {"maxChars": -1}, "maxChars"), (DefaultsSection, {"workspace": "/w"}, "workspace"),
])
def test_a_value_beyond_its_bounds_is_named(form: Any, table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert(table, form)


def test_defaults_are_those_of_openclaw() -> None:
    compaction, defaults = CompactionSection(), DefaultsSection()
    assert (compaction.enabled, compaction.reserve_tokens, compaction.keep_recent_tokens) == (True, 16_384, 20_000)
    assert defaults.compaction.reserve_tokens_floor == 20_000
    assert (defaults.compaction.memory_flush.enabled, defaults.context_pruning.soft_trim_ratio) == (True, 0.3)


def test_a_hook_before_compaction_is_awaited_and_optional() -> None:
    hook = msgspec.convert({"url": "https://x", "secretEnv": "A"}, BeforeCompactSection)
    assert (hook.timeout_ms, hook.required) == (30_000, False)
