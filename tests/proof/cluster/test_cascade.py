"""`python -m proof cascade --into FILE`: what has passed is not run again, what has not is."""

from __future__ import annotations

from pathlib import Path

import pytest

from proof.cluster import cascade

pytestmark = pytest.mark.req("C-4")


def test_an_interrupted_run_continues_with_the_remaining_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[float] = []
    lost = {5.0: 1}

    def one(_seed: int, rtt_ms: float, kills: int, _sessions: int, *, inner: bool) -> cascade.Findings:
        assert not inner
        ran.append(rtt_ms)
        if rtt_ms == 25.0:
            raise KeyboardInterrupt
        return cascade.Findings(rtt_ms, {"nothing else": kills}, 9, lost.get(rtt_ms, 0), 0, 0, 0, [0.5])

    monkeypatch.setattr(cascade, "one", one)
    with pytest.raises(KeyboardInterrupt):
        cascade.run(1, None, rtt=[1.0, 5.0, 25.0], kills=6, sessions=10, into=tmp_path / "done")
    lost.clear()
    ran.clear()
    assert cascade.run(1, None, rtt=[1.0, 5.0], kills=4, sessions=10, into=tmp_path / "done")
    assert ran == [5.0], "it had failed"
    assert cascade.run(1, None, rtt=[1.0], kills=1, sessions=10, into=tmp_path / "done")
    assert ran == [5.0, 1.0], "of other counts nothing is known"
