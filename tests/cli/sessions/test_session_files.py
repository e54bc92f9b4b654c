"""A file that an agent named is saved here under a name without a path."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from cli.scripted import Script, answer, link_to
from cli.sessions.test_session_lives import session
from interlock.cli.exit_status import ExitStatus
from interlock.cli.sessions import session_files
from interlock.cli.sessions.session_files import local_name
from interlock.cli.verb_error import Trouble
from interlock.protocol.resources import SessionFile

DATA = b"a picture"


def stored(sha256: str = hashlib.sha256(DATA).hexdigest()) -> SessionFile:
    return SessionFile(transfer_id="tr_1", name="a.png", media_type="image/png", size=len(DATA), sha256=sha256,
                       purpose="output", created_at="2026-01-01T00:00:00.000Z")


def sends(_request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, content=DATA)


@pytest.mark.parametrize(("name", "local"), [
    ("a.png", "a.png"), ("../../etc/passwd", "passwd"), ("C:\\temp\\x.txt", "x.txt"), (".bashrc", "bashrc"),
    ("..", "file"), ("/", "file"), ("", "file"), ("a\x1b[2Jb\n.txt", "a[2Jb.txt"), ("x" * 500, "x" * 200),
])
def test_a_name_is_not_a_path_not_hidden_and_without_control_characters(name: str, local: str) -> None:
    assert local_name(name) == local


async def fetch(script: Script, state: Path, file: SessionFile, place: Path) -> None:
    async with link_to(script, state) as link:
        await session_files._fetch(link, "s1", file, place)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.anyio
async def test_a_file_appears_under_its_name_once_it_is_complete(tmp_path: Path) -> None:
    await fetch(Script({"GET /v1/sessions/s1/files/tr_1": [sends]}), tmp_path, stored(), tmp_path / "a.png")

    assert (tmp_path / "a.png").read_bytes() == DATA
    assert [one.name for one in tmp_path.iterdir() if one.name.endswith(".part")] == []


@pytest.mark.anyio
async def test_bytes_that_differ_from_the_announced_ones_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Trouble, match="is not the file"):
        await fetch(Script({"GET /v1/sessions/s1/files/tr_1": [sends]}), tmp_path, stored("0" * 64), tmp_path / "a.png")

    assert list(tmp_path.glob("*a.png*")) == []


@pytest.mark.anyio
async def test_a_file_that_appeared_in_between_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"mine")

    with pytest.raises(Trouble, match="cannot be written"):
        await fetch(Script({"GET /v1/sessions/s1/files/tr_1": [sends]}), tmp_path, stored(), tmp_path / "a.png")

    assert (tmp_path / "a.png").read_bytes() == b"mine"


def test_a_sessions_files_are_one_table_over_all_pages(
        scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = {**msgspec.to_builtins(stored()), "of_a_later_version": 1}
    _, where = scripted({"GET /v1/sessions": [answer({"items": [session()], "next_cursor": "", "has_more": False})],
                         "GET /v1/sessions/s-1/files": [
                             answer({"items": [file], "next_cursor": "c1", "has_more": True}),
                             answer({"items": [], "next_cursor": None, "has_more": False})]})
    assert session_files.files("@last", where=where) == ExitStatus.DONE
    header, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["FILE", "NAME", "TYPE", "SIZE", "FOR", "WHEN"]
    assert row.startswith("tr_1  a.png  image/png")
    assert session_files.files("s-1", where=where) == ExitStatus.DONE
    assert capsys.readouterr() == ("", "no files travelled in this session\n")


def test_json_rows_are_those_that_the_gateway_sent(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = {**msgspec.to_builtins(stored()), "of_a_later_version": 1}
    _, where = scripted({"GET /v1/sessions": [answer({"items": [session()], "next_cursor": "", "has_more": False})],
                         "GET /v1/sessions/s-1/files": [
                             answer({"items": [file], "next_cursor": None, "has_more": False})]})
    assert session_files.files("@last", json=True, where=where) == ExitStatus.DONE
    assert json.loads(capsys.readouterr().out) == {"files": [file]}
