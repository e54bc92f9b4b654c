"""The two halves of R13: streams over a SIGTERM, and how growth of memory and descriptors is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.recovery.graceful_stop import GONE_S, stop_and_resume
from proof.recovery.soak import Look, held, wrong

pytestmark = pytest.mark.long

STREAMS = 20


@pytest.mark.on_cluster
@pytest.mark.req("S-1", "S-3", "G-3")
def test_streams_that_were_open_at_a_sigterm_continue_at_their_position(tmp_path: Path) -> None:
    seen = stop_and_resume(tmp_path, STREAMS, sessions=2)

    assert seen.wrong == []
    assert seen.ended == STREAMS
    assert seen.gone_s < GONE_S


def test_growth_is_found_and_fluctuation_is_not() -> None:
    steady = [Look(at_s, 100_000_000 + at_s % 7 * 1_000_000, 40 + at_s % 5) for at_s in range(600)]
    assert wrong("gateway", held(steady)) == []
    growing = [Look(at_s, rss + at_s * 25_000, descriptors + at_s // 10) for at_s, rss, descriptors in steady]
    assert held(growing).mb_a_minute == pytest.approx(1.5, abs=0.1)
    assert len(wrong("gateway", held(growing))) == 2
    cold = [look._replace(rss_bytes=look.rss_bytes - 50_000_000) if look.at_s < 60 else look for look in steady]
    assert wrong("gateway", held(cold)) == []
