"""The benchmarks run with their options, and count the same frames at every place of the path."""

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from benchmarks import REPOSITORY
from benchmarks.harness.report import Report, frames_table

pytestmark = pytest.mark.long



def benchmark(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "benchmarks", *arguments], cwd=REPOSITORY, capture_output=True,
                          text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def measured() -> bytes:
    return benchmark("frames", "--seconds", "0.3", "--json").encode()


@pytest.mark.req("D-1", "S-1")
def test_every_frame_is_durable_and_received_by_each_viewer(measured: bytes) -> None:
    report: dict[str, Any] = msgspec.json.decode(measured)
    assert [(whole["sessions"], whole["viewers"]) for whole in report["whole"]] == [(1, 4), (8, 32)]
    for whole in report["whole"]:
        sent = whole["frames_sent"]
        assert sent > 1_000
        assert whole["frames_durable"] == sent
        assert whole["frames_seen"] == [sent] * 4
    assert [part["name"] for part in report["parts"]] == ["decode", "step", "commit", "ack", "viewers"]
    assert report["latency"]["answers"] > 0


def test_the_table_names_the_path_its_parts_and_its_limits(measured: bytes) -> None:
    table = frames_table(msgspec.json.decode(measured, type=Report))
    for row in ("whole path, 1 session, 4 viewers", "whole path, 8 sessions, 32 viewers", "decode", "step", "commit",
                "ack", "viewers", "limit: bare ASGI echo", "limit: fdatasync", "durable acknowledgement"):
        assert row in table


def test_the_limits_of_the_host_are_measured_separately() -> None:
    found: dict[str, Any] = msgspec.json.decode(benchmark("limits", "--seconds", "0.2", "--json"))
    assert all(value > 0 for value in found.values())
