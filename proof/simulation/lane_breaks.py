"""Engines that are broken on purpose, to check that the simulation notices and shrinks the failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from interlock.engine.bridge.conditions import Conditions
from interlock.engine.bridge.inputs import LaneInput
from interlock.engine.bridge.kernel import Decide, Kept, decide
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.live import RecentIds
from interlock.ports.ledger import PutControl


class _Forgetful(RecentIds):
    def seen(self, message_id: str) -> bool:
        return False


def without_dedupe(lane: Lane, inputs: Sequence[LaneInput], conditions: Conditions, kept: Kept) -> list[Any]:
    """Decide as a lane that remembers no message: a frame that is sent again under another number is applied again."""
    lane.recent = _Forgetful()
    return decide(lane, inputs, conditions, kept)


def without_noes(lane: Lane, inputs: Sequence[LaneInput], conditions: Conditions, kept: Kept) -> list[Any]:
    """Decide as a lane that sends each denial to the agent as a grant."""
    answers = decide(lane, inputs, conditions, kept)
    for place, write in enumerate(lane.out.writes):
        if isinstance(write, PutControl) and DENY in write.record.body:
            body = write.record.body.replace(DENY, ALLOW)
            lane.out.sends[:] = [body if raw == write.record.body else raw for raw in lane.out.sends]
            lane.out.writes[place] = PutControl(msgspec.structs.replace(write.record, body=body), write.tenant_id)
            lane.unconfirmed[write.record.seq] = body
    return answers


DENY, ALLOW = b'"decision":"deny"', b'"decision":"allow"'
BREAKS: dict[str, Decide] = {"dedupe": without_dedupe, "answers": without_noes}
