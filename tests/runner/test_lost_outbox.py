"""A runner that lost its outbox continues a session at the number of the gateway (D-6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.protocol import payloads as p
from runner.scripted_gateway import conversation
from runner.stage import stage

pytestmark = pytest.mark.anyio


@pytest.mark.req("D-6")
@pytest.mark.parametrize(("reported", "first"), [(50, 51), (None, 1), ("50", 1), (True, 1), (2**60, 1)])
async def test_a_lost_outbox_continues_from_the_gateways_number(tmp_path: Path, reported: object, first: int) -> None:
    async with stage(tmp_path) as scene:
        payload = p.SessionOpen(session_id=scene.session_id, agent_id="nobody", workspace=str(tmp_path),
                                workspace_access="rw")
        await scene.send("control.session.open", payload, {"last_durable_seq": reported} if reported else None)
        assert (await scene.next("session.error")).seq == first


@pytest.mark.req("D-6", "E-3")
async def test_the_first_control_frame_of_an_unknown_session_is_accepted_at_any_number() -> None:
    async with conversation() as (gateway, runner):
        peer = await gateway.peer()
        await peer.welcome()
        await peer.cancel_turn(7, "m7", session_id="unknown")
        assert (await runner.control()).message_id == "m7"
