"""The sessions that the benchmark of transcripts lists are those of a gateway that a person could have."""

from __future__ import annotations

from pathlib import Path

from benchmarks.storage.session_rows import listed


def test_a_gateway_lists_the_sessions_that_were_created_for_it(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    assert listed(state, 30)["sessions"] == 30
