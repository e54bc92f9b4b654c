"""Changes that git finds in a workspace, requested from its runner, as a runner on a raw WebSocket sees it (J-4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from gateway.raw_runner import Runner, Server
from interlock.engine.membership import Elsewhere
from interlock.engine.presence import Links, facts_of
from interlock.engine.sessions.workspace_looks import MAX_ASKED, WorkspaceLooks
from interlock.ports.leases import RunnerLocation
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem
from interlock.protocol.records import SessionRecord

pytestmark = [pytest.mark.anyio, pytest.mark.req("J-4")]
OFFERED = [p.WORKSPACE_CHANGES]
LOOK, CHANGES = "x-interlock.workspace.look", "x-interlock.workspace.changes"


@pytest.fixture
async def server(anyio_backend: str) -> AsyncIterator[Server]:
    made = Server()
    await made.pair()
    yield made
    await made.engine.stop()


def session(name: str = "s1", runner_id: str = "local") -> SessionRecord:
    return SessionRecord(session_id=name, tenant_id="default", agent_id="shell", runner_id=runner_id, session_key="k",
                         workspace="/w", state="idle", created_ms=0, updated_ms=0, deadline_ms=None, machine=b"{}",
                         usage={})


def asking(server: Server, name: str = "s1") -> asyncio.Task[p.WorkspaceChanges]:
    return asyncio.create_task(server.engine.looks.look(session(name), "rw"))


async def asked(runner: Runner) -> p.WorkspaceLook:
    payload = (await runner.frame(LOOK)).payload
    assert isinstance(payload, p.WorkspaceLook)
    return payload


async def test_concurrent_requests_for_a_session_share_one_look(server: Server) -> None:
    async with server.attached(features=OFFERED) as runner:
        first, second = asking(server), asking(server)
        look = await asked(runner)
        assert (look.session_id, look.agent_id, look.workspace) == ("s1", "shell", "/w")
        first.cancel()  # A cancelled request takes nothing from the others.
        answer = p.WorkspaceChanges(request_id=look.request_id, session_id="s1", branch="work")
        for wrong in ({"session_id": "s2"}, {"request_id": "x"}):
            runner.send(CHANGES, msgspec.structs.replace(answer, **wrong))
        runner.send(CHANGES, answer)
        runner.send(CHANGES, answer)  # A second one is none.
        assert await second == answer
        again = asking(server)
        assert (await asked(runner)).request_id != look.request_id
        again.cancel()


async def test_a_lost_or_incapable_runner_is_a_problem_of_one_sentence(server: Server) -> None:
    async with server.attached(features=OFFERED) as runner:
        waiting = asking(server)
        await asked(runner)
    with pytest.raises(Problem, match="has left") as left:
        await waiting
    assert left.value.code == "Unavailable"
    with pytest.raises(Problem, match="is not connected"):
        await server.engine.looks.look(session(), "rw")
    async with server.attached():
        with pytest.raises(Problem, match="does not offer to look at workspaces") as old:
            await server.engine.looks.look(session(), "rw")
    assert old.value.code == "UnsupportedCapability"


async def test_a_runner_gets_a_bounded_number_of_concurrent_looks(server: Server) -> None:
    async with server.attached(features=OFFERED) as runner:
        waiting = [asking(server, f"s{number}") for number in range(MAX_ASKED)]
        for _ in waiting:
            await asked(runner)
        with pytest.raises(Problem, match="is asked for 8 workspaces already"):
            await server.engine.looks.look(session("one more"), "rw")
        for one in waiting:
            one.cancel()


async def test_a_runner_whose_new_gateway_is_not_known_yet_is_found_there(server: Server) -> None:
    async with server.attached(features=OFFERED):
        pass
    engine = server.engine
    present = engine.presence.get("local")
    assert present is not None
    row = RunnerLocation("local", "default", "there", "link", facts_of(present))

    async def find_runners() -> None:
        engine.presence.learn(Links([row], {"there"}, "here", whole=True))

    with pytest.raises(Elsewhere) as there:
        await WorkspaceLooks(engine.presence, engine.clock, lambda _: b"", find_runners).look(session(), "rw")
    assert there.value.instance_id == "there"


async def test_a_runner_of_another_gateway_is_reached_through_it(server: Server) -> None:
    async with server.attached(features=OFFERED):
        pass
    present = server.engine.presence.get("local")
    assert present is not None
    row = RunnerLocation("local", "default", "there", "link", facts_of(present))
    server.engine.presence.learn(Links([row], {"there"}, "here", whole=True))
    with pytest.raises(Elsewhere) as there:
        await server.engine.looks.look(session(), "rw")
    assert there.value.instance_id == "there"
