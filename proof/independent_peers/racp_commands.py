"""RACP: commands, idempotency, status. Played against our gateway by a client written from the text.

A Local Client of the peers is the agent.
The text names two paths: `/commands` and `/commands/:id/status?since=<cursor>`. Those of votes, of the audit log, of
keys and of what else can be refused are Interlock's own (docs/reference/rest.md).
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from functools import partial
from typing import Any

from proof.independent_peers import forms, profile
from proof.independent_peers.gateway_sessions import Turn, prompted, state, turn
from proof.independent_peers.peer_client import Answer, Document, Person, text_message
from proof.independent_peers.profile import RECEIVE_S
from proof.independent_peers.stage import Stage
from proof.independent_peers.table import Play, must, play, unless

PLAYS: list[Play] = []
racp = partial(play, PLAYS)
COMMON: Document = {
    "id": "cmd_01HXXX...", "created_at": "2025-09-06T10:00:00Z", "idempotency_key": "c6b2a...", "tenant_id": "org_abc",
    "actor": {"type": "user", "id": "u_123"},
}
"""The common fields, as the text prints them."""
HEARTBEAT_S = 17.0
"""A viewer gets a heartbeat event each 15 s."""
AT_ONCE = 16
"""Requests of a crowd that are under way at one time."""


def command(target: Document, kind: str = "execute", **more: Any) -> Document:
    """The text's command, with all its fields, for a target that exists."""
    return {"type": kind, "target": target, "priority": 0, "timeout_ms": 60000,
            "payload": {**text_message("go"), "tools": []}, **more}


async def posted(person: Person, body: Document, key: str | None = "") -> Document:
    """POST a command that must be accepted; a client that has just dialled may be offered a moment later."""
    deadline = time.monotonic() + RECEIVE_S
    answer = await person.post("/commands", body, key)
    while answer.code == "Conflict" and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
        answer = await person.post("/commands", body, key)
    must(answer.status in (200, 201, 202), f"POST /commands: {answer.status} {answer.body}")
    return answer.body


async def until(person: Person, command_id: str, wanted: str) -> Document:
    """Wait until a command is in a state. Raises Broken."""
    deadline = time.monotonic() + RECEIVE_S
    while (found := await person.found(f"/commands/{command_id}"))["state"] != wanted:
        must(time.monotonic() < deadline, f"the command is {found['state']}, not {wanted}")
        await asyncio.sleep(0.1)
    return found


def refused(answer: Answer, code: str) -> None:
    """Raise Broken unless an answer is the refusal with this code."""
    must(answer.status >= 400 and answer.code == code, f"the answer is {answer.status} {answer.body}, not {code}")


# --- common fields and commands ---

@racp("RACP common", "gateway", "execute with all common fields in its body, as printed; the key is c6b2a...")
async def the_example_is_accepted(stage: Stage) -> str:
    async with stage.client("a_123") as (client, _):
        person = await stage.person()
        made = await posted(person, {**COMMON, **command({"agent_id": "a_123"})}, None)
        unless(forms.unlike("common", made))
        must(made["id"] != COMMON["id"] and made["tenant_id"] != "org_abc" and made["actor"]["id"] != "u_123",
             f"the body's word counts for who asks: {made}")
        await client.opened()
        await client.end(await client.begin())
        return f"{made['id']}, id, tenant and actor from the key; {state(await person.ended(made['id']), 'succeeded')}"


@racp("RACP Command", "gateway", "what the answer to POST /commands and GET /commands/:id shows")
async def a_command_has_the_form(stage: Stage) -> str:
    async with stage.client() as (client, target):
        person = await stage.person()
        made = await posted(person, command(target))
        for shown in (made, await person.found(f"/commands/{made['id']}")):
            unless(forms.unlike("command", shown) + forms.unlike("common", shown))
            must(shown["timeout_ms"] == 60000, f"timeout_ms is {shown['timeout_ms']}")
        prompt = await client.opened()
        must("go" in json.dumps(prompt["payload"]), f"the message did not arrive: {prompt['payload']}")
        await client.end(await client.begin())
        return f"both examples' fields; {state(await person.ended(made['id']), 'succeeded')}"


@racp("RACP Command", "gateway", "priority 0.0 and timeout_ms 60000.0; no priority, no timeout, no tools")
async def numbers_may_be_written_with_a_point(stage: Stage) -> str:
    async with stage.client() as (client, target):
        person = await stage.person()
        made = await posted(person, command(target, priority=0.0, timeout_ms=60000.0))
        await client.opened()
        await client.end(await client.begin())
        state(await person.ended(made["id"]), "succeeded")
        bare = await posted(person, {"type": "execute", "target": {"session_id": client.session_id},
                                     "payload": text_message("go")})
        await client.end(await client.prompted(1))
        return f"both accepted; {state(await person.ended(bare['id']), 'succeeded')}"


@racp("RACP Command", "gateway", "payload.tools names one tool; the agent asks for another, then for that one")
async def tools_are_allowances(stage: Stage) -> str:
    async with stage.client() as (client, target):
        person = await stage.person()
        made = await posted(person, command(target, payload={**text_message("go"), "tools": ["touch"]}))
        turn_id = await client.begun()
        await client.send("agent.interaction.request", profile.question("i-1", "other"))
        answer = (await client.receive("control.interaction.response"))["payload"]
        must((answer["interaction_id"], answer["decision"]) == ("i-1", "deny"), f"the other tool got {answer}")
        await client.send("agent.interaction.request", profile.question("i-2", "touch"))
        held = (await client.receive("x-interlock.interaction.held"))["payload"]
        await person.post(f"/approvals/{held['approval_id']}/grants", {"decision": "grant"})
        answer = (await client.receive("control.interaction.response"))["payload"]
        must((answer["interaction_id"], answer["decision"]) == ("i-2", "allow"), f"the named tool got {answer}")
        await client.end(turn_id)
        did = state(await person.ended(made["id"]), "succeeded")
        return f"the other is denied, the named one goes to policy and a person; {did}"


@racp("RACP Command", "gateway", "type pause and type cancel, each with all fields of the examples")
async def pause_and_cancel_reach_the_agent(stage: Stage) -> str:
    async with prompted(stage, pause="boundary") as (client, person, made):
        turn_id = await client.begin()
        await person.events(made["id"], lambda event: event.get("state") == "running")
        target = {"agent_id": client.agent_id, "session_id": client.session_id}
        common = {name: COMMON[name] for name in COMMON if name != "idempotency_key"}
        paused = await person.post("/commands", {**common, **command(target, "pause")})
        must(paused.status in (200, 201, 202), f"pause: {paused.status} {paused.body}")
        await client.receive("control.turn.pause")
        canceled = await person.post("/commands", command(target, "cancel"))
        must(canceled.status in (200, 201, 202), f"cancel: {canceled.status} {canceled.body}")
        await client.receive("control.turn.cancel")
        await client.end(turn_id, "cancelled")
        state(await person.ended(made["id"]), "canceled")
        events = await person.events(made["id"], lambda event: event["event"] in ("result", "error"))
        code = next(event["code"] for event in events if event["event"] == "error")
        must(code == "Canceled", f"the error event's code is {code}")
        return "control.turn.pause, control.turn.cancel; the command is canceled, error event Canceled"


# --- idempotency ---

@racp("RACP idempotency", "gateway", "the same POST three times at once, then once more; then another body")
async def a_retry_has_the_same_answer(stage: Stage) -> str:
    async with stage.client() as (client, target):
        person = await stage.person()
        first = await posted(person, command(target), "c6b2a...")
        again = await asyncio.gather(*(person.post("/commands", command(target), "c6b2a...") for _ in range(3)))
        for answer in again:
            must(answer.code == "IdempotencyKeyInUse" or answer.body == first,
                 f"a retry was answered {answer.status} {answer.body}")
        await client.end(await client.begun())
        state(await person.ended(first["id"]), "succeeded")
        await client.nothing("control.prompt.request", 0.3)
        other = await person.post("/commands", command(target, timeout_ms=1), "c6b2a...")
        must(other.status in (409, 422), f"the key with another body: {other.status} {other.body}")
        return f"the same answer, one prompt; another body: {other.status} {other.code}"


@racp("RACP idempotency", "gateway", "execute without any key (멱등키 필수)")
async def a_key_is_needed(stage: Stage) -> str:
    async with stage.client() as (_, target):
        answer = await (await stage.person()).post("/commands", command(target), None)
        must(400 <= answer.status < 500, f"accepted: {answer.status} {answer.body}")
        return f"{answer.status} {answer.code}"


# --- status ---

async def send_heartbeat(at: Turn) -> None:
    """Have the client vouch for its agent."""
    await at.client.send_frame(profile.made("x-interlock.heartbeat", {"agents": [
        {"session_id": at.client.session_id, "agent_id": at.client.agent_id, "state": "running",
         "turn_id": at.turn_id}]}))


async def _use_tools(at: Turn, kind: str, stage: str) -> None:
    """Call tools of a kind until the stage is shown: a change of stage is an event at most once a second."""
    deadline = time.monotonic() + RECEIVE_S
    while True:
        call: Document = {"invocation_id": str(uuid.uuid4()), "turn_id": at.turn_id, "tool_name": kind, "input": {}}
        await at.client.send("tool.invoke.request", call, kind=kind)
        await at.client.send("tool.invoke.result", {"invocation_id": call["invocation_id"], "status": "ok",
                                                    "output_type": "text", "output": "x", "duration_ms": 1})
        page = await at.person.found(f"/commands/{at.command['id']}/status")
        if any(event.get("stage") == stage for event in page["events"]):
            return
        must(time.monotonic() < deadline, f"no progress with stage {stage}")
        await asyncio.sleep(0.2)


@racp("RACP Status", "gateway", "progress in each stage, and result, as stream and by polling; the last heartbeat")
async def status_events_have_the_form(stage: Stage) -> str:
    async with turn(stage) as at:
        streaming = asyncio.create_task(at.person.stream(f"/commands/{at.command['id']}/status"))
        await send_heartbeat(at)
        await at.client.send_text(at.turn_id, "hello")
        for wanted, kind in (("retrieval", "search"), ("tool", "execute")):
            await _use_tools(at, kind, wanted)
        beat = (await at.person.found(f"/commands/{at.command['id']}/status")).get("last_heartbeat_at")
        must(forms.is_time(beat), f"the last heartbeat is {beat}")
        await at.client.end(at.turn_id)
        state(await at.ended(), "succeeded")
        streamed, polled = await streaming, await at.person.events(at.command["id"], lambda e: e["event"] == "result")
        for event in (*streamed, *polled):
            if event["event"] in ("progress", "result"):
                unless(forms.unlike(event["event"], event, without=() if "percent" in event else ("percent",)))
        must([e for e in streamed if e["event"] == "result"] == [e for e in polled if e["event"] == "result"],
             "stream and poll show different results")
        stages = list(dict.fromkeys(event["stage"] for event in polled if event["event"] == "progress"))
        must(set(stages) == {"chat", "retrieval", "tool"}, f"the stages are {stages}")
        return f"stages {', '.join(stages)}; result as stream and poll; the last heartbeat"


@racp("RACP Status", "gateway", "the heartbeat event of a stream, while the agent works", slow=True)
async def a_heartbeat_has_the_form(stage: Stage) -> str:
    async with turn(stage) as at:
        streaming = asyncio.create_task(at.person.stream(f"/commands/{at.command['id']}/status"))
        await send_heartbeat(at)
        await asyncio.sleep(HEARTBEAT_S)
        await at.client.end(at.turn_id)
        state(await at.ended(), "succeeded")
        beats = [event for event in await streaming if event["event"] == "heartbeat"]
        must(beats, f"no heartbeat in {HEARTBEAT_S:.0f} s")
        unless(misfit for event in beats for misfit in forms.unlike("heartbeat", event))
        return f"{json.dumps(beats[0])}"


@racp("RACP Status", "gateway", "a command with timeout_ms 200 whose agent goes on: error event Timeout")
async def a_timeout_is_an_event(stage: Stage) -> str:
    async with stage.client() as (client, target):
        person = await stage.person()
        made = await posted(person, command(target, timeout_ms=200))
        turn_id = await client.begun()
        await client.receive("control.turn.cancel")
        await client.end(turn_id, "cancelled")
        events = await person.events(made["id"], lambda event: event["event"] == "error")
        error = next(event for event in events if event["event"] == "error")
        unless(forms.unlike("error", error))
        must(error["code"] == "Timeout", f"the code is {error['code']}")
        return f"error event {error['code']}: {error['message']}"


@racp("RACP Status", "gateway", "GET /commands/:id/status?since=<cursor>, an event at a time")
async def a_cursor_continues_where_it_was(stage: Stage) -> str:
    async with turn(stage) as at:
        await at.client.send_text(at.turn_id, "hello")
        await at.client.end(at.turn_id)
        await at.ended()
        path = f"/commands/{at.command['id']}/status"
        whole, single, since = (await at.person.found(path))["events"], [], ""
        while True:
            page = await at.person.found(f"{path}?limit=1{since}")
            single += page["events"]
            since = f"&since={page['next_cursor']}"
            if not page["has_more"]:
                break
        must(single == whole, f"{len(single)} events one by one, {len(whole)} at once")
        again = (await at.person.found(f"{path}?since={page['next_cursor']}"))["events"]
        must(again == [], f"behind the last cursor: {again}")
        return f"{len(whole)} events, each once; nothing behind the last cursor"
