"""RAWP-DPS section 17, played against our gateway by a Local Client written from the text."""

from __future__ import annotations

import asyncio
import uuid
from functools import partial

from proof.independent_peers import profile
from proof.independent_peers.gateway_sessions import NO_LOSS, REFUSED_S, Turn, each_is_refused, prompted, state, turn
from proof.independent_peers.peer_client import Document
from proof.independent_peers.profile import Frame
from proof.independent_peers.stage import Stage
from proof.independent_peers.table import Play, must, play

PLAYS: list[Play] = []
against_gateway = partial(play, PLAYS)


@against_gateway("17.1, 17.4", "gateway", "adapter_type process and sdk in the agent's metadata and features")
async def both_adapter_types_are_taken(stage: Stage) -> str:
    seen: list[str] = []
    for kind in ("process", "sdk"):
        async with prompted(stage, adapter_type=kind) as (client, person, command):
            await client.end(await client.begin())
            state(await person.ended(command["id"]), "succeeded")
            nodes = await person.found("/edge/nodes")
            seen += [agent["adapter_type"] for node in nodes["nodes"] for agent in node.get("agents", [])
                     if agent["agent_id"] == client.agent_id]
    must(seen == ["process", "sdk"], f"people are shown {seen}")
    return "both work, and are shown"


@against_gateway("17.2.2", "gateway", "agent.error fatal SIGNAL_EXIT, then turn.end error, then usage")
async def a_reported_signal_fails_the_command(stage: Stage) -> str:
    async with turn(stage) as at:
        await at.client.send("agent.error", {"severity": "fatal", "error_code": "SIGNAL_EXIT", "message": "signal 9"})
        await at.client.end(at.turn_id, "error")
        command = await at.ended()
        state(command, "failed")
        must(command["error"]["code"] == "SIGNAL_EXIT", f"the error is {command['error']}")
        return "the command failed with SIGNAL_EXIT"


async def _asking(at: Turn, tool_name: str = "touch") -> tuple[str, Document]:
    """Send a permission request; returns its id and the approval that people see."""
    asked = str(uuid.uuid4())
    await at.client.send("agent.interaction.request", profile.question(asked, tool_name))
    events = await at.person.events(at.command["id"], lambda event: event["event"] == "approval")
    approval_id = next(event["approval_id"] for event in events if event["event"] == "approval")
    return asked, await at.person.found(f"/approvals/{approval_id}")


@against_gateway("17.3.1", "gateway", "PERMISSION with context.tool_name; a person grants, another denies")
async def a_permission_is_asked_for(stage: Stage) -> str:
    did: list[str] = []
    for vote, wanted in (("grant", "allow"), ("deny", "deny")):
        async with turn(stage) as at:
            asked, approval = await _asking(at)
            must("touch" in str(approval), f"the approval does not name the tool: {approval}")
            await at.client.nothing("control.interaction.response", 0.3)
            voted = await at.person.post(f"/approvals/{approval['id']}/grants",
                                         {"decision": vote, "digest": approval["digest"]})
            must(voted.status in (200, 201), f"the vote was answered {voted.status} {voted.body}")
            answer = (await at.client.receive("control.interaction.response"))["payload"]
            must(answer["interaction_id"] == asked and answer["decision"] == wanted, f"the answer is {answer}")
            await at.client.end(at.turn_id)
            state(await at.ended(), "succeeded")
            did.append(f"{vote} → control.interaction.response {wanted}")
    return "nothing before the vote; " + ", ".join(did)


@against_gateway("17.3.1", "gateway", "PERMISSION that nobody answers")
async def a_permission_times_out(stage: Stage) -> str:
    async with turn(stage) as at:
        asked, _ = await _asking(at, "soon")
        answer = await at.client.receive("control.interaction.timeout", "control.interaction.response")
        must(answer["payload"]["interaction_id"] == asked, f"the answer is for {answer['payload']}")
        must(answer["type"] == "control.interaction.timeout", f"the answer is {answer['type']} {answer['payload']}")
        await at.client.end(at.turn_id)
        return f"control.interaction.timeout; {state(await at.ended(), 'succeeded')}"


@against_gateway("17.3.1 MUST", "gateway", "PERMISSION without context.tool_name")
async def a_permission_names_its_tool(stage: Stage) -> str:
    return await each_is_refused(stage, "agent.interaction.request", [profile.question(str(uuid.uuid4()), None)])


@against_gateway("17.3.2 MUST", "gateway", "two commands for one session: when does the second prompt come?")
async def one_prompt_at_a_time(stage: Stage) -> str:
    async with turn(stage) as at:
        second = await at.person.execute({"session_id": at.client.session_id})
        await at.client.nothing("control.prompt.request", 0.5)
        await at.client.end(at.turn_id)
        await at.client.receive("control.prompt.request")
        await at.client.end(await at.client.begin(1))
        state(await at.person.ended(second["id"]), "succeeded")
        return "no prompt before session.turn.end, one behind it; both succeeded"


@against_gateway("17.3.2", "gateway", "PROMPT_IN_PROGRESS for a prompt that crosses a turn of the agent's own")
async def a_refused_prompt_comes_again(stage: Stage) -> str:
    async with turn(stage) as at:
        await at.client.end(at.turn_id)
        state(await at.ended(), "succeeded")
        at.client.pause()
        second = await at.person.execute({"session_id": at.client.session_id})
        await at.person.events(second["id"], lambda event: event.get("state") == "dispatched")
        own = await at.client.begin(1, own=True)
        at.client.resume()
        await at.client.receive("control.prompt.request")
        await at.client.send("session.error", {"error_code": "PROMPT_IN_PROGRESS", "message": "busy", "fatal": False})
        await at.client.end(own)
        await at.client.end(await at.client.prompted(2))
        did = state(await at.person.ended(second["id"]), "succeeded")
        return f"the prompt comes again at the turn's end; {did}"


@against_gateway("17.3.2", "gateway", "a session that is given up as lost returns in the middle of its turn")
async def a_lost_session_that_returns(stage: Stage) -> str:
    async with turn(stage) as at:
        silent = asyncio.create_task(_vouch(at, []))
        command = await at.ended()
        silent.cancel()
        state(command, "failed")
        await at.client.cut()
        await at.client.dial()
        await at.client.send("session.history", {"frames": [], "buffer_status": NO_LOSS, "last_message_id": "",
                                                 "last_sync_timestamp": "2025-09-06T10:00:00Z"})
        await at.client.send_text(at.turn_id, "still at work")
        second = await at.person.execute({"session_id": at.client.session_id})
        await at.client.receive("control.turn.cancel", within_s=REFUSED_S)
        await at.client.end(at.turn_id, "cancelled")
        await at.client.end(await at.client.begun(1))
        did = state(await at.person.ended(second["id"]), "succeeded")
        return f"{command['error']['code']}; the returned turn is cancelled, and behind it {did}"


async def _vouch(at: Turn, agents: list[Frame]) -> None:
    while True:
        await at.client.send_frame(profile.made("x-interlock.heartbeat", {"agents": agents}))
        await asyncio.sleep(0.2)


@against_gateway("17.4", "gateway", "a person asks for a compaction of an agent without context_compaction")
async def no_compaction_is_sent(stage: Stage) -> str:
    async with turn(stage) as at:
        await at.client.end(at.turn_id)
        state(await at.ended(), "succeeded")
        answer = await at.person.post(f"/sessions/{at.client.session_id}/compact", {})
        must(answer.code == "UnsupportedCapability", f"the answer is {answer.status} {answer.body}")
        await at.client.nothing("control.session.compact", 0.2)
        return "UnsupportedCapability, and nothing is sent"
