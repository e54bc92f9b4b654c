"""A conversation finds violations: peers that each violate the specification once."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol

from interlock.conformance.hands import HandFailed, ProgramHand
from interlock.conformance.links import Dialling
from interlock.conformance.player import Player
from interlock.conformance.sides import AsRunner
from interlock.conformance.steps import (
    ConformanceConversation,
    ConformanceFinding,
    ExpectFrame,
    Join,
    Never,
    RefusedLink,
    SendFrame,
    Silence,
)
from interlock.conformance.with_master import WITH_MASTER
from interlock.protocol.envelope import DPS_VERSION

pytestmark = pytest.mark.anyio
RetryPolicy = Callable[[ServerConnection], Awaitable[None]]
BY_NAME = {one.name: one for one in WITH_MASTER}


def frame(kind: str, payload: Any, **fields: Any) -> str:
    return json.dumps({"type": kind, "payload": payload, "message_id": kind, "timestamp": "", **fields})


WELCOME = frame("x-interlock.welcome", {"version": DPS_VERSION, "link_id": "l", "gateway_id": "g", "limits": {},
                                        "sessions": []})
ACK = frame("x-interlock.ack", {"session_id": "s", "seq": 1})


@asynccontextmanager
async def master(retries: RetryPolicy) -> AsyncIterator[Player]:
    """A player at a master of these retries."""
    async with serve(retries, "127.0.0.1", 0, subprotocols=[Subprotocol(DPS_VERSION)]) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield Player(Dialling(f"ws://127.0.0.1:{port}/rawp", "token"), AsRunner("local"))


async def found(retries: RetryPolicy, conversation: ConformanceConversation) -> ConformanceFinding:
    async with master(retries) as player:
        return await player.play(conversation)


def saying(*texts: str) -> RetryPolicy:
    async def retries(connection: ServerConnection) -> None:
        await connection.recv()
        for text in texts:
            await connection.send(text)
        await connection.wait_closed()

    return retries


async def closing(connection: ServerConnection) -> None:
    await connection.close(1000)


@pytest.mark.req("L-4", "W-1", "E-4")
@pytest.mark.parametrize(("retries", "name", "says"), [
    (saying(ACK, WELCOME), "hello-welcome", "must be next"),
    (saying(WELCOME.replace(DPS_VERSION, "rawp-dps-9.9")), "hello-welcome", "payload.version is 'rawp-dps-9.9'"),
    (saying(WELCOME.replace('"gateway_id"', '"gateway"')), "hello-welcome", "$.payload.gateway_id"),
    (saying(WELCOME.replace('"payload"', '"seq": 1, "payload"', 1)), "hello-welcome", "carries no seq"),
    (saying(frame("x-interlock.hello", {})), "hello-welcome", "not sent in this direction"),
    (saying("nonsense"), "hello-welcome", "not JSON"),
    (closing, "hello-welcome", "the link was closed (1000)"),
    (closing, "hello-first", "closed with 1000, not 4408"),
    (saying(WELCOME), "token", "the link was opened"),
])
async def test_a_broken_conversation_names_its_step(retries: RetryPolicy, name: str, says: str) -> None:
    finding = await found(retries, BY_NAME[name])
    assert finding.outcome == "broken"
    assert says in finding.found


@pytest.mark.req("E-3")
@pytest.mark.parametrize(("seqs", "outcome"), [((1, 2), "held"), ((1, 1, 2), "held"), ((1, 3), "broken")])
async def test_the_numbers_of_a_session_have_no_gap(seqs: tuple[int, ...], outcome: str) -> None:
    opening = {"session_id": "s", "agent_id": "a", "workspace": "", "workspace_access": "rw"}
    frames = [frame("control.session.open", opening, session_id="s", seq=seq) for seq in seqs]
    last = ExpectFrame("control.session.open", where={"seq": seqs[-1]}, keep={"session": "session_id"})
    conversation = ConformanceConversation("numbers", ("E-3",), "", (Join(), last))
    ack = frame("x-interlock.ack", {"session_id": "s", "seq": 1})
    finding = await found(saying(WELCOME, *frames, ack), conversation)
    assert finding.outcome == outcome, finding
    assert outcome == "held" or "number 3, after 1" in finding.found


async def test_a_forbidden_message_is_detected() -> None:
    silent = ConformanceConversation("silent", (), "", (Join(), Silence(("x-interlock.ack",), 5.0)))
    never = ConformanceConversation("never", (), "", (Join(), ExpectFrame("x-interlock.ack"), Never("x-interlock.ack")))
    for conversation in (silent, never):
        finding = await found(saying(WELCOME, ACK), conversation)
        assert (finding.outcome, "x-interlock.ack came" in finding.found) == ("broken", True)


async def test_a_message_that_does_not_arrive_in_time_breaks_the_conversation() -> None:
    waits = ConformanceConversation("waits", (), "", (RefusedLink(), SendFrame("x-interlock.heartbeat", {"agents": []}),
                                                      ExpectFrame("x-interlock.welcome", within_s=0.1)))
    assert "never received x-interlock.welcome, only x-interlock.ack" in (await found(saying(ACK), waits)).found


async def test_a_conversation_without_its_means_is_skipped_with_a_reason() -> None:
    async with master(closing) as player:
        findings = {one.name: one for one in await player.play_all(WITH_MASTER, slow=False)}
    assert findings["allow"].outcome == "not run"
    assert "a person at the master" in findings["allow"].found
    assert findings["hello-in-time"].outcome == "not run"


async def test_an_absent_gateway_breaks_the_conversation(tmp_path: Path) -> None:
    player = Player(Dialling("ws://127.0.0.1:9/rawp", "token"), AsRunner("local"))
    assert "cannot be reached" in (await player.play(BY_NAME["hello-welcome"])).found


async def test_a_program_can_act_for_a_person(tmp_path: Path) -> None:
    noted = tmp_path / "told"
    code = f"import sys; open({str(noted)!r}, 'w').write(sys.argv[-1]); sys.exit(sys.argv[-1] == 'deny')"
    hand = ProgramHand(f'{sys.executable} -c "{code}"')
    await hand.do("prompt")
    assert noted.read_text() == "prompt"
    with pytest.raises(HandFailed, match="deny ended with 1"):
        await hand.do("deny")
    with pytest.raises(HandFailed, match="cannot be run"):
        await ProgramHand("/nowhere/at/all").do("prompt")
