"""A runner with two gateways on real sockets: one stream for both, and one of them in control (D-5, D-7)."""

from __future__ import annotations

import asyncio
import contextlib
import http
import secrets
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from interlock.backends.memory.clock import ManualClock
from interlock.protocol import payloads as p
from interlock.protocol.codes import CloseCode
from interlock.protocol.envelope import DPS_VERSION, Frame
from interlock.runner.link import gateways
from interlock.runner.link.gateways import Gateways, PairedGateway
from interlock.runner.link.link import LinkState
from interlock.runner.link.link_log import LinkLog
from interlock.runner.local import NoRunner, Reload, Take, ask, listening
from runner.scripted_gateway import PATIENCE_S, Gateway, Peer, inner
from runner.stage import Stage, stage

pytestmark = pytest.mark.anyio


class Two:
    """Gateways g1 and g2, a runner's sessions between them, and the link of each."""

    def __init__(self, scene: Stage, one: Gateway, two: Gateway, links: Gateways) -> None:
        self.scene, self.one, self.two, self.links = scene, one, two, links
        self.session_id = scene.session_id

    async def open(self, peer: Peer) -> None:
        await peer.send("control.session.open", p.SessionOpen(
            session_id=self.session_id, agent_id="bad", workspace=str(self.scene.workspace), workspace_access="rw"),
            seq=1, session_id=self.session_id)

    async def prompt(self, peer: Peer, text: str, seq: int) -> None:
        await peer.send("control.prompt.request", p.PromptRequest(
            prompt_id=f"p{seq}", input_type="text", origin="user", text=text), seq=seq, session_id=self.session_id,
            message_id=f"prompt-{seq}")

    async def answer(self, peer: Peer, asked: Frame, seq: int) -> None:
        await peer.send("control.interaction.response", p.InteractionResponse(
            interaction_id=asked.payload.interaction_id, decision="allow", by="ada"), seq=seq,
            session_id=self.session_id, message_id=f"answer-{seq}")


@contextlib.asynccontextmanager
async def two(workspace: Path) -> AsyncIterator[Two]:
    one, other = Gateway(), Gateway()
    await one.start()
    await other.start()
    async with stage(workspace) as scene:
        scene.outflow.detach()

        async def hello(pairing: PairedGateway, gateway_id: str) -> p.Hello:
            return p.Hello(versions=[DPS_VERSION], runner_id=pairing.runner_id, boot_id="b", agents=[],
                           sessions=await scene.sessions.hello_sessions(gateway_id))

        links = Gateways([PairedGateway(url=one.url, token="t1", runner_id="r1"),
                          PairedGateway(url=other.url, token="t2", runner_id="r2")],
                         outbox=scene.outbox, objects=scene.objects, outflow=scene.outflow, sessions=scene.sessions,
                         presence=scene.presence, hello=hello, clock=ManualClock(), entropy=secrets.token_bytes)
        running = asyncio.create_task(links.run())
        try:
            yield Two(scene, one, other, links)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await one.stop()
            await other.stop()


async def attached(gateway: Gateway, gateway_id: str, *durable: p.WelcomeSession) -> tuple[Peer, Frame]:
    peer = await gateway.peer()
    (hello,) = await peer.expect("x-interlock.hello")
    await peer.send("x-interlock.welcome", p.Welcome(version=DPS_VERSION, link_id="l", gateway_id=gateway_id,
                                                     limits={}, sessions=list(durable)))
    return peer, hello


async def until(peer: Peer, *kinds: str) -> Frame:
    """The next frame of one of these types; others are passed over."""
    while (frame := await peer.receive()).type not in kinds:
        pass
    return frame


@pytest.mark.req("D-5", "L-3", "L-4")
async def test_both_gateways_receive_the_same_frames_and_their_own_name_in_hello(tmp_path: Path) -> None:
    async with two(tmp_path) as scene:
        (one, first), (other, second) = await attached(scene.one, "g1"), await attached(scene.two, "g2")
        assert (first.payload.runner_id, second.payload.runner_id) == ("r1", "r2")
        assert [gateway.requests[0].headers["Authorization"] for gateway in (scene.one, scene.two)] == [
            "Bearer t1", "Bearer t2"]
        await scene.open(one)
        announced = await until(other, "x-interlock.control.changed")
        assert (announced.seq, announced.payload.gateway_id, announced.payload.agent_id) == (1, "g1", "bad")
        assert (await until(one, "session.capabilities")).seq == (await until(other, "session.capabilities")).seq
        await scene.prompt(one, "text:hello", 2)
        ends = [await until(peer, "session.usage") for peer in (one, other)]
        assert ends[0].message_id == ends[1].message_id


@pytest.mark.req("L-5")
async def test_the_attempts_at_an_absent_gateway_share_one_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, failed, thrice = list[str](), list[LinkState](), asyncio.Event()

    class Recorded(LinkLog):
        def __init__(self, url: str) -> None:
            super().__init__(url)
            made.append(url)

        def note(self, state: LinkState, attached: str) -> None:
            super().note(state, attached)
            if "cannot be reached" in state.sentence:
                failed.append(state)
                if len(failed) == 3:
                    thrice.set()

    monkeypatch.setattr(gateways, "LinkLog", Recorded)
    with capture_logs() as entries:
        async with two(tmp_path) as scene:
            await attached(scene.one, "g1")
            await attached(scene.two, "g2")
            await scene.two.stop()
            async with asyncio.timeout(PATIENCE_S):
                await thrice.wait()
    assert made == [scene.one.url, scene.two.url]
    assert sum("cannot be reached" in one.get("sentence", "") for one in entries) == 1


@pytest.mark.req("G-1", "L-4", "C-7")
async def test_changed_offers_are_sent_in_another_hello_and_the_turn_continues(tmp_path: Path) -> None:
    async with two(tmp_path) as scene:
        (one, _), (other, _) = await attached(scene.one, "g1"), await attached(scene.two, "g2")
        await scene.open(one)
        await scene.prompt(one, "ask:make text:done", 2)
        asked = await until(one, "agent.interaction.request")
        scene.links.greet_again()
        greeted = asyncio.create_task(scene.links.greeted())
        assert await one.closed() == await other.closed() == CloseCode.REOPENING
        one, hello = await attached(scene.one, "g1")
        assert not greeted.done(), "a gateway has the old offering still"
        await attached(scene.two, "g2")
        await greeted
        assert [session.state for session in hello.payload.sessions] == ["waiting_approval"]
        await scene.answer(one, asked, 3)
        assert (await until(one, "session.turn.end")).payload.stop_reason == "end_turn"


@pytest.mark.req("D-5", "D-7", "W-2")
async def test_an_observers_prompt_is_stored_refused_and_repeated_until_acknowledged(tmp_path: Path) -> None:
    async with two(tmp_path) as scene:
        (one, _), (other, _) = await attached(scene.one, "g1"), await attached(scene.two, "g2")
        await scene.open(one)
        await until(other, "session.capabilities")
        await scene.prompt(other, "text:no", 1)
        refused, acked = None, None
        while refused is None or acked is None:
            frame = await until(other, "x-interlock.control.refused", "x-interlock.ack")
            refused = frame if frame.type == "x-interlock.control.refused" else refused
            acked = frame if frame.type == "x-interlock.ack" else acked
        refusal = refused.payload
        assert (refusal.message_id, refusal.error_code, refusal.controller) == ("prompt-1", "NOT_CONTROLLER", "g1")
        assert (refused.session_id, acked.payload.seq) == (scene.session_id, 1)

        for confirmed in (False, True):
            other.cut()
            other, hello = await attached(scene.two, "g2")
            (session,) = hello.payload.sessions
            assert [one.message_id for one in session.refused] == ["prompt-1"]
            assert (session.control_seq, session.controller) == (1, "g1")
            if confirmed:
                await other.send("x-interlock.ack", p.Ack(session_id=scene.session_id, seq=0, refused=["prompt-1"]))
                await _confirmed(scene)
        other.cut()
        _, hello = await attached(scene.two, "g2")
        assert hello.payload.sessions[0].refused == []
        assert await _prompts(scene) == 0


async def _confirmed(scene: Two) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (row := await scene.scene.outbox.session(scene.session_id, "g2")) is None or row.refused:
            await asyncio.sleep(0)


async def _prompts(scene: Two) -> int:
    frames = await scene.scene.outbox.frames(scene.session_id, 0, 1 << 20)
    return sum(frame.frame_type == "session.turn.start" for frame in frames)


@pytest.mark.req("D-5", "A-5")
async def test_releasing_control_voids_its_question_and_asks_it_again_at_the_new_gateway(tmp_path: Path) -> None:
    async with two(tmp_path) as scene:
        (one, _), (other, _) = await attached(scene.one, "g1"), await attached(scene.two, "g2")
        await scene.open(one)
        await scene.prompt(one, "ask:make text:done", 2)
        old = await until(other, "agent.interaction.request")
        await one.send("control.session.release", p.SessionRelease(to="g2"), seq=3, session_id=scene.session_id)
        for peer in (one, other):
            changed = await until(peer, "x-interlock.control.changed")
            if changed.seq == 1:
                changed = await until(peer, "x-interlock.control.changed")
            assert changed.payload.gateway_id == "g2"
        void = await until(other, "x-interlock.interaction.resolved")
        assert (void.payload.interaction_id, void.payload.outcome) == (old.payload.interaction_id, "void")
        asked = await until(other, "agent.interaction.request")
        assert asked.payload.interaction_id != old.payload.interaction_id
        assert asked.payload.context == old.payload.context

        await scene.answer(one, asked, 4)
        assert (await until(one, "x-interlock.control.refused")).payload.controller == "g2"
        await scene.answer(other, asked, 1)
        resolved = await until(other, "x-interlock.interaction.resolved")
        assert (resolved.payload.interaction_id, resolved.payload.outcome) == (asked.payload.interaction_id, "allowed")
        assert (await until(one, "session.turn.end")).payload.stop_reason == "end_turn"


@pytest.mark.req("D-5", "G-4")
async def test_control_is_taken_by_a_command_on_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Neither the state directory nor $TMPDIR leaves room for a socket's name: the runner must start all the same.
    deep = tmp_path / ("tmp" * 40)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    async with two(tmp_path) as scene:
        (one, _), (other, _) = await attached(scene.one, "g1"), await attached(scene.two, "g2")
        await scene.open(one)
        await until(other, "session.capabilities")
        place = tmp_path / ("state" * 40)
        place.mkdir()
        take = Take(session_id=scene.session_id, to="g2")
        with pytest.raises(NoRunner):
            await ask(place, take)
        async def reload() -> list[str]:
            return []

        async with listening(place, scene.scene.sessions, reload):
            missing = await ask(place, Take(session_id=scene.session_id, to="g9"))
            assert (missing.ok, missing.sentence) == (
                False, "This runner is attached to no gateway g9; it knows: g1, g2.")
            assert (await ask(place, Reload())).ok
            unknown = await ask(place, Take(session_id="nothing", to="g2"))
            assert "no session nothing" in unknown.sentence
            assert (await ask(place, take)).ok
        assert (await until(other, "x-interlock.control.changed")).payload.gateway_id == "g2"
        await scene.prompt(other, "text:mine", 1)
        assert (await until(one, "session.turn.start")).metadata["prompt_id"] == "p1"
        with pytest.raises(NoRunner):
            await ask(place, take)


@pytest.mark.req("D-5", "L-3")
async def test_a_gateway_that_refuses_the_token_or_is_away_affects_only_itself(tmp_path: Path) -> None:
    async with two(tmp_path) as scene:
        scene.two.status = http.HTTPStatus.UNAUTHORIZED
        one, _ = await attached(scene.one, "g1")
        await scene.open(one)
        await until(one, "session.capabilities")
        await scene.prompt(one, "text:alone", 2)
        assert (await until(one, "session.turn.end")).payload.stop_reason == "end_turn"


@pytest.mark.req("D-5", "D-2", "D-3")
async def test_an_observer_that_was_away_for_a_day_receives_its_exact_losses(tmp_path: Path) -> None:
    async with two(tmp_path) as scene:
        (one, _), (other, _) = await attached(scene.one, "g1"), await attached(scene.two, "g2")
        await scene.open(one)
        await until(other, "session.capabilities")
        scene.two.status = http.HTTPStatus.SERVICE_UNAVAILABLE
        other.cut()
        await scene.prompt(one, "text:unseen", 2)
        end = await until(one, "session.usage")
        outbox = scene.scene.outbox
        while (await outbox.gateways())[1].left_ms is None:
            await asyncio.sleep(0)
        await one.send("x-interlock.ack", p.Ack(session_id=scene.session_id, seq=end.seq))
        while (row := await outbox.session(scene.session_id, "g1")) is None or row.acked_seq < (end.seq or 0):
            await asyncio.sleep(0)
        assert await outbox.sweep(ManualClock().now_ms() + 24 * 3_600_000) == [(scene.session_id, "g2")]
        scene.two.status = None
        other, _ = await attached(scene.two, "g2")
        history = await until(other, "session.history")
        status: Any = history.payload.buffer_status
        assert (status.truncated, status.lost_frame_count) == (True, end.seq)
        assert history.metadata["lost_ranges"] == [[1, end.seq]]
        assert history.metadata["place_lost"] == "absent"
        assert all(one["seq"] > (end.seq or 0) for one in inner(history))
