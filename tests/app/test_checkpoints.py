"""Where checkpoints are stored: a file, and also a bucket under an object lock if the config names one (U-3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.checkpoints import open_sink
from interlock.backends.checkpoints.files import CheckpointFiles
from interlock.backends.memory.clock import ManualClock
from interlock.config import AuditSection, ConfigError

pytestmark = pytest.mark.req("U-3")


def test_without_a_bucket_checkpoints_are_in_a_file_of_the_state(tmp_path: Path) -> None:
    sink = open_sink(tmp_path, AuditSection(), ManualClock())
    sink.append("t1", b"line\n")

    assert isinstance(sink, CheckpointFiles)
    assert sink.lines("t1") == [b"line\n"]


def test_an_unreachable_bucket_gives_a_sentence_of_the_config(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))

    with pytest.raises(ConfigError, match=r"\[audit\]"):
        open_sink(tmp_path, AuditSection(s3_bucket="b", s3_endpoint="not a url"), ManualClock())
    both = open_sink(tmp_path, AuditSection(s3_bucket="b", s3_endpoint="http://127.0.0.1:9", s3_region="x"),
                     ManualClock())
    assert not isinstance(both, CheckpointFiles)
