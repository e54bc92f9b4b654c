"""Files of the state directory (G-2): which are private, which are written atomically, and which process runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.cli.config.place import (
    GATEWAY_FILE,
    GatewayFile,
    Where,
    gateway_file,
    state_directory,
    writable,
    write_private,
)
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("G-2")


def test_a_private_file_is_written_atomically_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    write_private(path, b"one")
    write_private(path, b"two")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o600)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [one.name for one in path.parent.iterdir()] == ["file"], "nothing is left beside it"


@pytest.mark.parametrize(("raw", "found"), [
    (b'{"url":"http://x","pid":7}', GatewayFile("http://x", 7)), (b"", None), (b"{}", None), (b"\xff", None), (b"[]",
    None)])
def test_the_running_gateway_is_read_or_none(tmp_path: Path, raw: bytes, found: GatewayFile | None) -> None:
    assert gateway_file(tmp_path) is None
    (tmp_path / GATEWAY_FILE).write_bytes(raw)
    assert gateway_file(tmp_path) == found


def test_an_impossible_state_directory_gives_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(Trouble, match="state directory") as caught:
            state_directory(place)
        assert caught.value.status == 2
    assert Where(state=tmp_path).directory() == tmp_path


def test_a_directory_is_tested_before_it_is_used(tmp_path: Path) -> None:
    assert writable(tmp_path) == tmp_path
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Trouble, match="cannot be written"):
        writable(tmp_path / "nowhere")
