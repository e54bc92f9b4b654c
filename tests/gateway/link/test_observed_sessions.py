"""Sessions that a runner names and this gateway never opened: plain ids only, a limited number, and all can be archived
(D-5, L-4)."""

from __future__ import annotations

import msgspec
import pytest

from engine.conversation import OWNER, remember
from gateway.raw_runner import Server
from interlock.engine.bridge.lane_state import LaneState
from interlock.gateway.link import observed_sessions
from interlock.gateway.link.rawp import RawpEndpoint
from interlock.gateway.rest.answers import raw_answer
from interlock.ports.ledger import PutSession, WriteBatch
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem
from interlock.protocol.records import SessionRecord

pytestmark = [pytest.mark.anyio, pytest.mark.req("D-5")]


def planted(session_id: str, controller: str = "elsewhere") -> p.HelloSession:
    return p.HelloSession(session_id=session_id, last_seq_sent=0, control_seq=0, state="idle", controller=controller,
                          agent_id="shell", workspace="/w")


async def observed_ids(server: Server) -> set[str]:
    return {record.session_id for record in await server.ledger.sessions("default", 1_000)}


@pytest.mark.parametrize("name", [
    "", "a b", "a/b", "a\nb", "nul\0", "zwölf", "💥", "house:default", "x" * 65, "?", "%2e"])
async def test_an_id_that_is_not_a_plain_word_is_ignored(server: Server, name: str) -> None:
    async with server.attached(planted(name), planted("plain", controller=name or "a b"), planted("good")):
        assert await observed_ids(server) == {"good"}


async def test_the_sessions_that_a_runner_can_introduce_are_bounded(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed_sessions, "NEW_SESSIONS", observed_sessions.NEW_SESSIONS._replace(burst=3))
    server.endpoint = RawpEndpoint(server.engine, server.entropy)
    async with server.attached(*[planted(f"s{number}") for number in range(10)]) as runner:
        assert len(await observed_ids(server)) == 3
        runner.send("x-interlock.control.changed", p.ControlChanged(gateway_id="elsewhere", agent_id="shell"),
                    session_id="one-more", seq=1)
        command = await server.execute()
        await runner.frame("control.prompt.request")
        assert await observed_ids(server) == {"s0", "s1", "s2", command.target.session_id}
    again = [planted(f"again{number}") for number in range(10)]
    async with server.attached(planted("s0"), *again):
        assert len(await observed_ids(server)) == 4, "a new link is not a new allowance"
    server.clock.advance(60_000)
    async with server.attached(planted("s0"), *again):
        assert len(await observed_ids(server)) == 5


async def test_a_session_of_another_tenant_is_not_taken_by_a_runner_that_names_it(server: Server) -> None:
    state = LaneState(session_id="theirs", tenant_id="rival", session_key="agent:shell:run:theirs", agent_id="shell",
                      runner_id="rival-runner", workspace="/w", created_ms=1, opening="open")
    await server.ledger.commit(WriteBatch([PutSession(SessionRecord(
        session_id="theirs", tenant_id="rival", session_key=state.session_key, agent_id="shell",
        runner_id="rival-runner", workspace="/w", state="idle", created_ms=1, updated_ms=1, deadline_ms=None,
        machine=msgspec.json.encode(state), usage={}))]))
    async with server.attached(planted("theirs"), planted("own")) as runner:
        runner.send("x-interlock.control.changed", p.ControlChanged(gateway_id="elsewhere", agent_id="shell"),
                    session_id="theirs", seq=1)
        runner.send("x-interlock.control.refused", p.RefusedControl(message_id="m", error_code="X", message="x"),
                    session_id="own")
        await runner.frame("x-interlock.ack")
        assert server.engine.lanes.peek("theirs") is None, "its lane was not even read"
        assert await observed_ids(server) == {"own"}


async def test_an_observed_session_cannot_be_closed_but_can_be_archived(server: Server) -> None:
    async with server.attached(planted("one")):
        with pytest.raises(Problem, match="Gateway elsewhere controls session one") as refused:
            await server.engine.sessions.close(OWNER, "one", "", remember)
        assert "interlock sessions archive one" in str(refused.value.hint)
        await server.engine.sessions.archive(OWNER, "one", "no one opened it", remember)
        record = await server.ledger.session("one")
        assert record is not None
        assert server.engine.sessions.shown(record).entry["archivedAt"]


@pytest.mark.parametrize(("name", "written"), [
    ("plain", b"/v1/sessions/plain"), ("zwölf", b"/v1/sessions/zw%C3%B6lf"), ("💥", b"/v1/sessions/%F0%9F%92%A5"),
    ("a\r\nSet-Cookie: x", b"/v1/sessions/a%0D%0ASet-Cookie: x")])
async def test_an_id_stored_earlier_is_percent_encoded_in_a_header(name: str, written: bytes) -> None:
    answer = raw_answer(b"{}", 200, {"Location": f"/v1/sessions/{name}"})
    assert dict(answer.headers)[b"location"] == written
