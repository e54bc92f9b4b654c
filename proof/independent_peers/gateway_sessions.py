"""RAWP-DPS section 7, played against our gateway by a Local Client written from the text."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any, NamedTuple

from proof.independent_peers import forms, profile
from proof.independent_peers.peer_client import Document, Person
from proof.independent_peers.peer_runner import USAGE, LocalClient
from proof.independent_peers.profile import Broken, Frame
from proof.independent_peers.stage import Stage
from proof.independent_peers.table import Play, must, play, unless

PLAYS: list[Play] = []
against_gateway = partial(play, PLAYS)
NO_LOSS: Frame = {"policy_applied": "RING", "truncated": False}
REFUSED_S = 10.0
"""What is not refused within this counts as accepted."""
TERMINATED_S = 45.0
"""A termination procedure that has begun has ended the command within this."""
FULL_USAGE: Frame = {
    "token_usage": {"input_tokens": 7.0, "output_tokens": 5, "cache_read_tokens": 3, "cache_write_tokens": 2.0,
                    "thinking_tokens": 1},
    "cost_usage": {"limit": 12.5, "used": 0.25, "unit": "USD"},
    "message_usage": {"limit": 100.0, "used": 1, "unit": "COUNT"},
    "context_window": {"capacity": 200000, "used": 5e3, "utilization": 0.025},
    "time_to_reset": "2030-01-01T00:00:00+09:00",
}


class Turn(NamedTuple):
    """A client in the middle of a turn for a command."""

    client: LocalClient
    person: Person
    command: Document
    turn_id: str

    async def ended(self) -> Document:
        """The command, when it has ended, and nothing was refused that was not looked for. Raises Broken."""
        command = await self.person.ended(self.command["id"])
        unless(f"refused: {error['payload']['message']}" for error in self.client.unread("session.error"))
        return command

    async def frames(self) -> list[Document]:
        """What the gateway keeps of the session: [{kind, frame | notice …}]."""
        path = f"/sessions/{self.client.session_id}/frames?view=raw&limit=500"
        return list((await self.person.found(path))["events"])

    async def kept(self, kind: str) -> list[Frame]:
        """Payloads of the frames of a type that were taken from the client."""
        return [event["frame"]["payload"] for event in await self.frames()
                if event["kind"] == "C" and event["frame"]["type"] == kind]


@contextlib.asynccontextmanager
async def prompted(stage: Stage, **features: Any) -> AsyncGenerator[tuple[LocalClient, Person, Document]]:
    """A command that has reached the client as a prompt."""
    async with stage.client(**features) as (client, target):
        person = await stage.person()
        command = await person.execute(target)
        await client.opened()
        yield client, person, command


@contextlib.asynccontextmanager
async def turn(stage: Stage, **start: Any) -> AsyncGenerator[Turn]:
    """A turn that has started."""
    async with prompted(stage) as (client, person, command):
        yield Turn(client, person, command, await client.begin(**start))


def state(command: Document, wanted: str) -> str:
    """Raise Broken unless a command ended in this state; return its end."""
    must(command["state"] == wanted, f"the command is {command['state']} {command.get('error') or ''}, not {wanted}")
    return f"the command {wanted}"


async def refusal(client: LocalClient) -> str:
    """The gateway's `session.error` for a frame that it refuses, in the published form, and not fatal."""
    error = (await client.receive("session.error", within_s=REFUSED_S))["payload"]
    unless(forms.misfits("session.error", error))
    must(error["fatal"] is False, "the refusal is fatal")
    return f"session.error {error['error_code']}: {error['message']}"


# --- 7.1 session.history ---

@against_gateway("7.1.1", "gateway", "a turn that ends while the link is down; then history with its frames first")
async def a_history_is_applied(stage: Stage) -> str:
    async with turn(stage) as at:
        await at.client.cut()
        await at.client.send_text(at.turn_id, "said while it was cut")
        await at.client.end(at.turn_id)
        await at.client.recover(NO_LOSS)
        did = state(await at.ended(), "succeeded")
        texts = [payload["text"] for payload in await at.kept("agent.text.done")]
        must(texts == ["said while it was cut"], f"the texts kept are {texts}")
        return f"{did}; the text is there once"


@against_gateway("7.1.1", "gateway", "RING, DROP and NONE; high watermark with and without; an empty history")
async def every_policy_is_taken(stage: Stage) -> str:
    async with turn(stage) as at:
        for status in (NO_LOSS, {**NO_LOSS, "policy_applied": "DROP", "buffer_high_watermark": 4096.0},
                       {"policy_applied": "NONE", "truncated": False, "lost_frame_count": 0}):
            await at.client.cut()
            await at.client.recover(status)
        await at.client.end(at.turn_id)
        did = state(await at.ended(), "succeeded")
        must(not any("lost_frame_count" in str(event) for event in await at.frames() if event["kind"] == "notice"),
             "a loss is reported, but no frame was lost")
        return f"{did}; no loss is reported"


@against_gateway("7.1.1 MUST", "gateway", "truncated: true, lost_frame_count 3 and absent: session, status and result")
async def the_gateway_reports_a_loss(stage: Stage) -> str:
    counts: list[Any] = []
    for count, holes in (({"lost_frame_count": 3}, False), ({"lost_frame_count": 3}, True), ({}, False), ({}, True)):
        async with turn(stage) as at:
            await at.client.cut()
            for _ in range(3):
                await at.client.send_text(at.turn_id, "lost")
            await at.client.end(at.turn_id)
            await at.client.recover({"policy_applied": "RING", "truncated": True, **count}, keep=2,
                                    holes=holes)
            command = await at.ended()
            reported = {
                "session": [event for event in await at.frames() if event["kind"] == "notice"
                            and "Truncated" in str(event)],
                "status": [event for event in await at.person.events(command["id"], lambda e: e["event"] == "result")
                           if event["event"] == "notice" and "Truncated" in str(event)],
                "result": [notice for notice in command["result"]["output"].get("notices", [])
                           if notice["code"] == "Truncated"],
            }
            missing = [where for where, notices in reported.items() if not notices]
            must(not missing, f"with {count or 'no lost_frame_count'} there is no notice in: {', '.join(missing)}")
            counts.append(reported["result"][0].get("lost_frame_count"))
    must(counts[:2] == [3, 3], f"the notices count {counts[:2]}, not 3")
    return f"notice Truncated in all three, lost_frame_count {counts}"


# --- 7.2 session.compacted ---

@against_gateway("7.2.1", "gateway", "auto, manual and requested; all of preserved_elements, and none")
async def every_compaction_is_taken(stage: Stage) -> str:
    full = {"files_modified": ["a.py"], "decisions_made": ["keep it"], "errors_encountered": [],
            "active_todos": [{"text": "test it"}]}
    async with turn(stage) as at:
        for trigger in ("auto", "manual", "requested"):
            for preserved in (full, {}):
                await at.client.send("session.compacted", {
                    "summary": "what was said", "previous_token_count": 900, "current_token_count": 90.0,
                    "preserved_elements": preserved, "trigger": trigger})
        await at.client.end(at.turn_id)
        did = state(await at.ended(), "succeeded")
        kept = await at.kept("session.compacted")
        unless(each for payload in kept for each in forms.misfits("session.compacted", payload))
        must(len(kept) == 6, f"{len(kept)} of 6 are kept")
        return f"six are kept as they were sent; {did}"


@against_gateway("7.2.1", "gateway", 'trigger "later", files_modified "x", no summary')
async def a_misshapen_compaction_is_refused(stage: Stage) -> str:
    good: Frame = {"summary": "s", "previous_token_count": 9, "current_token_count": 1, "preserved_elements": {},
            "trigger": "auto"}
    return await each_is_refused(stage, "session.compacted", [
        {**good, "trigger": "later"}, {**good, "preserved_elements": {"files_modified": "x"}},
        {**good, "previous_token_count": -1}, {name: good[name] for name in good if name != "summary"}])


async def each_is_refused(stage: Stage, kind: str, payloads: list[Frame]) -> str:
    """Each payload is refused, and the turn continues to its end."""
    did = ""
    async with turn(stage) as at:
        for payload in payloads:
            frame = await at.client.send(kind, payload)
            try:
                did = await refusal(at.client)
            except Broken as broken:
                raise Broken(f"{frame['payload']} was accepted ({broken})") from None
        await at.client.end(at.turn_id)
        state(await at.ended(), "succeeded")
    return f"each refused, the last with {did}"


# --- 7.3 session.usage ---

@against_gateway("7.3.1", "gateway", "each optional field absent, then each present; -1 and fractions; with text.done")
async def usage_is_taken(stage: Stage) -> str:
    counts: list[int] = []
    for usage in (USAGE, FULL_USAGE):
        async with turn(stage) as at:
            await at.client.send_text(at.turn_id, "hello")
            await at.client.send("session.usage", {**usage, "turn_id": at.turn_id})
            await at.client.end(at.turn_id, usage=usage)
            command = await at.ended()
            state(command, "succeeded")
            kept = await at.kept("session.usage")
            must(len(kept) == 2, f"{len(kept)} of 2 are kept")
            unless(each for payload in kept for each in forms.misfits("session.usage", payload))
            found: Document = (command["result"]["output"].get("usage") or {}) if command.get("result") else {}
            counts.append(found.get("totalTokens", 0))
    must(min(counts) >= 12, f"the results count {counts} tokens, not 12 and more")
    return f"all kept; the results count {counts} tokens"


@against_gateway("7.3.1", "gateway", "objects without a required field (context_window, preserved_elements) left out")
async def an_optional_object_may_be_left_out(stage: Stage) -> str:
    async with turn(stage) as at:
        await at.client.send("session.compacted", {"summary": "s", "previous_token_count": 9, "current_token_count": 1,
                                                   "trigger": "auto"})
        await at.client.end(at.turn_id, usage={name: USAGE[name] for name in USAGE if name != "context_window"})
        did = state(await at.ended(), "succeeded")
        kept = [len(await at.kept(kind)) for kind in ("session.compacted", "session.usage")]
        must(kept == [1, 1], f"kept are {kept}: {[e for e in await at.frames() if e['kind'] == 'refused']}"[:300])
        return f"both kept; {did}"


@against_gateway("7.3.1 MUST", "gateway", "a turn whose end has no usage behind it")
async def usage_is_owed(stage: Stage) -> str:
    async with turn(stage) as at:
        await at.client.send("session.turn.end", {"turn_id": at.turn_id, "stop_reason": "end_turn"})
        await at.client.send("session.turn.start", {"turn_id": str(uuid.uuid4()), "turn_index": 1})
        did = await refusal(at.client)
        await at.client.send("session.usage", USAGE)
        return f"the next turn is refused with {did}; {state(await at.ended(), 'succeeded')} behind the usage"


@against_gateway("7.3.1", "gateway", "negative tokens, utilization 1.5, no cost_usage, unit \"THINGS\"")
async def misshapen_usage_is_refused(stage: Stage) -> str:
    return await each_is_refused(stage, "session.usage", [
        {**USAGE, "token_usage": {"input_tokens": -1, "output_tokens": 0}},
        {**USAGE, "context_window": {"utilization": 1.5}},
        {name: USAGE[name] for name in USAGE if name != "cost_usage"},
        {**USAGE, "message_usage": {"limit": -1, "used": 1, "unit": "THINGS"}}])


# --- 7.4 session.error ---

@against_gateway("7.4.1", "gateway", "fatal: false in the middle of a turn")
async def an_error_that_is_not_fatal_ends_nothing(stage: Stage) -> str:
    async with turn(stage) as at:
        await at.client.send("session.error", {"error_code": "ODD", "message": "odd, and no more", "fatal": False})
        await at.client.end(at.turn_id)
        return f"the turn goes on; {state(await at.ended(), 'succeeded')}"


BROKEN: Frame = {"error_code": "BROKEN", "message": "it broke", "fatal": True}


@against_gateway("7.4.1", "gateway", "fatal: true in the middle of a turn")
async def a_fatal_error_ends_the_session(stage: Stage) -> str:
    async with turn(stage) as at:
        await at.client.send("session.error", BROKEN)
        await at.client.receive("control.session.close", within_s=REFUSED_S)
        await at.client.end(at.turn_id, "cancelled")
        await at.client.send("session.closed", {"reason": "as asked"})
        command = await at.ended()
        state(command, "failed")
        must(command["error"]["code"] == "BROKEN", f"the command failed with {command['error']}, not BROKEN")
        return "the session is closed, and the command failed with BROKEN"


@against_gateway("7.4.1", "gateway", "fatal: true in the middle of a turn, and nothing more", slow=True)
async def a_fatal_error_of_a_client_that_hangs(stage: Stage) -> str:
    async with turn(stage) as at:
        await at.client.send("session.error", BROKEN)
        try:
            async with asyncio.timeout(TERMINATED_S):
                command = await at.ended()
        except TimeoutError:
            raise Broken(f"the command still runs {TERMINATED_S:.0f} s later") from None
        state(command, "failed")
        must(command["error"]["code"] == "BROKEN", f"the command failed with {command['error']}, not BROKEN")
        return "the command failed with BROKEN"


@against_gateway("7.4.1", "gateway", "what the gateway itself reports as session.error")
async def an_error_of_the_master_has_the_form(stage: Stage) -> str:
    async with turn(stage) as at:
        await at.client.send("agent.text.done", {"turn_id": at.turn_id})
        did = await refusal(at.client)
        await at.client.end(at.turn_id)
        state(await at.ended(), "succeeded")
        return did


# --- 7.5 turns ---

@against_gateway("7.5.1", "gateway", "mode absent and present, turn_index 0 and 1.0, over two commands of a session")
async def turns_are_counted(stage: Stage) -> str:
    async with turn(stage, mode="default") as at:
        await at.client.end(at.turn_id)
        state(await at.ended(), "succeeded")
        command = await at.person.execute({"session_id": at.client.session_id})
        second = await at.client.prompted(1.0)
        await at.client.end(second, tool_invocation_count=2.0)
        did = state(await at.person.ended(command["id"]), "succeeded")
        kept = await at.kept("session.turn.start")
        must(len(kept) == 2, f"{len(kept)} of 2 starts are kept")
        return f"both kept; {did}"


@against_gateway("7.5.1", "gateway", 'turn_id "turn-1" and a UUID v1; turn_index -1, 2^64-1, 0.5')
async def a_misshapen_start_is_refused(stage: Stage) -> str:
    good = str(uuid.uuid4())
    async with prompted(stage) as (client, person, command):
        for wrong in ({"turn_id": "turn-1", "turn_index": 0}, {"turn_id": str(uuid.uuid1()), "turn_index": 0},
                      {"turn_id": good, "turn_index": -1}, {"turn_id": good, "turn_index": 2**64 - 1},
                      {"turn_id": good, "turn_index": 0.5}):
            await client.send("session.turn.start", wrong)
            try:
                did = await refusal(client)
            except Broken as broken:
                raise Broken(f"{wrong} was accepted ({broken})") from None
        await client.end(await client.begin(turn_id=good))
        return f"each refused, the last with {did}; then {state(await person.ended(command['id']), 'succeeded')}"


@against_gateway("7.5.1", "gateway", "turn_index 0 for two turns of a session (0-based 순번)")
async def a_repeated_index_is_refused(stage: Stage) -> str:
    async with turn(stage) as at:
        await at.client.end(at.turn_id)
        state(await at.ended(), "succeeded")
        command = await at.person.execute({"session_id": at.client.session_id})
        await at.client.receive("control.prompt.request")
        await at.client.begin(0)
        did = await refusal(at.client)
        await at.client.end(await at.client.begin(1))
        return f"refused with {did}; then {state(await at.person.ended(command['id']), 'succeeded')}"


def _stops(reason: str, wanted: str) -> None:
    @against_gateway("7.5.2", "gateway", f"stop_reason {reason}, then usage")
    async def a_stop_reason(stage: Stage) -> str:
        async with turn(stage) as at:
            await at.client.end(at.turn_id, reason)
            if reason == "tool_use":
                followed = str(uuid.uuid4())
                await at.client.send("session.turn.start", {"turn_id": followed, "turn_index": 1})
                await at.client.end(followed)
            command = await at.ended()
            did = state(command, wanted)
            if reason == "awaiting_input":
                must(command["result"]["output"]["awaiting_input"], "the result does not say that it awaits input")
            return did + (" behind the next turn" if reason == "tool_use" else "")

    a_stop_reason.__name__ = f"stop_reason_{reason}"


for _reason, _wanted in (("end_turn", "succeeded"), ("max_tokens", "succeeded"), ("cancelled", "canceled"),
                         ("error", "failed"), ("tool_use", "succeeded"), ("awaiting_input", "succeeded")):
    _stops(_reason, _wanted)


@against_gateway("7.5.2", "gateway", 'stop_reason "bored", then end_turn')
async def another_stop_reason_is_refused(stage: Stage) -> str:
    async with turn(stage) as at:
        await at.client.send("session.turn.end", {"turn_id": at.turn_id, "stop_reason": "bored"})
        did = await refusal(at.client)
        await at.client.end(at.turn_id)
        return f"refused with {did}; behind a corrected one {state(await at.ended(), 'succeeded')}"


# --- the envelope ---

@against_gateway("7, Envelope", "gateway", "unknown fields in payload and envelope, unknown types, payload before type")
async def unknown_fields_are_kept(stage: Stage) -> str:
    async with turn(stage, colour="red") as at:
        await at.client.send("moon.phase", {"is": "new"})
        await at.client.send("session.weather", {"sun": [1, None]})
        frame = profile.made("agent.text.done", {**profile.text_done(at.turn_id, "hi"), "colour": "red"},
                             at.client.session_id, None)
        seq = float(at.client.number())
        await at.client.send_frame({**frame, "seq": seq, "colour": "blue"})
        await at.client.end(at.turn_id)
        did = state(await at.ended(), "succeeded")
        kept = [await at.kept(kind) for kind in ("moon.phase", "session.weather", "agent.text.done")]
        must([len(each) for each in kept] == [1, 1, 1], f"kept are {kept}")
        must(kept[2][0].get("colour") == "red", "the unknown field is gone")
        return f"all kept, seq {seq} is {int(seq)}; {did}"
