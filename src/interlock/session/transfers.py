"""Files split into `agent.file.transfer` chunks and joined again, and prompts whose content is sent this way (E-5).
Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from interlock.protocol.envelope import Frame
from interlock.protocol.limits import FILE_CHUNK_BYTES, KIB, MAX_FILE_BYTES, MAX_PROMPT_BYTES
from interlock.protocol.payloads import FileChunk, FileTransfer, PromptRequest
from interlock.protocol.sizes import json_size

SMALL_BLOCK_BYTES = 1 * KIB
"""A smaller block of a prompt stays in it: its name would take as much space."""
MAX_NAME_CHARS = 255
"""A file's name is cut here."""
MAX_MEDIA_TYPE_CHARS = 127

_encode = msgspec.json.Encoder().encode


class Digest(Protocol):
    """An incremental hash, as in hashlib."""

    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class TransferRefused(Exception):
    """Raised if a transfer, or a reference to it, is invalid; the text is one sentence."""


class File(NamedTuple):
    """A file to transfer: its name and its bytes. `purpose` is one of prompt, output, tool_output."""

    name: str
    media_type: str
    data: bytes
    purpose: str


def chunks(transfer_id: str, file: File) -> list[FileTransfer]:
    """Split a file into frames, in order. Raises TransferRefused above MAX_FILE_BYTES."""
    size = len(file.data)
    if size > MAX_FILE_BYTES:
        raise TransferRefused(f"{file.name} has {size} bytes; a file has at most {MAX_FILE_BYTES}.")
    count = max(1, -(-size // FILE_CHUNK_BYTES))
    sha256 = hashlib.sha256(file.data).hexdigest()
    return [
        FileTransfer(
            transfer_id=transfer_id, name=file.name[:MAX_NAME_CHARS], media_type=file.media_type[:MAX_MEDIA_TYPE_CHARS],
            size=size, sha256=sha256, purpose=file.purpose,
            content=base64.b64encode(file.data[at : at + FILE_CHUNK_BYTES]).decode(),
            chunk=FileChunk(index=index, count=count) if count > 1 else None,
        )
        for index, at in enumerate(range(0, max(size, 1), FILE_CHUNK_BYTES))
    ]


def set_apart(frame: Frame, raw: bytes, objects: list[bytes]) -> tuple[Frame, bytes]:
    """Add the bytes of a chunk to `objects`, and return the frame, and its bytes, with their name instead. Raises
    TransferRefused."""
    data = bytes_of(frame.payload)
    objects.append(data)
    return without_content(frame, raw, hashlib.sha256(data).hexdigest())


def without_content(frame: Frame, raw: bytes, name: str) -> tuple[Frame, bytes]:
    """Return a chunk's frame, and its bytes, with the content's name in `metadata.object` instead of the content;
    unknown fields are kept (E-1). Raises TransferRefused."""
    payload = msgspec.structs.replace(frame.payload, content="")
    metadata = {**frame.metadata, "object": name}
    try:
        whole = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise TransferRefused(f"its frame cannot be read whole: {error}") from None
    whole["payload"]["content"], whole["metadata"] = "", metadata
    return msgspec.structs.replace(frame, payload=payload, metadata=metadata), _encode(whole)


def place_of(transfer: FileTransfer) -> tuple[int, int]:
    """Return the chunk's index and the number of chunks. Raises TransferRefused if they are impossible."""
    index, count = (transfer.chunk.index, transfer.chunk.count) if transfer.chunk is not None else (0, 1)
    # An empty file is one empty chunk; no other chunk may be empty, so a size bounds its count.
    if not 0 <= index < count <= max(1, transfer.size):
        raise TransferRefused(f"chunk {index} of {count} is not a place in a file of {transfer.size} bytes")
    if not 0 <= transfer.size <= MAX_FILE_BYTES:
        raise TransferRefused(f"{transfer.size} bytes are no size of a file; it has at most {MAX_FILE_BYTES}")
    return index, count


def bytes_of(transfer: FileTransfer) -> bytes:
    """Return the bytes of one chunk. Raises TransferRefused for invalid base64."""
    try:
        return base64.b64decode(transfer.content, validate=True)
    except (binascii.Error, ValueError):
        raise TransferRefused("its content is not base64") from None


def check_same(first: FileTransfer, other: FileTransfer) -> None:
    """Raise TransferRefused if two chunks of one transfer describe different files."""
    for name in ("name", "media_type", "size", "sha256", "purpose"):
        if getattr(first, name) != getattr(other, name):
            raise TransferRefused(f"its chunks disagree about `{name}`")
    if place_of(first)[1] != place_of(other)[1]:
        raise TransferRefused("its chunks disagree about their count")


def join(parts: Sequence[FileTransfer]) -> bytes:
    """Join all chunks of a transfer, in order, to one file. Raises TransferRefused if size or digest are wrong."""
    first = parts[0]
    whole = b"".join(bytes_of(part) for part in parts)
    if len(whole) != first.size:
        raise TransferRefused(f"it has {len(whole)} bytes, {first.size} were announced")
    if hashlib.sha256(whole).hexdigest() != first.sha256:
        raise TransferRefused("its sha256 is not the one announced")
    return whole


# --- prompts ---
def content_size(prompt: PromptRequest) -> int:
    """Return a prompt's content in bytes, as encoded JSON."""
    return len(_encode(prompt.content)) if prompt.content is not None else json_size(prompt.text or "")


def content_of(prompt: PromptRequest) -> list[dict[str, Any]]:
    """Return the prompt as blocks."""
    if prompt.input_type == "blocks" and prompt.content is not None:
        return prompt.content
    return [{"type": "text", "text": prompt.text or ""}]


def carried(prompt: PromptRequest, new_id: Callable[[], str]) -> tuple[PromptRequest, list[FileTransfer]]:
    """Return a prompt that fits a frame, and the transfers to send before it: its largest blocks, until the rest is
    within MAX_PROMPT_BYTES. Raises TransferRefused if that is impossible."""
    size = content_size(prompt)
    if size <= MAX_PROMPT_BYTES:
        return prompt, []
    blocks = list(content_of(prompt))
    sizes = {place: len(_encode(block)) for place, block in enumerate(blocks)}
    size = len(_encode(blocks))
    transfers: list[FileTransfer] = []
    for place in sorted(sizes, key=lambda at: -sizes[at]):
        if size <= MAX_PROMPT_BYTES:
            break
        if sizes[place] < SMALL_BLOCK_BYTES:
            raise TransferRefused(f"its many small parts take {size} bytes, the limit is {MAX_PROMPT_BYTES}")
        block = blocks[place]
        sent = chunks(new_id(), _file_of(block))
        transfers += sent
        blocks[place] = {
            **{name: value for name, value in block.items() if name not in ("text", "data")},
            "transfer_id": sent[0].transfer_id, "media_type": sent[0].media_type, "sha256": sent[0].sha256,
        }
        size += len(_encode(blocks[place])) - sizes[place]
    return msgspec.structs.replace(prompt, input_type="blocks", text=None, content=blocks), transfers


def _file_of(block: dict[str, Any]) -> File:
    if block.get("type") == "text":
        return File("prompt.txt", "text/plain; charset=utf-8", str(block.get("text", "")).encode(), "prompt")
    media_type = str(block.get("media_type") or "application/octet-stream")
    return File(str(block.get("name") or block.get("type")), media_type, base64.b64decode(block["data"]), "prompt")


def named(content: Iterable[dict[str, Any]]) -> list[str]:
    """Return the transfers that a prompt's blocks name."""
    return [str(block["transfer_id"]) for block in content if "transfer_id" in block]


def restored(block: dict[str, Any], parts: Sequence[FileTransfer]) -> dict[str, Any]:
    """Return a block with its transfer's content instead of the name. Raises TransferRefused."""
    if block.get("sha256") != parts[0].sha256 or block.get("media_type") != parts[0].media_type:
        raise TransferRefused("the prompt names it with another sha256 or media_type")
    whole = join(parts)
    rest = {name: value for name, value in block.items() if name not in ("transfer_id", "sha256", "media_type")}
    if block.get("type") != "text":
        return {**rest, "data": base64.b64encode(whole).decode(), "media_type": parts[0].media_type}
    try:
        return {**rest, "text": whole.decode()}
    except UnicodeDecodeError:
        raise TransferRefused("it is not UTF-8 text") from None
