"""State of a lane that was only in memory is rebuilt: digests of partial files, and bytes that a stream only names."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from interlock.backends.memory.objects import MemoryObjects
from interlock.engine.bridge.lane_state import Incoming, LaneState
from interlock.engine.lanes.rehydration import digests, with_content
from interlock.ports.ledger import LedgerError
from interlock.ports.objects import ObjectsError
from interlock.protocol.envelope import Frame
from interlock.protocol.payloads import FileTransfer

pytestmark = [pytest.mark.anyio, pytest.mark.req("E-5")]
TRANSFER = FileTransfer(transfer_id="tr", name="a", media_type="text/plain", size=4, sha256="0" * 64, purpose="output",
                        content="")


def state(*objects: str) -> LaneState:
    made = LaneState(session_id="s1", tenant_id="t1", session_key="k", agent_id="a", runner_id="r", workspace="",
                     permission="asks", created_ms=0)
    made.incoming["tr"] = Incoming(TRANSFER, objects=list(objects))
    return made


class Away:
    """A store that does not answer."""

    async def read(self, _sha256: str) -> Any:
        raise ObjectsError("the bucket is away")
        yield b""


async def test_a_digest_continues_from_the_received_pieces() -> None:
    objects = MemoryObjects()
    kept = [await objects.put([piece]) for piece in (b"ab", b"cd")]
    found = await digests(state(*[one.sha256 for one in kept]), objects)

    assert found["tr"].hexdigest() == hashlib.sha256(b"abcd").hexdigest()


@pytest.mark.parametrize("objects", [None, MemoryObjects()])
async def test_a_file_whose_bytes_are_gone_is_ended(objects: MemoryObjects | None) -> None:
    lost = state("0" * 64)
    await digests(lost, objects)

    assert lost.incoming["tr"].over


async def test_a_store_that_does_not_answer_has_lost_nothing() -> None:
    waiting, away = state("0" * 64), Away()
    with pytest.raises(LedgerError, match="the bucket is away"):
        await digests(waiting, away)  # type: ignore[arg-type]

    assert not waiting.incoming["tr"].over


async def test_a_frames_bytes_are_read_back_if_they_exist() -> None:
    objects = MemoryObjects()
    kept = await objects.put([b"ab"])

    def frame(name: object) -> Frame:
        return Frame(type="agent.file.transfer", payload=TRANSFER, message_id="m", session_id="s1", timestamp="",
                     metadata={"object": name})

    assert (await with_content(frame(kept.sha256), objects)).payload.content == base64.b64encode(b"ab").decode()
    for other in (frame("0" * 64), frame(7), frame("")):
        assert await with_content(other, objects) is other
    assert await with_content(named := frame(kept.sha256), None) is named
