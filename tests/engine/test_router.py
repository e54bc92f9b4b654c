"""Routing of a command to its session, its agent and its runner (racp section 1, Routing; R-2)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from engine.conversation import OWNER, Table, Wire, remember
from interlock.backends.memory.clock import ManualClock
from interlock.engine.presence import Present
from interlock.engine.router import RETURN_MS, RETURN_RETRY_S, START_MS
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol import payloads as p
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Actor, ApprovalRequirement, CommandBody, Target

pytestmark = pytest.mark.anyio

STRANGER = msgspec.structs.replace(OWNER, tenant_id="other", actor=Actor(type="user", id="eve"))


async def refused(table: Table, code: str, **target: Any) -> Problem:
    """An execute with this target is refused."""
    with pytest.raises(Problem) as caught:
        await table.execute(target=Target(**target))
    assert caught.value.code == code
    return caught.value


def another_runner(table: Table, runner_id: str, **hello: Any) -> Wire:
    """A second runner is attached."""
    wire = Wire()
    record = msgspec.structs.replace(table.record, runner_id=runner_id)
    hello_frame = msgspec.structs.replace(table.hello, runner_id=runner_id, **hello)
    table.engine.presence.arrive(Present(record, hello_frame, 0)).connect(wire)
    return wire


@pytest.mark.req("C-0", "G-4", "R-2")
async def test_without_a_session_a_new_one_opens_under_the_commands_own_key() -> None:
    table = Table()
    one, two = await table.execute(), await table.execute()
    assert one.target.session_id != two.target.session_id
    assert one.target.session_key == f"agent:shell:run:{one.target.session_id}"
    assert (one.target.runner_id, one.target.workspace) == ("local", "/w")


@pytest.mark.req("R-2")
@pytest.mark.parametrize("again", ["main", "MAIN", "agent:shell:main", "Agent:Shell:Main", "agent::main"])
async def test_one_key_however_it_is_written_is_one_session(again: str) -> None:
    table = Table()
    first = await table.execute(target=Target(agent_id="shell", session_key="main"))
    second = await table.execute(target=Target(session_key=again))
    assert second.target.session_id == first.target.session_id
    assert second.target.session_key == "agent:shell:main"


@pytest.mark.req("R-2", "C-3")
async def test_requests_that_open_one_key_at_the_same_time_open_one_session() -> None:
    table = Table()
    commands = await asyncio.gather(*(table.execute(target=Target(agent_id="shell", session_key=key))
                                      for key in ("work", "agent:shell:work", "work:", "work")))
    assert len({command.target.session_id for command in commands}) == 1
    assert table.wire.types() == ["control.session.open", "control.prompt.request"]


@pytest.mark.req("R-2", "K-1")
async def test_a_key_of_another_tenant_is_another_session_with_an_unknown_id() -> None:
    table = Table()
    command = await table.execute(target=Target(agent_id="shell", session_key="main"))
    refusals: set[str] = set()
    for target in (Target(session_id=command.target.session_id), Target(session_id="no-such-session")):
        body = CommandBody(type="execute", target=target, payload=msgspec.Raw(b"{}"))
        with pytest.raises(Problem) as caught:
            await table.engine.submit(STRANGER, body, remember)
        refusals.add(caught.value.detail.replace(str(target.session_id), "ID"))
        assert caught.value.code == "NotFound"
    assert refusals == {"There is no session ID."}
    with pytest.raises(Problem, match="No runner that is online offers"):
        await table.engine.submit(STRANGER, CommandBody(type="execute", target=Target(session_key="main"),
                                                        payload=msgspec.Raw(b"{}")), remember)


@pytest.mark.req("R-2")
async def test_an_agent_is_the_same_in_any_case_and_a_session_keeps_its_own() -> None:
    table = Table()
    command = await table.execute(target=Target(agent_id="Shell", session_key="main"))
    session_id = command.target.session_id
    assert command.target.agent_id == "shell"
    again = await table.execute(target=Target(agent_id="SHELL", session_id=session_id, runner_id="local",
                                              workspace="/w"))
    assert again.target.session_id == session_id
    for wrong in ({"agent_id": "claude"}, {"runner_id": "other"}, {"workspace": "/elsewhere"}):
        problem = await refused(table, "Conflict", session_id=session_id, **wrong)
        assert next(iter(wrong.values())) in problem.detail


@pytest.mark.req("R-2")
async def test_a_key_of_one_agent_does_not_open_a_session_of_another() -> None:
    table = Table()
    problem = await refused(table, "Conflict", agent_id="shell", session_key="agent:claude:main")
    assert problem.detail == "Session key agent:claude:main belongs to agent claude, not shell."


@pytest.mark.req("C-0", "R-2", "F-1")
@pytest.mark.parametrize(
    ("target", "place"),
    [
        ({}, "/target/agent_id"), ({"agent_id": "no such"}, "/target/agent_id"),
        ({"session_key": "a b"}, "/target/session_key"), ({"agent_id": "shell", "session_key": ""},
                                                          "/target/session_key"),
        ({"agent_id": "shell", "workspace": "src"}, "/target/workspace"),
    ],
)
async def test_the_error_of_an_unreadable_target_names_its_place(target: dict[str, str], place: str) -> None:
    problem = await refused(Table(), "InvalidPayload", **target)
    assert [error.pointer for error in problem.errors] == [place]
    assert problem.detail.startswith(place + ":")


async def paired(table: Table, **created: int) -> None:
    """These runners were paired at these times."""
    for runner_id, at_ms in created.items():
        record = msgspec.structs.replace(table.record, runner_id=runner_id, created_ms=at_ms, token_sha256=runner_id)
        await table.ledger.commit(WriteBatch([Put(record)]))


@pytest.mark.req("C-0")
async def test_the_runner_is_the_named_the_only_or_the_first_paired_one() -> None:
    table = Table()
    await refused(table, "Conflict", agent_id="claude")
    other = another_runner(table, "desk")
    await paired(table, local=10, desk=20)
    assert (await table.execute(target=Target(agent_id="shell"))).target.runner_id == "local"
    command = await table.execute(target=Target(agent_id="shell", runner_id="desk"))
    assert command.target.runner_id == "desk"
    assert other.types() == ["control.session.open", "control.prompt.request"]
    again = await table.execute(target=Target(session_id=command.target.session_id))
    assert again.target.runner_id == "desk", "a session stays where it is"
    problem = await refused(table, "Conflict", agent_id="shell", runner_id="phone")
    assert problem.detail == "Runner phone is not online, or does not offer agent shell."


@pytest.mark.req("C-0")
@pytest.mark.parametrize(("workspace", "runner_id"), [
    (None, "local"), ("/w", "local"), ("/w/deep", "local"), ("/srv/app", "desk"), ("/srv/../w", "local"),
    ("/srvs", "local"), ("/nowhere", "local")])
async def test_the_runner_whose_roots_contain_the_workspace_is_chosen(
    workspace: str | None, runner_id: str
) -> None:
    table = Table()
    another_runner(table, "desk", roots=["/srv/"])
    await paired(table, local=10, desk=20)
    command = await table.execute(target=Target(agent_id="shell", workspace=workspace))
    assert command.target.runner_id == runner_id


@pytest.mark.req("C-0")
async def test_a_second_runner_that_offers_everything_is_not_chosen() -> None:
    table = Table()
    hostile = another_runner(table, "aaa-first-by-name", roots=["/"])
    await paired(table, local=10, **{"aaa-first-by-name": 20})
    for target in (Target(agent_id="shell"), Target(agent_id="shell", workspace="/w/src"),
                   Target(agent_id="shell", session_key="main")):
        assert (await table.execute(target=target)).target.runner_id == "local"
    assert hostile.types() == []


@pytest.mark.req("C-0")
async def test_a_runner_whose_agent_cannot_be_started_is_not_chosen() -> None:
    table = Table()
    offer = msgspec.structs.replace(table.hello.agents[0], unavailable="it is not installed")
    another_runner(table, "old", agents=[offer])
    another_runner(table, "late")
    await paired(table, old=1, local=10, late=20)
    assert (await table.execute(target=Target(agent_id="shell"))).target.runner_id == "local"


@pytest.mark.req("C-0", "F-1")
async def test_runners_without_a_first_one_are_listed_in_the_error() -> None:
    table = Table()
    another_runner(table, "desk")
    for known in ({}, {"local": 10, "desk": 10}):
        await paired(table, **known)
        problem = await refused(table, "Conflict", agent_id="shell")
        assert problem.detail == "2 runners offer agent shell: desk (host), local (host)."
        assert problem.hint == "Choose one with target.runner_id (`--runner`)."


@pytest.mark.req("C-0")
async def test_a_runner_of_another_tenant_is_not_found() -> None:
    table = Table()
    record = msgspec.structs.replace(table.record, runner_id="theirs", tenant_id="other")
    claude = p.AgentOffer(agent_id="claude", adapter="acp", adapter_type="process", permission="asks",
                          context_owner="agent")
    table.engine.presence.arrive(
        Present(record, msgspec.structs.replace(table.hello, agents=[claude]), 0)).connect(Wire())
    await refused(table, "Conflict", agent_id="claude")
    await refused(table, "Conflict", agent_id="claude", runner_id="theirs")


@pytest.mark.req("C-0", "C-2")
async def test_a_cancel_finds_its_session_by_command_session_or_key() -> None:
    for named in ("command_id", "session_id", "session_key"):
        table = Table()
        command = await table.execute(target=Target(agent_id="shell", session_key="main"))
        place = {"command_id": command.id, "session_id": command.target.session_id, "session_key": "main"}[named]
        cancel = await table.engine.submit(OWNER, CommandBody(type="cancel", target=Target(**{named: place})), remember)
        assert cancel.target.command_id == command.id
    for target, code in ((Target(), "InvalidPayload"), (Target(command_id="cmd_no"), "NotFound"),
                         (Target(session_key="nothing"), "NotFound")):
        with pytest.raises(Problem) as caught:
            await table.engine.submit(OWNER, CommandBody(type="cancel", target=target), remember)
        assert caught.value.code == code


@pytest.mark.req("C-2", "C-0")
@pytest.mark.parametrize("kind", ["cancel", "pause", "resume", "execute"])
async def test_a_contradictory_target_is_refused(kind: Any) -> None:
    table = Table()
    one = await table.execute(target=Target(agent_id="shell", session_key="one"))
    two = await table.execute(target=Target(agent_id="shell", session_key="two"))
    contradictions = [{"session_id": one.target.session_id, "session_key": "two"},
                      {"session_id": one.target.session_id, "runner_id": "far"},
                      {"session_key": "one", "workspace": "/elsewhere"}]
    if kind != "execute":
        contradictions += [{"command_id": one.id, "session_id": two.target.session_id},
                           {"command_id": one.id, "session_key": "two"}, {"command_id": one.id, "agent_id": "goose"}]
    payload = msgspec.Raw(b'{"messages":[{"role":"user","content":[{"contentType":"text","value":"hi"}]}]}')
    for target in contradictions:
        with pytest.raises(Problem) as caught:
            await table.engine.submit(OWNER, CommandBody(type=kind, target=Target(**target), payload=payload), remember)
        assert caught.value.code == "Conflict", target
    assert [await table.state(command.id) for command in (one, two)] == ["dispatched", "dispatched"]


@pytest.mark.req("C-0", "C-2")
async def test_an_unsupported_field_of_a_command_is_refused_and_not_ignored() -> None:
    table = Table()
    command = await table.execute()
    for kind in ("pause", "resume", "cancel"):
        body = CommandBody(type=kind, target=Target(command_id=command.id), approval=ApprovalRequirement())  # type: ignore[arg-type]
        with pytest.raises(Problem, match="/approval"):
            await table.engine.submit(OWNER, body, remember)
    with pytest.raises(Problem, match="/target/command_id"):
        await table.execute(target=Target(agent_id="shell", command_id=command.id))
    assert await table.state(command.id) == "dispatched"


@pytest.mark.req("W-1", "A-5")
async def test_a_session_is_opened_with_the_requested_access_and_keeps_it() -> None:
    table = Table()
    reading = await table.execute(target=Target(agent_id="shell", session_key="reader", workspace_access="ro"))
    writing = await table.execute()
    asked = {frame.session_id: frame.payload.workspace_access for frame in table.wire.sent
             if frame.type == "control.session.open"}
    assert asked == {reading.target.session_id: "ro", writing.target.session_id: "rw"}
    assert (reading.target.workspace_access, writing.target.workspace_access) == ("ro", None)

    again = await table.execute(target=Target(session_key="reader"))
    assert again.target.workspace_access == "ro"
    problem = await refused(table, "Conflict", session_key="reader", workspace_access="rw")
    assert "has workspace_access ro, not rw" in problem.detail
    table.begin()  # A gateway that was killed and started again still knows.
    problem = await refused(table, "Conflict", session_key="reader", workspace_access="rw")
    assert "has workspace_access ro, not rw" in problem.detail


@pytest.mark.req("L-4", "R-2")
async def test_a_command_right_after_a_welcome_waits_for_the_runners_lanes() -> None:
    table = Table()
    record = msgspec.structs.replace(table.record, runner_id="late")
    hello_frame = msgspec.structs.replace(table.hello, runner_id="late")
    late = table.engine.presence.arrive(Present(record, hello_frame, 0))
    late.arrives()
    asking = asyncio.ensure_future(table.execute(target=Target(agent_id="shell", runner_id="late")))
    at_once = await table.execute(target=Target(agent_id="shell"))
    assert at_once.target.runner_id == "local"
    assert not asking.done()
    late.connect(Wire())
    late.arrived()
    assert (await asking).target.runner_id == "late"


@pytest.mark.req("R-2")
async def test_a_runner_that_disconnects_while_attaching_is_no_longer_awaited() -> None:
    table = Table()
    late = table.engine.presence.arrive(Present(msgspec.structs.replace(table.record, runner_id="late"),
                                                msgspec.structs.replace(table.hello, runner_id="late"), 0))
    late.arrives()
    asking = asyncio.ensure_future(refused(table, "Conflict", agent_id="shell", runner_id="late"))
    await asyncio.sleep(0)
    late.arrived()
    assert "not online" in str(await asking)


@pytest.mark.req("R-2", "L-1")
async def test_a_briefly_disconnected_runner_is_awaited_and_an_absent_one_is_not() -> None:
    table = Table()
    table.engine.presence.detach("local", table.wire, table.clock.now_ms())

    problem = await refused(table, "Unavailable", agent_id="shell")
    assert problem.detail == "Runner local, which offers agent shell, is not connected at the moment."
    assert problem.headers == {"Retry-After": str(RETURN_RETRY_S)}
    assert (await refused(table, "Unavailable", agent_id="shell", runner_id="local")).detail == problem.detail
    await refused(table, "Conflict", agent_id="unknown")
    table.clock.advance(RETURN_MS + 1)
    await refused(table, "Conflict", agent_id="shell")


@pytest.mark.req("R-2", "L-1")
async def test_a_started_gateway_waits_for_its_paired_runners() -> None:
    table = Table()
    for runner_id, revoked in (("afar", False), ("gone", True)):
        record = msgspec.structs.replace(table.record, runner_id=runner_id, token_sha256=runner_id, revoked=revoked)
        await table.ledger.commit(WriteBatch([Put(record)]))

    problem = await refused(table, "Unavailable", agent_id="elsewhere")
    assert problem.detail == "Runner afar has not connected yet since this gateway started."
    await refused(table, "Conflict", agent_id="elsewhere", runner_id="gone")
    table.clock.advance(START_MS + 1)
    await refused(table, "Conflict", agent_id="elsewhere")


@pytest.mark.req("R-2", "L-1", "C-1")
@pytest.mark.parametrize("set_ms", [3_600_000, -3_600_000])
async def test_a_clock_that_was_set_changes_nothing_of_how_long_a_runner_is_waited_for(set_ms: int) -> None:
    table = Table(wall=ManualClock(1_800_000_000_000 + set_ms))
    wall = table.engine.clock
    table.engine.presence.detach("local", table.wire, wall.now_ms())
    await refused(table, "Unavailable", agent_id="shell")

    table.clock.advance(RETURN_MS + 1)
    assert isinstance(wall, ManualClock)
    wall.advance(RETURN_MS + 1)
    await refused(table, "Conflict", agent_id="shell")
