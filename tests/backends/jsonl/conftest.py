"""A store of transcripts in a fresh state directory, and the file of its session S1."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interlock.backends.jsonl.transcripts import JsonlTranscripts
from interlock.backends.memory.clock import ManualClock


@pytest.fixture
async def transcripts(tmp_path: Path) -> AsyncIterator[JsonlTranscripts]:
    store = JsonlTranscripts(tmp_path / "state", ManualClock(1_800_000_000_123))
    yield store
    await store.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "agents" / "shell" / "sessions" / "S1.jsonl"
