"""Files of a prompt are checked before anything is started; received files get a harmless name (E-5, G-7)."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from interlock.cli.dispatch import dispatch
from interlock.cli.sessions.session_files import local_name
from interlock.cli.tasks.prompt_files import attached, image_type
from interlock.cli.verb_error import Trouble
from interlock.protocol.limits import MAX_COMMAND_BINARY_BYTES, MAX_INLINE_BINARY_BYTES

pytestmark = pytest.mark.req("E-5")
PNG = b"\x89PNG\r\n\x1a\nrest"


def test_files_become_content_parts(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "b.csv").write_bytes(b"1,2")
    image, file = attached([tmp_path / "a.png"], [tmp_path / "b.csv"])
    assert image == {"contentType": "image", "value": {
        "encoding": "base64", "data": base64.b64encode(PNG).decode(), "media_type": "image/png", "name": "a.png",
        "sha256": hashlib.sha256(PNG).hexdigest()}}
    assert (file["contentType"], file["value"]["media_type"], file["value"]["name"]) == ("file", "text/csv", "b.csv")


@pytest.mark.parametrize(("data", "media_type"), [
    (PNG, "image/png"), (b"\xff\xd8\xff\xe0", "image/jpeg"), (b"GIF89a", "image/gif"), (b"RIFF1234WEBP", "image/webp"),
    (b"RIFF1234WAVE", None), (b"", None), (b"<svg", None),
])
def test_an_image_is_recognised_by_its_first_bytes(data: bytes, media_type: str | None) -> None:
    assert image_type(data) == media_type


@pytest.mark.parametrize(("data", "sentence"), [
    (None, "there is no such file"), (b"", "is empty"), (b"text", "is not a PNG, JPEG, GIF or WebP image"),
    (PNG + bytes(MAX_INLINE_BINARY_BYTES), "is larger than"),
])
def test_an_invalid_image_gives_one_sentence_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes | None, sentence: str
) -> None:
    path = tmp_path / "a.png"
    if data is not None:
        path.write_bytes(data)
    assert dispatch(["run", "claude", "look", "--image", str(path), "--no-input"]) == 2
    printed = capsys.readouterr().err
    assert sentence in printed
    assert "Traceback" not in printed


def test_many_files_have_a_common_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(MAX_INLINE_BINARY_BYTES))
    count = MAX_COMMAND_BINARY_BYTES // MAX_INLINE_BINARY_BYTES
    assert len(attached([], [path] * count)) == count
    with pytest.raises(Trouble, match="bytes together"):
        attached([], [path] * (count + 1))


@pytest.mark.parametrize(("name", "local"), [
    ("plot.png", "plot.png"), ("../../etc/passwd", "passwd"), ("C:\\a\\b.txt", "b.txt"), (".bashrc", "bashrc"),
    ("..", "file"), ("", "file"), ("a\x1b[31m\n.txt", "a[31m.txt"), ("x" * 300, "x" * 200),
])
def test_a_file_name_chosen_by_an_agent_stays_in_this_directory(name: str, local: str) -> None:
    assert local_name(name) == local


def test_a_directory_is_not_called_absent(tmp_path: Path) -> None:
    with pytest.raises(Trouble, match="it is not a file"):
        attached([], [tmp_path])
