"""Short words for what the outbox tests write."""

import base64
import hashlib
import itertools

import msgspec

from interlock.ports.outbox import StoreControl, TransientText
from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame
from interlock.protocol.identifiers import uuid4
from interlock.protocol.records import ControlRecord

SESSION = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"
AT = "2026-11-21T10:00:00.000Z"
_numbers = itertools.count(1)


def new_id() -> str:
    return uuid4(next(_numbers).to_bytes(16, "big"))


def frame(frame_type: str, payload: p.Payload, session_id: str = SESSION) -> Frame:
    return Frame(type=frame_type, payload=payload, message_id=new_id(), session_id=session_id, timestamp=AT)


def done(text: str, session_id: str = SESSION, block_id: str = "b") -> Frame:
    """Content, which RING may evict."""
    return frame("agent.text.done", p.TextDone(turn_id="t", block_id=block_id, text=text), session_id)


def file_chunk(index: int, count: int, part: bytes) -> Frame:
    """Content, too: one chunk of a file of `count` equal ones."""
    whole = part * count
    return frame("agent.file.transfer", p.FileTransfer(
        transfer_id=SESSION, name="plot.png", media_type="image/png", size=len(whole), purpose="output",
        sha256=hashlib.sha256(whole).hexdigest(), content=base64.b64encode(part).decode(),
        chunk=p.FileChunk(index=index, count=count)))


def changed(session_id: str = SESSION) -> Frame:
    """A frame that is kept whatever happens."""
    return frame("agent.state.changed", p.StateChanged(state="running", previous="idle"), session_id)


def delta(text: str, offset: int, block_id: str = "b", session_id: str = SESSION) -> tuple[Frame, TransientText]:
    """A transient frame and its piece."""
    payload = p.TextDelta(turn_id="t", block_id=block_id, offset=offset, text=text)
    return frame("agent.text.delta", payload, session_id), TransientText(session_id, block_id, offset, text)


def output(text: str, offset: int, invocation_id: str = "i") -> tuple[Frame, TransientText]:
    """The same of a tool channel."""
    payload = p.ToolStream(invocation_id=invocation_id, channel="stdout", offset=offset, text=text)
    return frame("tool.invoke.stream", payload), TransientText(SESSION, f"{invocation_id}/stdout", offset, text)


def control(seq: int, session_id: str = SESSION) -> StoreControl:
    body = msgspec.json.encode({"seq": seq})
    return StoreControl(ControlRecord(session_id=session_id, seq=seq, message_id=f"c{seq}", body=body), 1_000 + seq)
