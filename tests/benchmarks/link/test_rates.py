"""`python -m benchmarks link` measures every side in one run, and loses nothing on the way."""

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from benchmarks import REPOSITORY

pytestmark = pytest.mark.long



@pytest.mark.req("D-1", "D-2", "L-2")
def test_each_side_is_measured_and_every_frame_is_durable() -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks", "link", "--seconds", "0.3", "--json"], cwd=REPOSITORY,
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = msgspec.json.decode(done.stdout)
    assert report["frames_durable"] == report["frames_sent"] > 1_000
    for side in ("one", "batches", "acp", "limit"):
        assert len(report[side]["rounds"]) == 2
        assert report[side]["per_s"] > 0
    assert report["ack_p50_ms"] > 0
    assert report["child_mb_per_s"] > 0
    assert report["made_mb_per_s"] > 0
    assert report["disk_mb_per_s"] > 0
    assert report["reattach_s"] > 0
    assert report["idle"]["counted"] > 0
