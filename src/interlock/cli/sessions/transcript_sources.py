"""Where a transcript is read from: a session of the gateway, or a file, for which no gateway need run."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.config.place import Where
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.api.transcripts import EXPORT_TRANSCRIPT

MAX_FILE_BYTES = 1024 * 1024 * 1024
"""A larger file is not read into memory."""
ENDING = ".jsonl"

Source = Annotated[str, Parameter(name="SESSION", help="A session's id, a unique beginning, its key or @last; or a "
                                                       "transcript's file.")]


def file_named(text: str) -> Path | None:
    """The file that a word names: one with a slash or `.jsonl` is meant as a file, another is a session."""
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
    """How large a transcript's file is, in bytes. Raises Trouble for what is not a regular file, or may not be read."""
    try:
        # A FIFO would be waited for, and is found out without being opened.
        found = path.stat()
    except FileNotFoundError:
        raise Trouble("NotFound", f"There is no file {path}.", "List sessions with: interlock sessions") from None
    except OSError as error:
        raise usage(f"{path} cannot be read: {error.strerror}.", "Read it as a user who may.") from None
    if not stat.S_ISREG(found.st_mode):
        raise usage(f"{path} is not a regular file.", "Name a transcript's file.")
    return found.st_size


def read_within(path: Path, limit: int) -> bytes | None:
    """Read a file; None where it holds more bytes than `limit`. A pipe or a device does not
    state its size before, and may have no end. Raises OSError."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size > limit:
            return None
        data = file.read(limit + 1)
    return data if len(data) <= limit else None


async def transcript_of(text: str, where: Where, *, raw: bool = False) -> bytes:
    """A transcript's bytes, from a file or from the gateway, redacted there unless `raw`. Raises Trouble."""
    path = file_named(text)
    if path is not None:
        return read_file(path)
    async with GatewayLink(where) as link:
        session_id = (await short_ids.session(link, text)).session_id
        return await link.get(EXPORT_TRANSCRIPT.at(session_id) + ("?view=raw" if raw else ""))


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there yet, whole or not at all. Raises Trouble."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)  # Unlike a rename it never takes the place of another file.
    except FileExistsError:
        raise usage(f"{path} is there already.", "Name another place, or remove it.") from None
    except OSError as error:
        raise usage(f"{path} cannot be written: {error.strerror}.", "Name another place.") from None
    finally:
        draft.unlink(missing_ok=True)
