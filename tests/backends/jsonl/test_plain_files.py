"""Special files under the name of a transcript: opening one never blocks, and no link is followed (X-4)."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.jsonl.transcript_file import HEADER, line
from interlock.backends.jsonl.transcripts import JsonlTranscripts

pytestmark = pytest.mark.anyio


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        here = Path.cwd()
        os.chdir(path.parent)  # A socket's whole path may be too long for its address.
        end.bind(path.name)
        os.chdir(here)


def _device(path: Path) -> None:
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))


@pytest.mark.req("X-4")
@pytest.mark.parametrize(("make", "kind"), [
    (_fifo, "a FIFO"), (Path.mkdir, "a directory"), (_socket, "a socket"), (_device, "a device"),
    (lambda path: path.symlink_to("elsewhere"), "a symbolic link")])
async def test_an_irregular_file_is_refused_and_blocks_no_other_session(
    transcripts: JsonlTranscripts, file: Path, make: Callable[[Path], None], kind: str
) -> None:
    file.parent.mkdir(parents=True)
    try:
        make(file)
    except PermissionError:
        pytest.skip("this machine makes no device files for this user")
    other = HEADER._replace(session_id="S2")
    refused = rf"it is {kind}, and no regular file: '.*S1\.jsonl'"
    async with asyncio.timeout(20):
        for call in (lambda: transcripts.append(HEADER, [line("a")]), lambda: transcripts.ids("S1", "shell", "t1"),
                     lambda: transcripts.leaf("S1", "shell", "t1"), lambda: transcripts.read("S1", "shell", "t1"),
                     lambda: transcripts.tree("S1", "shell", "t1"), lambda: transcripts.context("S1", "shell", "t1"),
                     lambda: transcripts.page("S1", "shell", "t1", 0, 1),
                     lambda: transcripts.rewrite("S1", "shell", "t1", lambda _: None)):
            with pytest.raises(OSError, match=refused):
                await call()
        # So is what lies where an index, or the draft of one, would be.
        await transcripts.append(other, [line("a")])
        make(file.with_name("S2.jsonl.index"))
        make(file.with_name(".S2.jsonl.index.new"))
        assert (await transcripts.page("S2", "shell", "t1", 0, 5)).entries == 1


async def test_a_link_is_not_followed(transcripts: JsonlTranscripts, file: Path, tmp_path: Path) -> None:
    file.parent.mkdir(parents=True)
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        await transcripts.append(HEADER, [line("a")])
    assert not (tmp_path / "elsewhere").exists()
