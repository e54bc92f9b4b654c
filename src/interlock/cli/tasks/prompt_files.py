"""`--image` and `--file` of a prompt: checked and read before anything is started."""

from __future__ import annotations

import base64
import hashlib
import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.limits import MAX_COMMAND_BINARY_BYTES, MAX_INLINE_BINARY_BYTES

IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF87a": "image/gif", b"GIF89a": "image/gif",
}
"""First bytes of each kind of image; WebP is recognised by two marks."""


def attached(images: Sequence[Path], files: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the content parts of the files that are attached to a prompt. Raises Trouble if a file is missing,
    unreadable, too large, or not an image."""
    parts = [_part(path, "image") for path in images] + [_part(path, "file") for path in files]
    total = sum(len(base64.b64decode(part["value"]["data"])) for part in parts)
    if total > MAX_COMMAND_BINARY_BYTES:
        raise usage(f"The files have {total} bytes together; {MAX_COMMAND_BINARY_BYTES} are the most.",
                    "Put them into the workspace and name them in the prompt.")
    return parts


def _part(path: Path, kind: Literal["image", "file"]) -> dict[str, Any]:
    data = _read(path, kind)
    media_type = image_type(data) if kind == "image" else mimetypes.guess_type(path.name)[0]
    if kind == "image" and media_type is None:
        raise usage(f"--image {path} is not a PNG, JPEG, GIF or WebP image.", "Give another file with --file.")
    return {"contentType": kind, "value": {
        "encoding": "base64", "data": base64.b64encode(data).decode(), "sha256": hashlib.sha256(data).hexdigest(),
        "media_type": media_type or "application/octet-stream", "name": path.name}}


def _read(path: Path, kind: str) -> bytes:
    try:
        if not path.is_file():
            what = "it is not a file" if path.exists() else "there is no such file"
            raise usage(f"--{kind} {path}: {what}.", "Check the path.")
        with path.open("rb") as file:
            data = file.read(MAX_INLINE_BINARY_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, kind, error) from None
    if len(data) > MAX_INLINE_BINARY_BYTES:
        raise usage(f"--{kind} {path} is larger than {MAX_INLINE_BINARY_BYTES} bytes, the most that a prompt takes.",
                    "Put it into the workspace and name it in the prompt.")
    if not data:
        raise usage(f"--{kind} {path} is empty.", "Leave it out.")
    return data


def _unreadable(path: Path, kind: str, error: OSError) -> Trouble:
    return usage(f"--{kind} {path} cannot be read: {error.strerror}.", "Check who may read it.")


def image_type(data: bytes) -> str | None:
    """Return the media type of an image that agents accept, by its first bytes."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((name for mark, name in IMAGES.items() if data.startswith(mark)), None)
