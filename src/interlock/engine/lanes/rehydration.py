"""Rehydration of what a lane held in memory only: its turn's fold, the digests of files under way."""

from __future__ import annotations

import base64
import hashlib

import msgspec

from interlock.engine.bridge.context.transcriber import FoldedFrame, Transcriber, fold_again
from interlock.engine.bridge.lane_state import LaneState
from interlock.ports.ledger import Ledger, LedgerError
from interlock.ports.objects import ObjectDamaged, ObjectMissing, Objects, ObjectsError
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import Direction, decode
from interlock.protocol.identifiers import session_stream
from interlock.protocol.limits import PAGE_MAX
from interlock.protocol.payloads import FileTransfer
from interlock.protocol.records import Event
from interlock.session.transfers import Digest
from interlock.session.turn_output import TurnFold


async def digests(state: LaneState, objects: Objects | None) -> dict[str, Digest]:
    """Return the digest of each file under way, as a lane had it before its eviction. A file whose bytes are no longer
    available is over. Raises LedgerError if the store does not answer."""
    found: dict[str, Digest] = {}
    for transfer_id, incoming in state.incoming.items():
        digest = hashlib.sha256()
        try:
            for name in incoming.objects:
                if objects is None:
                    raise ObjectMissing("There is no store.")
                async for piece in objects.read(name):
                    digest.update(piece)
        except (ObjectMissing, ObjectDamaged):
            incoming.over = True
        except ObjectsError as error:  # A store that does not answer now has lost nothing: the lane is read again.
            raise LedgerError(str(error)) from error
        found[transfer_id] = digest
    return found


async def with_content(frame: Frame, objects: Objects | None) -> Frame:
    """Return a file's frame with its bytes; another frame, or one whose bytes are unavailable, unchanged."""
    name = frame.metadata.get("object")
    if not isinstance(frame.payload, FileTransfer) or objects is None or not isinstance(name, str) or not name:
        return frame
    try:
        data = b"".join([piece async for piece in objects.read(name)])
    except ObjectsError:
        return frame
    content = base64.b64encode(data).decode()
    return msgspec.structs.replace(frame, payload=msgspec.structs.replace(frame.payload, content=content))


async def refold(state: LaneState, transcriber: Transcriber | None, ledger: Ledger, objects: Objects | None,
                 first: list[Event]) -> tuple[TurnFold, list[FoldedFrame]]:
    """Replay the open turn's frames, of which `first` is the first page: a snapshot plus its tail equals a fresh
    snapshot. The entries that they completed are dropped: they were committed with them. Returns the fold, and the
    replayed frames."""
    fold, fed, events = TurnFold(), list[FoldedFrame](), first
    while events:
        for event in events:
            if event.kind not in ("C", "M"):
                continue
            frame = decode(event.body, Direction.C if event.kind == "C" else Direction.M)
            fed.append(FoldedFrame(event.kind == "C", await with_content(frame, objects), event.at_ms))
            fold_again(fold, transcriber, fed[-1])
        if len(events) < PAGE_MAX:  # No other gateway writes to the session, so this was the last page.
            break
        events = await ledger.events(state.tenant_id, session_stream(state.session_id), events[-1].n, PAGE_MAX)
    return fold, fed
