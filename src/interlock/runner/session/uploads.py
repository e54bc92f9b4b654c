"""Files that a gateway sends before the prompt that names them: stored, checked, inserted, forgotten (E-5).

A chunk's frame is in the object store; the session's state lists the frames of each transfer. A prompt never begins
twice (D-7), so the files that it names are forgotten once it begins; the files of a refused prompt are sent again.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import structlog

from interlock.ports.objects import Objects, ObjectsError
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import Direction, InvalidFrame, decode, encode
from interlock.protocol.limits import HELD_UPLOADS_BYTES, MAX_CONTENT_PARTS
from interlock.protocol.payloads import Features, FileTransfer
from interlock.runner.session_state import PromptUpload, SessionState
from interlock.session.transfers import TransferRefused, check_same, place_of, restored

FEATURES = {"image": "images", "audio": "audio", "file": "files", "video": "video"}
"""Feature that an agent needs for a block of this type."""
STORE_RETRY_S = 0.5
"""Delay before a chunk that the object store did not accept is stored again."""
STORE_LOG_INTERVAL_S = 60.0
"""Interval of the log line while that lasts."""

log = structlog.get_logger("interlock.uploads")


class ContentRefused(Exception):
    """The prompt's content cannot be passed to the agent: code and sentence."""

    def __init__(self, code: Code, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


async def shelve(objects: Objects, frame: Frame, raw: bytes) -> tuple[Frame, bytes]:
    """Store a chunk's frame as an object; return its substitute for the outbox. A full disk is waited for, as the
    outbox does.

    The message_id makes each frame's bytes unique, so that forgetting one transfer never removes another's chunk.
    """
    waited_s = 0.0
    while True:
        try:
            kept = await objects.put([raw])
            break
        except ObjectsError as error:
            if waited_s % STORE_LOG_INTERVAL_S == 0:
                log.warning("a file for an agent cannot be stored, and its session waits", error=str(error))
            waited_s += STORE_RETRY_S
            await asyncio.sleep(STORE_RETRY_S)
    payload = msgspec.structs.replace(frame.payload, content="")
    slim = msgspec.structs.replace(frame, payload=payload, metadata={**frame.metadata, "object": kept.sha256})
    return slim, encode(slim)


def take_chunk(state: SessionState, frame: Frame) -> str | None:
    """Note a stored chunk. Return the sentence if it is refused, once per transfer."""
    transfer: FileTransfer = frame.payload
    upload = state.uploads.get(transfer.transfer_id)
    if upload is not None and upload.broken:
        return None
    try:
        index, _ = place_of(transfer)
        if upload is None:
            upload = _begin(state, transfer)
        check_same(upload.first, transfer)
        if index != len(upload.frames):
            come = len(upload.frames)
            raise TransferRefused(f"chunk {index} came twice" if index < come else f"chunk {come} is missing")
    except TransferRefused as refused:
        sentence = f"The file {transfer.transfer_id[:80]} was refused: {refused}."
        if len(state.uploads) < MAX_CONTENT_PARTS or transfer.transfer_id in state.uploads:
            empty = msgspec.structs.replace(transfer, content="", size=0)
            state.uploads[transfer.transfer_id] = PromptUpload(empty, broken=sentence)
        return sentence
    upload.frames.append(str(frame.metadata.get("object", "")))
    return None


def _begin(state: SessionState, transfer: FileTransfer) -> PromptUpload:
    held = sum(upload.first.size for upload in state.uploads.values())
    if held + transfer.size > HELD_UPLOADS_BYTES or len(state.uploads) >= MAX_CONTENT_PARTS:
        raise TransferRefused(f"the session holds {held} bytes in {len(state.uploads)} files already; "
                              f"{HELD_UPLOADS_BYTES} bytes and {MAX_CONTENT_PARTS} files are the most")
    upload = PromptUpload(msgspec.structs.replace(transfer, content=""))
    state.uploads[transfer.transfer_id] = upload
    return upload


def forget(state: SessionState, transfer_ids: object) -> None:
    """Forget the files of a prompt that has begun, or will never come."""
    for transfer_id in transfer_ids if isinstance(transfer_ids, list) else []:  # pyright: ignore[reportUnknownVariableType]
        state.uploads.pop(str(transfer_id), None)  # pyright: ignore[reportUnknownArgumentType]


def lacking(content: list[dict[str, Any]], features: Features) -> str | None:
    """Return the feature that the content needs and the agent lacks; None if all are there."""
    for block in content:
        feature = FEATURES.get(str(block.get("type")))
        if feature is not None and not getattr(features, feature, False):
            return feature
    return None


def held_by(state: SessionState) -> set[str]:
    """Return the objects that a session's state names."""
    return {name for upload in state.uploads.values() for name in upload.frames}


class Uploads:
    """One session's files on their way to a prompt."""

    def __init__(self, state: SessionState, objects: Objects) -> None:
        self._state = state
        self._objects = objects
        self._known: set[str] = set()
        """Objects that were named once: those that no longer are get swept."""

    def take(self, frame: Frame) -> str | None:
        """Call `take_chunk`; sweep what is refused."""
        self._known.add(str(frame.metadata.get("object", "")))
        return take_chunk(self._state, frame)

    async def one(self, block: dict[str, Any]) -> dict[str, Any]:
        """Return a single block with its file inserted. Raises ContentRefused."""
        try:
            return await self._restored(block)
        except TransferRefused as refused:
            raise ContentRefused(Code.INVALID_FRAME, str(refused)) from None

    async def whole(self, content: list[dict[str, Any]], features: Features) -> list[dict[str, Any]]:
        """Return the content with every file inserted. Raises ContentRefused, with the faulty place."""
        feature = lacking(content, features)
        if feature is not None:
            raise ContentRefused(Code.UNSUPPORTED_CAPABILITY, f"This agent does not offer {feature}.")
        try:
            return [await self._restored(block) if "transfer_id" in block else block for block in content]
        except TransferRefused as refused:
            raise ContentRefused(Code.INVALID_FRAME, str(refused)) from None

    async def _restored(self, block: dict[str, Any]) -> dict[str, Any]:
        transfer_id = str(block["transfer_id"])
        upload = self._state.uploads.get(transfer_id)
        if upload is None:
            raise TransferRefused(f"The prompt names the file {transfer_id[:80]}, which was not sent in this session.")
        if upload.broken:
            raise TransferRefused(upload.broken)
        count = place_of(upload.first)[1]
        try:
            if len(upload.frames) < count:
                raise TransferRefused(f"chunk {len(upload.frames)} of {count} is missing")
            return restored(block, [await self._chunk(name) for name in upload.frames])
        except TransferRefused as refused:
            raise TransferRefused(f"The file {transfer_id[:80]} was refused: {refused}.") from None
        except (ObjectsError, InvalidFrame) as error:
            raise TransferRefused(f"The file {transfer_id[:80]} can no longer be read here: {error}") from None

    async def _chunk(self, name: str) -> FileTransfer:
        raw = b"".join([piece async for piece in self._objects.read(name)])
        chunk: FileTransfer = decode(raw, Direction.M).payload
        return chunk

    def discard(self, transfer_ids: object) -> None:
        """Forget the files of a prompt that has begun, was refused, or will never come."""
        self._known |= held_by(self._state)
        forget(self._state, transfer_ids)

    async def sweep(self) -> None:
        """Remove objects that no transfer needs; if the store fails, the next start sweeps it."""
        gone = self._known - held_by(self._state)
        self._known -= gone
        for name in gone:
            try:
                await self._objects.drop(name)
            except ObjectsError:
                continue
