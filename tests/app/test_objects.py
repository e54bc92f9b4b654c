"""Where large objects are stored: a directory, a bucket, and both if the directory has earlier ones (E-5)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from interlock.app.objects import OBJECTS_NAME, open_objects
from interlock.backends.objects.directory import DirectoryObjects
from interlock.backends.objects.relocation import MovedObjects
from interlock.config import ConfigError, ObjectsSection

pytestmark = [pytest.mark.anyio, pytest.mark.req("E-5")]


async def test_without_a_bucket_objects_are_below_the_state_directory(tmp_path: Path) -> None:
    objects = open_objects(tmp_path, ObjectsSection(), os.urandom)
    kept = await objects.put([b"x"])

    assert isinstance(objects, DirectoryObjects)
    assert any(kept.sha256[2:] in str(path) for path in (tmp_path / OBJECTS_NAME).rglob("*"))


async def test_a_bucket_without_a_region_gives_a_sentence_of_the_config(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("boto3")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))

    with pytest.raises(ConfigError, match=r"\[objects\]"):
        open_objects(tmp_path, ObjectsSection(s3_bucket="b", s3_endpoint="not a url"), os.urandom)


async def test_objects_stored_in_the_directory_before_a_bucket_are_still_read(tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    section = ObjectsSection(s3_bucket="b", s3_endpoint="http://127.0.0.1:9", s3_region="x")

    assert not isinstance(open_objects(tmp_path, section, os.urandom), MovedObjects)
    (tmp_path / OBJECTS_NAME).mkdir()
    assert isinstance(open_objects(tmp_path, section, os.urandom), MovedObjects)
