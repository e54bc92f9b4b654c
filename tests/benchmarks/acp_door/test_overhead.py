"""`python -m benchmarks acp`: its agent, its arithmetic and its table (O-1, O-3)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.acp_door import scripted_agent
from benchmarks.acp_door.overhead import Reader, Report, Side, side_of, table

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-1", "O-3")]


def test_the_agent_sends_the_requested_pieces_and_then_ends_the_prompt() -> None:
    prompts = [{"jsonrpc": "2.0", "id": number, "method": "session/prompt",
                "params": {"sessionId": "s", "prompt": [{"type": "text", "text": text}]}}
               for number, text in enumerate(("fast 3", "paced 1"))]
    began = time.monotonic_ns()
    ran = subprocess.run([sys.executable, scripted_agent.__file__], input="\n".join(map(json.dumps, prompts)),
                         text=True, capture_output=True, check=True, timeout=60)
    messages: list[dict[str, Any]] = [json.loads(line) for line in ran.stdout.splitlines()]
    texts = [one["params"]["update"]["content"]["text"] for one in messages if "method" in one]

    assert [len(text) for text in texts[:3]] == [scripted_agent.PIECE_CHARS] * 3
    assert began < int(texts[3].removeprefix("@")) < time.monotonic_ns()
    assert [one.get("id") for one in messages] == [None, None, None, 0, None, 1]


async def test_a_reader_counts_each_time_once_at_any_cut() -> None:
    reader = Reader()
    reader.expect(0)
    text = f"@{time.monotonic_ns()}\n@{time.monotonic_ns()}\n"
    for piece in (text[:5], text[5:30], text[30:]):
        await reader.session_update("s", SimpleNamespace(
            session_update="agent_message_chunk", content=SimpleNamespace(text=piece)))
    assert len(reader.delays) == 2
    assert all(0 <= delay < 60_000 for delay in reader.delays)


def test_each_path_is_compared_with_the_bare_agent_round_by_round() -> None:
    side = side_of("interlock acp", [50.0, 90.0, 80.0], [100.0, 100.0, 100.0], [[3.0], [4.0], [9.0]],
                   [[1.0], [1.0], [2.0]])
    assert (side.pieces_per_s, side.of_direct, side.added_p50_ms) == (80.0, 0.8, 3.0)


def test_the_table_names_figures_and_limits() -> None:
    report = Report(initialize_s=0.512, interpreter_s=0.02, door_pss_mb=28.04, pieces=2_000, delays=50, sides=[
        Side("the agent alone", 10_000, 1.0, 0.5, 4.0, 0.0), Side("/acp", 9_000, 0.9, 2.5, 13.0, 2.0)])
    lines = table(report).splitlines()
    assert lines[2].split() == ["/acp", "9,000", "0.90", "2.50", "ms", "13.00", "ms", "2.00", "ms"]
    assert "at least 0.8 of direct, at most 5 ms added; 2,000 pieces" in lines[3]
    assert lines[4].startswith("initialize answered 0.51 s")
    assert lines[5].endswith("28.0 MB")
