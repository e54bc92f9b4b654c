"""RAWP-DPS section 7, played against our runner by a Master written from the text."""

from __future__ import annotations

import json
import uuid
from functools import partial

from proof.independent_peers import forms, profile
from proof.independent_peers.peer_gateway import Session
from proof.independent_peers.profile import Frame
from proof.independent_peers.stage import Stage
from proof.independent_peers.table import Play, must, play, unless

PLAYS: list[Play] = []
against_runner = partial(play, PLAYS)
GRACE_S = 5.0
"""Between SIGTERM and SIGKILL (17.2.3)."""
EARLY_S = 0.2
"""How much earlier than the grace a clock of another process may see its end."""
ANSWERED_S = 10.0
"""What has not come within this counts as not sent."""
QUIET_S = 0.5


async def turn_end(session: Session) -> Frame:
    """The end of a turn, and the usage that must come directly behind it (7.5.2), both in their form. Raises Broken."""
    end = await session.receive("session.turn.end")
    following = await session.receive(*forms.DPS, "agent.text.done", "session.closed", within_s=ANSWERED_S)
    must(following["type"] == "session.usage", f"session.turn.end is followed by {following['type']}")
    unless(forms.misfits("session.turn.end", end["payload"]) + forms.misfits("session.usage", following["payload"]))
    return end["payload"]


def texts(session: Session) -> str:
    """All text of the session so far."""
    return "".join(frame["payload"]["text"] for frame in session.of("agent.text.done"))


# --- 7.1 session.history ---

@against_runner("7.1.1", "runner", "a link that is cut in the middle of a turn, which ends before the reattach")
async def history_comes_first(stage: Stage) -> str:
    session, place = await stage.session("staying")
    await session.prompt("later")
    await session.receive("session.turn.start")
    await stage.master.cut()
    (place / "go").touch()
    await turn_end(session)
    must(session.first == "session.history", f"the first frame behind the reattach is {session.first}")
    history = session.histories[0]
    unless(forms.misfits("session.history", history["payload"]))
    must(history["payload"]["buffer_status"]["truncated"] is False, "truncated is true, and nothing was lost")
    bare = [frame for each in session.histories for frame in each["payload"]["frames"]
            if not {"type", "payload", "message_id", "session_id"} <= set(frame)]
    must(not bare, f"frames that are no whole envelopes: {bare}")
    must(texts(session) == "later", f"the text is {texts(session)!r}")
    return "session.history first, in its form, frames whole, nothing lost"


@against_runner("7.1.1", "runner", "buffer policy NONE: what happens while the link is down is lost")
async def a_loss_is_reported(stage: Stage) -> str:
    session, place = await stage.session("staying", "NONE")
    await session.prompt("later")
    await session.receive("session.turn.start")
    await stage.master.cut()
    (place / "go").touch()
    await turn_end(session)
    status: Frame = session.histories[-1]["payload"]["buffer_status"] if session.histories else {}
    unless(each for history in session.histories for each in forms.misfits("session.history", history["payload"]))
    must(status.get("policy_applied") == "NONE", f"the buffer's status is {status}")
    lost = "later" not in texts(session)
    found = "lost" if lost else "there, since the link was back first"
    must(status["truncated"] is lost, f"truncated is {status['truncated']}, and the text is {found}")
    return f"{json.dumps(status)}; the text is {found}"


# --- 7.2 session.compacted ---

@against_runner("7.2.1", "runner", "an agent that compacts by itself and by hand; control.session.compact")
async def compactions_are_reported(stage: Stage) -> str:
    session, _ = await stage.session("compacts")
    for trigger in ("auto", "manual"):
        await session.prompt(f"compact {trigger}")
        await turn_end(session)
    await session.send("control.session.compact", {"request_id": str(uuid.uuid4())})
    await session.receive("session.compacted", where=lambda frame: frame["payload"]["trigger"] == "requested")
    found = session.of("session.compacted")
    unless(each for frame in found for each in forms.misfits("session.compacted", frame["payload"]))
    triggers = [frame["payload"]["trigger"] for frame in found]
    must(triggers == ["auto", "manual", "requested"], f"reported are {triggers}")
    kept = found[0]["payload"]["preserved_elements"]
    must(set(kept) == {"files_modified", "decisions_made", "errors_encountered", "active_todos"},
         f"of preserved_elements there is {kept}")
    return "auto, manual and requested, each in its form"


# --- 7.3, 7.5 usage and turns ---

@against_runner("7.3.1 MUST", "runner", "three prompts in a session of one process, three in one of a process each")
async def usage_follows_each_turn(stage: Stage) -> str:
    for agent, script in (("staying", "say 2"), ("single", "say 3 0")):
        session, _ = await stage.session(agent)
        for index in range(3):
            await session.prompt(script)
            start = (await session.receive("session.turn.start"))["payload"]
            unless(forms.misfits("session.turn.start", start))
            must(start["turn_index"] == index, f"turn_index is {start['turn_index']}, not {index}")
            end = await turn_end(session)
            must(end["turn_id"] == start["turn_id"], "the end names another turn than the start")
            must(end["stop_reason"] == "end_turn", f"stop_reason is {end['stop_reason']}")
    return "start with a UUID v4 and 0, 1, 2; end; session.usage directly behind it"


@against_runner("7.5.2", "runner", "an agent that ends its turns for each reason of the list")
async def each_stop_reason_arrives(stage: Stage) -> str:
    session, _ = await stage.session("staying")
    seen: list[str] = []
    for reason in ("end_turn", "max_tokens", "error", "awaiting_input", "tool_use"):
        await session.prompt(f"stop {reason}")
        seen.append((await turn_end(session))["stop_reason"])
    must((await turn_end(session))["stop_reason"] == "end_turn", "the turn behind tool_use does not end")
    await session.prompt("wait")
    await session.receive("session.turn.start")
    await session.send("control.turn.cancel", {"reason": "enough"})
    seen.append((await turn_end(session))["stop_reason"])
    must(set(seen) == set(forms.STOP_REASONS), f"what arrives is {seen}")
    return "all six arrive"


# --- 7.4 session.error ---

@against_runner("7.4.1", "runner", "fatal: false from the Master, then a prompt")
async def an_error_of_the_master_ends_nothing(stage: Stage) -> str:
    session, _ = await stage.session("staying")
    await session.send("session.error", {"error_code": "ODD", "message": "odd", "fatal": False})
    await session.prompt("say 1")
    must((await turn_end(session))["stop_reason"] == "end_turn", "the prompt did not run")
    return "the session goes on"


@against_runner("7.4.1", "runner", "fatal: true from the Master in the middle of a turn")
async def a_fatal_error_of_the_master_ends_the_session(stage: Stage) -> str:
    session, _ = await stage.session("staying")
    await session.prompt("wait")
    await session.receive("session.turn.start")
    await session.send("session.error", {"error_code": "BROKEN", "message": "it broke", "fatal": True})
    end = await turn_end(session)
    await session.receive("session.closed")
    return f"the turn ends ({end['stop_reason']}), then session.closed"


@against_runner("7.4.1", "runner", "what the runner itself reports as session.error: a prompt without its fields")
async def an_error_of_the_client_has_the_form(stage: Stage) -> str:
    session, _ = await stage.session("staying")
    await session.send("control.prompt.request", {"input_type": "text"})
    error = (await session.receive("session.error"))["payload"]
    unless(forms.misfits("session.error", error))
    must(error["fatal"] is False, "it is fatal")
    await session.prompt("say 1")
    await turn_end(session)
    return f"session.error {error['error_code']}: {error['message']}"


@against_runner("7.4.1", "runner", "an agent that the runner does not have is opened")
async def a_failed_start_is_fatal(stage: Stage) -> str:
    session, _ = await stage.session("nowhere", opened=False)
    answer = await session.request_open()
    must(answer["type"] == "session.error", f"the answer is {answer['type']}")
    error = answer["payload"]
    unless(forms.misfits("session.error", error))
    must(error["fatal"] is True, f"it is not fatal: {error}")
    await session.receive("session.closed", within_s=ANSWERED_S)
    return f"session.error {error['error_code']}, fatal true, then session.closed"


@against_runner("7.3.1", "runner", "session.usage from the Master (양방향), with each optional field and fractions")
async def usage_of_the_master_is_taken(stage: Stage) -> str:
    session, _ = await stage.session("staying")
    await session.send("session.usage", {
        "token_usage": {"input_tokens": 7.0, "output_tokens": 5, "cache_read_tokens": 1, "cache_write_tokens": 1,
                        "thinking_tokens": 1},
        "cost_usage": {"limit": 5.5, "used": 0.5, "unit": "USD"},
        "message_usage": {"limit": -1, "used": 1, "unit": "COUNT"},
        "context_window": {"capacity": 100, "used": 50, "utilization": 0.5}, "time_to_reset": "2030-01-01T00:00:00Z"})
    await session.prompt("say 1")
    await turn_end(session)
    must(not session.of("session.error"), f"it is refused: {[e['payload'] for e in session.of('session.error')]}")
    return "taken without an error"


# --- the envelope ---

@against_runner("7, Envelope", "runner", "unknown fields, unknown types, numbers as 3.0, payload before type")
async def unknown_fields_do_no_harm(stage: Stage) -> str:
    session, _ = await stage.session("staying")
    await session.send("control.weather", {"sun": [1, None]})
    await session.send("moon.phase", {"is": "new"}, colour="blue")
    prompt = profile.prompt(str(uuid.uuid4()), "say 1")
    frame = await session.send("control.prompt.request", {**prompt, "colour": 1, "timeout_ms": 60000.0}, seq=4.0)
    answer = await session.receive("session.turn.start", "session.error",
                                   where=lambda each: each["payload"].get("error_code") != "UNSUPPORTED_CAPABILITY")
    must(answer["type"] == "session.turn.start", f"refused: {answer['payload']}")
    await turn_end(session)
    fatal = [each["payload"] for each in session.of("session.error") if each["payload"]["fatal"]]
    must(not fatal, f"fatal: {fatal}")
    return f"the prompt with number {frame['seq']} runs, and nothing was fatal"
