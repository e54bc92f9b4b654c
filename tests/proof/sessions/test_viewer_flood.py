"""The proof of many streams of one viewer (S9), in a size that the suite can bear; its times are the proof's."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.sessions.viewer_flood import crowded


@pytest.mark.req("K-3", "S-4")
def test_commands_are_accepted_beside_more_streams_than_one_viewer_may_have(tmp_path: Path) -> None:
    seen = crowded(tmp_path, streams=60, history=1_000, measured_s=2, allowed=40)
    assert (seen.opened, seen.refused) == (40, 20)
    assert len(seen.beside_s) > 0
    assert seen.sent_mib > 0
