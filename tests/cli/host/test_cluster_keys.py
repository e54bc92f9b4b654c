"""The keys of a cluster: created once, private, and never overwritten (C-4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.cli.config.place import OWNER_KEY_FILE
from interlock.cli.host.cluster_keys import cluster_keys
from interlock.cli.verb_error import Trouble
from interlock.gateway.audit.signing_key import KEY_NAME, PUBLIC_NAME

pytestmark = pytest.mark.req("C-4")


def test_all_three_keys_are_named_and_a_second_call_changes_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "keys"
    assert cluster_keys(place) == 0
    before = {one.name: one.read_bytes() for one in place.iterdir()}
    assert cluster_keys(place) == 0

    assert {one.name: one.read_bytes() for one in place.iterdir()} == before
    assert {KEY_NAME, PUBLIC_NAME, OWNER_KEY_FILE} <= set(before)
    assert before[OWNER_KEY_FILE].startswith(b"ilk_")
    for secret in (KEY_NAME, OWNER_KEY_FILE):
        assert (place / secret).stat().st_mode & 0o077 == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == [str(place / name) for name in (KEY_NAME, PUBLIC_NAME, OWNER_KEY_FILE)] * 2


def test_a_directory_that_cannot_be_written_gives_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(Trouble, match="cannot be written") as trouble:
        cluster_keys(tmp_path / "file" / "below")
    assert trouble.value.remedy == "Name another directory."
