"""An editor at `interlock acp` and at `/acp`: its messages, against a gateway and a runner of processes. Each message
of the door is checked against ACP's own schema."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from end_to_end.acp_editor import PATIENCE_S, Editor, client, editor, over_websocket
from interlock.doors.acp.door import AUTH_REQUIRED, AcpDoor, DoorError, OnExit
from interlock.protocol.resources import Actor, Approval
from interlock.sdk import AsyncInterlock, StreamEvent
from proof.processes.stack import Stack

pytestmark = pytest.mark.anyio
Door = Callable[..., AbstractAsyncContextManager[Editor]]


@pytest.fixture(params=["stdio", "websocket"])
def door(request: pytest.FixtureRequest) -> Door:
    return partial(editor, transport=request.param)


async def pending(gateway: AsyncInterlock, session_key: str) -> Approval:
    async with asyncio.timeout(PATIENCE_S):
        async for event in gateway.events.follow():
            if isinstance(event, StreamEvent) and event.data.event == "approval" and event.data.state == "pending":
                found = await gateway.approvals.get(event.data.id)
                shown = await gateway.sessions.get(found.session_id)
                if shown.session_key == session_key and found.state == "pending":
                    return found
    raise AssertionError("the feed ended")


@pytest.mark.req("O-1")
async def test_initialize_works_without_a_gateway_and_other_methods_report_that_it_is_missing() -> None:
    def absent() -> AsyncInterlock:
        raise DoorError(AUTH_REQUIRED, "No gateway runs here. Start one with: interlock up")

    at = Editor(None)
    serving = asyncio.create_task(AcpDoor(at, absent, None, None).run())
    answer = await at.ask("initialize", protocolVersion=1)
    with pytest.raises(DoorError, match="interlock up") as refused:
        await at.ask("session/new", cwd="/", mcpServers=[])
    with pytest.raises(DoorError, match="no method 'session/dance'"):
        await at.ask("session/dance")
    at.leave()
    await asyncio.wait_for(serving, PATIENCE_S)

    assert answer["agentCapabilities"]["loadSession"] is True
    assert refused.value.code == AUTH_REQUIRED


@pytest.mark.req("O-7", "O-2", "O-3", "O-4")
async def test_a_prompt_runs_after_a_grant_of_the_digest_that_was_shown(
    door: Door, stack: Stack, workspace: Path
) -> None:
    async with door(stack) as at:
        session = await at.new(workspace)
        answer = await asyncio.wait_for(at.prompt(session, "touch made; echo done"), PATIENCE_S)

        [asked] = at.asked
        async with client(stack) as gateway:
            approval = await gateway.approvals.get(asked["_meta"]["interlock"]["approvalId"])

    assert answer == {"stopReason": "end_turn"}
    assert session.startswith("agent:shell:acp:")
    assert (workspace / "made").exists()
    assert asked["toolCall"]["rawInput"] == {"command": "touch made; echo done"}
    assert asked["toolCall"]["title"] == "$ touch made; echo done"
    assert asked["_meta"]["interlock"]["digest"] == approval.digest
    assert (approval.state, [vote.comment for vote in approval.votes]) == ("consumed", ["in the editor (ACP)"])
    assert at.text() == "ran 1 command"
    assert "done" in next(one for one in at.updates if one.get("status") == "completed")["rawOutput"]


@pytest.mark.req("O-7", "O-4")
async def test_a_denial_in_the_editor_is_a_vote_and_nothing_runs(door: Door, stack: Stack, workspace: Path) -> None:
    async with door(stack, answer=lambda asked: "deny") as at:
        session = await at.new(workspace)
        await asyncio.wait_for(at.prompt(session, "touch made"), PATIENCE_S)

    assert not (workspace / "made").exists()
    assert [one["status"] for one in at.updates if "rawOutput" in one] == ["failed"]


@pytest.mark.req("O-7", "O-4")
async def test_a_cancelled_question_is_not_a_vote_and_others_can_still_decide(
    door: Door, stack: Stack, workspace: Path
) -> None:
    async with door(stack, answer=lambda asked: None) as at, client(stack) as gateway:
        session = await at.new(workspace)
        prompted = at.prompt(session, "touch made")
        approval = await pending(gateway, session)
        await at.until(lambda: at.asked)
        assert (await gateway.approvals.get(approval.id)).votes == []

        await gateway.approvals.grant(approval.id, digest=approval.digest)
        assert (await asyncio.wait_for(prompted, PATIENCE_S))["stopReason"] == "end_turn"

    assert (workspace / "made").exists()


@pytest.mark.req("O-7", "O-4")
async def test_an_approval_that_another_client_decided_is_withdrawn_from_the_editor(
    door: Door, stack: Stack, workspace: Path
) -> None:
    async with door(stack, answer=None) as at, client(stack) as gateway:
        session = await at.new(workspace)
        prompted = at.prompt(session, "touch made")
        approval = await pending(gateway, session)
        await at.until(lambda: at.asked)
        await gateway.approvals.deny(approval.id, comment="not today")
        await asyncio.wait_for(prompted, PATIENCE_S)

        assert len(at.withdrawn) == 1
    assert not (workspace / "made").exists()


@pytest.mark.req("O-7", "O-4")
async def test_a_command_that_needs_approval_before_it_starts_is_asked_about_in_the_editor(
    door: Door, stack: Stack, workspace: Path
) -> None:
    async with door(stack, agent="guarded", answer=lambda asked: "deny") as at:
        session = await at.new(workspace)
        with pytest.raises(DoorError) as failed:
            await asyncio.wait_for(at.prompt(session, "work"), PATIENCE_S)

    assert [one["_meta"]["interlock"]["agent"] for one in at.asked] == ["guarded"]
    assert {option["optionId"] for option in at.asked[0]["options"]} == {"allow", "deny"}
    assert failed.value.data is not None


@pytest.mark.req("O-7", "O-4")
async def test_a_key_that_may_not_vote_sees_who_decides(door: Door, stack: Stack, workspace: Path) -> None:
    async with client(stack) as gateway:
        made = await gateway.keys.make(Actor(type="user", id="somebody"), ["operator"])
        async with door(stack, key=made.key) as at:
            session = await at.new(workspace)
            prompted = at.prompt(session, "touch made")
            approval = await pending(gateway, session)
            shown = await at.until(lambda: [one for one in at.updates if approval.id in json.dumps(one)])
            await gateway.approvals.deny(approval.id)
            await asyncio.wait_for(prompted, PATIENCE_S)

    assert at.asked == []
    assert f"interlock approve {approval.id}" in shown[0]["content"][0]["content"]["text"]


@pytest.mark.req("O-7", "O-3")
async def test_cancel_ends_the_prompt_and_a_failure_has_its_code(door: Door, stack: Stack, workspace: Path) -> None:
    async with door(stack, answer=None) as at:
        session = await at.new(workspace)
        prompted = at.prompt(session, "sleep 60")
        await at.until(lambda: at.asked)
        with pytest.raises(DoorError, match="under way"):
            await at.prompt(session, "another")
        at.notify("session/cancel", sessionId=session)
        assert (await asyncio.wait_for(prompted, PATIENCE_S)) == {"stopReason": "cancelled"}
    async with door(stack, agent="absent") as at:
        session = await at.new(workspace)
        with pytest.raises(DoorError) as failed:
            await asyncio.wait_for(at.prompt(session, "work"), PATIENCE_S)

    assert "/nowhere/at/all" in str(failed.value)
    assert failed.value.data["code"]


@pytest.mark.req("O-7", "O-2")
@pytest.mark.parametrize(("agent", "cwd", "sentence"), [
    ("shell", "/nowhere", "outside the runner's roots"), ("shell", "relative", "absolute path"),
    ("ghost", None, "No runner that is online offers the agent ghost"), (None, None, "Which agent"),
])
async def test_a_session_that_cannot_run_is_refused_with_a_remedy(
    door: Door, stack: Stack, workspace: Path, agent: str | None, cwd: str | None, sentence: str
) -> None:
    async with door(stack, agent=agent) as at:
        with pytest.raises(DoorError, match=sentence):
            await at.ask("session/new", cwd=cwd or str(workspace), mcpServers=[])


@pytest.mark.req("O-2")
async def test_mcp_servers_of_the_editor_are_named_but_not_started(
    stack: Stack, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = {"name": "sql", "command": str(workspace / "evil"), "args": [], "env": []}
    async with editor(stack) as at:
        opened = await at.ask("session/new", cwd=str(workspace), mcpServers=[server])

    assert opened["_meta"]["interlock"]["mcpServersNotStarted"] == ["sql"]
    assert "sql" in capsys.readouterr().err


@pytest.mark.req("O-7", "O-5")
async def test_a_second_editor_loads_the_conversation_and_follows_the_running_turn(
    door: Door, stack: Stack, workspace: Path
) -> None:
    async with door(stack) as first, door(stack) as second:
        session = await first.new(workspace)
        await asyncio.wait_for(first.prompt(session, "echo one # free"), PATIENCE_S)
        listed = (await second.ask("session/list", cwd=str(workspace)))["sessions"]
        await second.ask("session/load", sessionId=session, cwd=str(workspace), mcpServers=[])
        replayed = (second.text("user_message_chunk"), second.text())
        await asyncio.wait_for(first.prompt(session, "echo two # free"), PATIENCE_S)
        await second.until(lambda: second.text().count("ran 1 command") == 2)
        await second.ask("session/resume", sessionId=session, cwd=str(workspace), mcpServers=[])

    assert [one["sessionId"] for one in listed] == [session]
    assert replayed == ("echo one # free", "ran 1 command")
    assert second.text("user_message_chunk") == "echo one # freeecho two # free"


@pytest.mark.req("O-7", "O-5")
async def test_a_session_that_was_never_prompted_is_loaded_prompted_and_deleted(
    door: Door, stack: Stack, workspace: Path
) -> None:
    async with door(stack) as first:
        session = await first.new(workspace)
        unused = await first.new(workspace)
        await first.ask("session/delete", sessionId=unused)
        with pytest.raises(DoorError, match="is open here"):
            await first.prompt(unused, "echo one # free")
    async with door(stack) as second:
        await second.ask("session/load", sessionId=session, cwd=str(workspace), mcpServers=[])
        nothing = second.text()
        await asyncio.wait_for(second.prompt(session, "echo one # free"), PATIENCE_S)
        listed = (await second.ask("session/list", cwd=str(workspace)))["sessions"]
        for strange in (session.replace(":shell:", ":ghost:"), "agent:shell:acp:1", "ses_unknown"):
            with pytest.raises(DoorError, match=r"offers the agent ghost|has no session"):
                await second.ask("session/load", sessionId=strange, cwd=str(workspace), mcpServers=[])
        with pytest.raises(DoorError, match="outside the runner's roots"):
            await second.ask("session/resume", sessionId=unused, cwd="/nowhere", mcpServers=[])

    assert (nothing, second.text()) == ("", "ran 1 command")
    assert [one["sessionId"] for one in listed] == [session]


@pytest.mark.req("O-7", "O-5")
async def test_slash_commands_are_answered_by_the_door(door: Door, stack: Stack, workspace: Path) -> None:
    async with door(stack) as at:
        session = await at.new(workspace)
        await at.prompt(session, "/status")
        await at.prompt(session, "echo one # free")
        await at.prompt(session, "/status")
        await at.prompt(session, "/pause")
        await at.ask("session/set_mode", sessionId=session, modeId="plan")
        await at.ask("session/close", sessionId=session)
        with pytest.raises(DoorError, match="is open here"):
            await at.prompt(session, "echo two # free")

    assert at.text() == (f"The session has no work yet.\nran 1 command"
                         f"Agent shell on local in {workspace}: idle; 0 tokens.\nThere is nothing to pause.\n")


@pytest.mark.req("O-6")
@pytest.mark.parametrize(("on_exit", "state"), [("detach", "succeeded"), ("cancel", "canceled")])
async def test_work_continues_or_ends_when_the_editor_leaves(
    stack: Stack, workspace: Path, on_exit: OnExit, state: str
) -> None:
    async with client(stack) as gateway:
        async with editor(stack, answer=None, on_exit=on_exit) as at:
            session = await at.new(workspace)
            at.prompt(session, "echo late")
            approval = await pending(gateway, session)
            await at.until(lambda: at.asked)
        if on_exit == "detach":
            assert (await gateway.approvals.get(approval.id)).votes == []
            await gateway.approvals.grant(approval.id, digest=approval.digest)
        assert approval.command_id is not None
        ended = await gateway.commands.wait(approval.command_id, within_s=PATIENCE_S)

    assert ended.state == state


@pytest.mark.req("O-6")
async def test_after_a_gateway_is_killed_in_mid_turn_the_editor_follows_and_the_turn_ends_once(
    stack: Stack, workspace: Path
) -> None:
    async with editor(stack, answer=None) as at:
        session = await at.new(workspace)
        prompted = at.prompt(session, "echo one # free\ntouch made")
        await at.until(lambda: at.asked)
        await asyncio.to_thread(stack.kill, "gateway")
        await at.until(lambda: "connection to the gateway was lost" in at.text("agent_thought_chunk"))
        await asyncio.to_thread(stack.start, "gateway")
        await asyncio.to_thread(stack.until_up)
        async with client(stack) as gateway:
            approval = await gateway.approvals.get(at.asked[0]["_meta"]["interlock"]["approvalId"])
            await gateway.approvals.grant(approval.id, digest=approval.digest)
        answer = await asyncio.wait_for(prompted, PATIENCE_S)

    assert answer == {"stopReason": "end_turn"}
    assert (workspace / "made").exists()
    assert at.text() == "ran 2 commands"
    assert "Connected to the gateway again" in at.text("agent_thought_chunk")


@pytest.mark.req("O-7", "O-5", "O-6")
async def test_after_a_broken_websocket_the_next_connection_gets_the_turn_and_its_text(
    stack: Stack, workspace: Path
) -> None:
    first = Editor(None)
    async with over_websocket(stack, first, "shell", None) as link, client(stack) as gateway:
        session = await first.new(workspace)
        first.prompt(session, "echo one # free\ntouch made")
        await first.until(lambda: first.asked)
        link.transport.abort()
        await first.disconnected.wait()
        approval = await gateway.approvals.get(first.asked[0]["_meta"]["interlock"]["approvalId"])
        assert (approval.state, approval.votes) == ("pending", [])
        async with editor(stack, transport="websocket") as second:
            await second.ask("session/load", sessionId=session, cwd=str(workspace), mcpServers=[])
            await second.until(lambda: "commands" in second.text())
            await asyncio.wait_for(second.prompt(session, "echo two # free"), PATIENCE_S)

    assert (workspace / "made").exists()
    assert [one["_meta"]["interlock"]["digest"] for one in second.asked] == [approval.digest]
    assert second.text() == "ran 2 commandsran 1 command"
    assert second.text("user_message_chunk") == "echo one # free\ntouch made"


@pytest.mark.req("O-7", "O-5", "O-4")
async def test_a_question_that_was_closed_is_answered_by_a_slash_command(
    door: Door, stack: Stack, workspace: Path
) -> None:
    async with door(stack, answer=lambda asked: None) as at:
        session = await at.new(workspace)
        prompted = at.prompt(session, "touch made")
        await at.until(lambda: at.asked)
        await asyncio.wait_for(at.prompt(session, "/status"), PATIENCE_S)
        await asyncio.wait_for(at.prompt(session, "/approve"), PATIENCE_S)
        await asyncio.wait_for(prompted, PATIENCE_S)

    [asked] = at.asked
    assert (workspace / "made").exists()
    assert asked["_meta"]["interlock"]["digest"] in at.text()
    assert f"Allowed: {asked['_meta']['interlock']['approvalId']}" in at.text()


@pytest.mark.req("O-7")
async def test_acps_python_client_works_over_its_own_websocket(stack: Stack, workspace: Path) -> None:
    from acp import connect_to_agent, schema
    from acp.helpers import text_block
    from acp.ws import create_websocket_stream

    texts: list[str] = []

    class Client:
        def on_connect(self, conn: Any) -> None:
            """Nothing is asked of the agent from here."""

        async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
            if isinstance(update, schema.AgentMessageChunk):
                texts.append(update.content.text)  # type: ignore[union-attr]

        async def request_permission(self, options: Any, session_id: str, tool_call: Any, **_: Any) -> Any:
            return schema.RequestPermissionResponse(
                outcome=schema.AllowedOutcome(outcome="selected", option_id="allow"))

    at: Any = Client()
    url = stack.url.replace("http", "ws", 1) + "/acp?agent=shell"
    connection = connect_to_agent(at, await create_websocket_stream(url, headers=dict(stack.headers)))
    try:
        await connection.initialize(protocol_version=1, client_capabilities=schema.ClientCapabilities())
        opened = await connection.new_session(cwd=str(workspace), mcp_servers=[])
        ended = await asyncio.wait_for(connection.prompt(
            session_id=opened.session_id, prompt=[text_block("touch made")]), PATIENCE_S)
    finally:
        await connection.close()

    assert ended.stop_reason == "end_turn"
    assert (workspace / "made").exists()
    assert "".join(texts) == "ran 1 command"
