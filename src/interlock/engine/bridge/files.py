"""Files in a lane: those sent before a prompt, and those an agent sends (E-5). Their bytes are in the object store."""

from __future__ import annotations

import hashlib

import msgspec

from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.lane_state import Incoming
from interlock.ports.ledger import PutFile
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import MAX_OPEN_FILES
from interlock.protocol.records import FileRecord
from interlock.protocol.resources import Notice
from interlock.session.transfers import TransferRefused, bytes_of, check_same, place_of, set_apart, without_content
from interlock.session.turn import Refusal


class _Lost(Exception):
    """Raised if chunks are missing that the runner reported as lost (D-3): this is not an error, and is reported
    once."""


class PassedOver(Exception):
    """Raised for a chunk of a file that was already refused or lost: it is recorded without its content and changes
    nothing."""


def send_files(lane: Lane, transfers: list[p.FileTransfer]) -> None:
    """Send a prompt's files before the prompt, and remember them until the runner has the prompt (D-7)."""
    state = lane.state
    state.upload_seq = state.control_seq + 1
    state.uploads = list(dict.fromkeys(transfer.transfer_id for transfer in transfers))
    names: dict[str, list[str]] = {}
    for transfer in transfers:
        frame = lane.control("agent.file.transfer", transfer)
        names.setdefault(transfer.transfer_id, []).append(hashlib.sha256(bytes_of(frame.payload)).hexdigest())
    for transfer in transfers:
        if transfer.transfer_id in names:
            _keep(lane, transfer, names.pop(transfer.transfer_id))


def take_file(lane: Lane, frame: Frame, raw: bytes) -> tuple[Frame, bytes]:
    """Process a chunk from the runner; returns the frame as stored in the stream. The complete file is stored with its
    last chunk.

    Raises Refusal once for an invalid file, and PassedOver for its remaining chunks.
    """
    transfer: p.FileTransfer = frame.payload
    known = lane.state.incoming.get(transfer.transfer_id)
    try:
        if known is not None and known.over:
            raise PassedOver
        taken = _take(lane, frame, raw, known)
    except _Lost:
        _give_up(lane, transfer)
        lane.notice(Notice(code="Truncated", message=f"The file {transfer.name[:80]} is not whole: parts of it were "
                           "lost while the link was down."))
        raise PassedOver from None
    except TransferRefused as refused:
        _give_up(lane, transfer)
        raise Refusal(Code.INVALID_FRAME, f"the file {transfer.transfer_id[:80]} cannot be taken: {refused}") from None
    finally:
        chunk = transfer.chunk
        if chunk is None or chunk.index >= chunk.count - 1:
            lane.state.incoming.pop(transfer.transfer_id, None)
            lane.digests.pop(transfer.transfer_id, None)
    return taken


def _take(lane: Lane, frame: Frame, raw: bytes, known: Incoming | None) -> tuple[Frame, bytes]:
    transfer: p.FileTransfer = frame.payload
    index, count = place_of(transfer)
    if known is None:
        if len(lane.state.incoming) >= MAX_OPEN_FILES:
            raise TransferRefused(f"{MAX_OPEN_FILES} files are under way already")
        known = Incoming(msgspec.structs.replace(transfer, content=""), (frame.seq or 0) - index - 1)
        lane.state.incoming[transfer.transfer_id] = known
        lane.digests[transfer.transfer_id] = hashlib.sha256()
    check_same(known.first, transfer)
    if index < known.chunks:
        raise TransferRefused(f"chunk {index} came twice")
    if index > known.chunks:
        if lane.state.lost_above > known.seq:
            raise _Lost
        raise TransferRefused(f"chunk {known.chunks} is missing")
    data = bytes_of(transfer)
    digest = lane.digests[transfer.transfer_id]
    digest.update(data)
    known.seq = frame.seq or 0
    known.chunks += 1
    known.size += len(data)
    known.objects.append(hashlib.sha256(data).hexdigest())
    if known.size > transfer.size or (index == count - 1 and known.size != transfer.size):
        raise TransferRefused(f"it has {known.size} bytes, {transfer.size} were announced")
    if index == count - 1:
        if digest.hexdigest() != transfer.sha256:
            raise TransferRefused("its sha256 is not the one announced")
        _keep(lane, transfer, known.objects)
    return set_apart(frame, raw, lane.out.objects) if lane.keeps_objects else (frame, raw)


def drop_files(lane: Lane) -> None:
    """Discard the transfers under way: their agent is closed."""
    lane.state.incoming.clear()
    lane.digests.clear()


def passed_over(frame: Frame, raw: bytes) -> bytes:
    """Return the body that is recorded for a skipped chunk."""
    try:
        return without_content(frame, raw, "")[1]
    except TransferRefused:
        return raw


def _keep(lane: Lane, transfer: p.FileTransfer, objects: list[str]) -> None:
    if lane.keeps_objects and transfer.purpose != "context":  # A conversation on its way does not belong to a person.
        lane.out.writes.append(PutFile(FileRecord(
            session_id=lane.state.session_id, transfer_id=transfer.transfer_id, name=transfer.name,
            media_type=transfer.media_type, size=transfer.size, sha256=transfer.sha256, purpose=transfer.purpose,
            created_ms=lane.wall, objects=objects), lane.state.tenant_id))


def _give_up(lane: Lane, transfer: p.FileTransfer) -> None:
    """Record that the rest of a transfer is unwanted; bounded like the transfers under way."""
    known = lane.state.incoming.get(transfer.transfer_id)
    if known is not None or len(lane.state.incoming) < 2 * MAX_OPEN_FILES:
        first = msgspec.structs.replace(transfer, content="")
        lane.state.incoming[transfer.transfer_id] = Incoming(first, over=True)
    lane.digests.pop(transfer.transfer_id, None)
