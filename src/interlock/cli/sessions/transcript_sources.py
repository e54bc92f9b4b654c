"""The source of a transcript: a session of the gateway, or a file, which needs no running gateway."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from interlock.app.scratch_directory import EXPORT_PREFIX, new_file
from interlock.cli import short_ids
from interlock.cli.config.place import Where, read_within
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.api.transcripts import EXPORT_TRANSCRIPT
from interlock.session.transcript.tree import is_transcript

MAX_FILE_BYTES = 1024 * 1024 * 1024
"""A larger file is not read into memory."""
ENDING = ".jsonl"

Source = Annotated[str, Parameter(name="SESSION", help="A session's id, a unique beginning, its key or @last; or a "
                                                       "transcript's file.")]


def file_named(text: str) -> Path | None:
    """Return the file that a word names, or None: a word with a slash or `.jsonl` is a file, another is a session."""
    return Path(text) if os.sep in text or text.endswith(ENDING) else None


def read_file(path: Path) -> bytes:
    """Read a transcript's file. Raises Trouble."""
    try:
        if path.is_dir():
            raise usage(f"{path} is a directory.", "Name a transcript's file, or a session.")
        data = read_within(path, MAX_FILE_BYTES)
        if data is None:
            raise usage(f"{path} is larger than {MAX_FILE_BYTES} bytes.", "Split it first.")
        return data
    except FileNotFoundError:
        raise Trouble("NotFound", f"There is no file {path}.", "List sessions with: interlock sessions") from None
    except OSError as error:
        raise usage(f"{path} cannot be read: {error.strerror}.", "Read it as a user who may.") from None


def file_size(path: Path) -> int:
    """Return the size of a transcript's file in bytes. Raises Trouble if it is not a regular file, or may not be
    read."""
    try:
        # Opening a FIFO would block, so its kind is found out without opening it.
        found = path.stat()
    except FileNotFoundError:
        raise Trouble("NotFound", f"There is no file {path}.", "List sessions with: interlock sessions") from None
    except OSError as error:
        raise usage(f"{path} cannot be read: {error.strerror}.", "Read it as a user who may.") from None
    if not stat.S_ISREG(found.st_mode):
        raise usage(f"{path} is not a regular file.", "Name a transcript's file.")
    return found.st_size


async def transcript_of(text: str, where: Where, *, raw: bool = False) -> bytes:
    """Return a transcript's bytes, from a file or from the gateway, which redacts them unless `raw`. Raises Trouble,
    also if the file is not a transcript."""
    path = file_named(text)
    if path is not None:
        data = read_file(path)
        if not is_transcript(data.split(b"\n")):
            raise usage(f"{path} is not a transcript: none of its lines is a header or an entry.",
                        "Name a transcript's file, or a session.")
        return data
    async with GatewayLink(where) as link:
        session_id = (await short_ids.session(link, text)).session_id
        return await link.get(EXPORT_TRANSCRIPT.at(session_id) + ("?view=raw" if raw else ""))


def write_new(path: Path, data: bytes) -> None:
    """Write a file that does not exist yet, atomically. Raises Trouble."""
    try:
        with new_file(path, EXPORT_PREFIX) as file:
            file.write(data)
    except FileExistsError:
        raise usage(f"{path} is there already.", "Name another place, or remove it.") from None
    except OSError as error:
        raise usage(f"{path} cannot be written: {error.strerror}.", "Name another place.") from None
