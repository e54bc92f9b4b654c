"""RAWP-DPS sections 7 and 17, played against our runner by a Master written from the text."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from functools import partial
from pathlib import Path
from typing import Any

from proof.seeds import forms, profile
from proof.seeds.agents import VARIABLES
from proof.seeds.peer_gateway import Session
from proof.seeds.profile import HEAR_S, Broken, Frame
from proof.seeds.stage import SDK_AGENT, Stage
from proof.seeds.table import Play, must, play, unless

PLAYS: list[Play] = []
against_runner = partial(play, PLAYS)
GRACE_S = 5.0
"""Between SIGTERM and SIGKILL (17.2.3)."""
EARLY_S = 0.2
"""How much earlier than the grace a clock of another process may see its end."""
LATE_S = 15.0
QUIET_S = 0.5


async def turn_end(session: Session) -> Frame:
    """The end of a turn, and the usage that must come directly behind it (7.5.2), both in their form. Raises Broken."""
    end = await session.hear("session.turn.end")
    following = await session.hear(*forms.DPS, "agent.text.done", "session.closed", "session.capabilities")
    must(following["type"] == "session.usage", f"session.turn.end is followed by {following['type']}")
    unless(forms.misfits("session.turn.end", end["payload"]) + forms.misfits("session.usage", following["payload"]))
    return end["payload"]


def texts(session: Session) -> str:
    """All text of the session so far."""
    return "".join(frame["payload"]["text"] for frame in session.of("agent.text.done"))


async def present(path: Path, name: str) -> Path:
    """Wait for a file that an agent writes. Raises Broken."""
    deadline = time.monotonic() + HEAR_S
    while time.monotonic() < deadline:
        found = await asyncio.to_thread(lambda: list(path.glob(name)))
        if found:
            return found[0]
        await asyncio.sleep(0.01)
    raise Broken(f"the agent wrote no {name}")


def noted(log: Path, word: str) -> float | None:
    """When an agent noted a word; None if it did not."""
    for line in log.read_text().splitlines():
        said, _, at = line.partition(" ")
        if said == word:
            return float(at)
    return None


def alive(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def death(pid: int) -> float:
    """Watch a process; returns when it was gone."""
    while alive(pid):
        time.sleep(0.01)
    return time.time()


# --- 7.1 session.history ---

@against_runner("7.1.1", "runner", "a link that is cut in the middle of a turn, which ends before the reattach")
async def history_comes_first(stage: Stage) -> str:
    session, place = await stage.session("staying")
    await session.prompt("later")
    await session.hear("session.turn.start")
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
    await session.hear("session.turn.start")
    await stage.master.cut()
    (place / "go").touch()
    await turn_end(session)
    status = session.histories[-1]["payload"]["buffer_status"] if session.histories else {}
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
    await session.hear("session.compacted", where=lambda frame: frame["payload"]["trigger"] == "requested")
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
    for agent, said in (("staying", "say 2"), ("single", "say 3 0")):
        session, _ = await stage.session(agent)
        for index in range(3):
            await session.prompt(said)
            start = (await session.hear("session.turn.start"))["payload"]
            unless(forms.misfits("session.turn.start", start))
            must(start["turn_index"] == index, f"turn_index is {start['turn_index']}, not {index}")
            end = await turn_end(session)
            must(end["turn_id"] == start["turn_id"], "the end names another turn than the start")
            must(end["stop_reason"] == "end_turn", f"stop_reason is {end['stop_reason']}")
    return "start with a UUID v4 and 0, 1, 2; end; session.usage directly behind it"


@against_runner("7.5.2", "runner", "an agent that ends its turns for each reason of the list")
async def each_stop_reason_arrives(stage: Stage) -> str:
    session, _ = await stage.session("staying")
    seen = []
    for reason in ("end_turn", "max_tokens", "error", "awaiting_input", "tool_use"):
        await session.prompt(f"stop {reason}")
        seen.append((await turn_end(session))["stop_reason"])
    must((await turn_end(session))["stop_reason"] == "end_turn", "the turn behind tool_use does not end")
    await session.prompt("wait")
    await session.hear("session.turn.start")
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
    await session.hear("session.turn.start")
    await session.send("session.error", {"error_code": "BROKEN", "message": "it broke", "fatal": True})
    end = await turn_end(session)
    await session.hear("session.closed")
    return f"the turn ends ({end['stop_reason']}), then session.closed"


@against_runner("7.4.1", "runner", "what the runner itself reports as session.error: a prompt without its fields")
async def an_error_of_the_client_has_the_form(stage: Stage) -> str:
    session, _ = await stage.session("staying")
    await session.send("control.prompt.request", {"input_type": "text"})
    error = (await session.hear("session.error"))["payload"]
    unless(forms.misfits("session.error", error))
    must(error["fatal"] is False, "it is fatal")
    await session.prompt("say 1")
    await turn_end(session)
    return f"session.error {error['error_code']}: {error['message']}"


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


# --- 17.1, 17.4 adapter types and features ---

@against_runner("17.1", "runner", "the agents' metadata in the client's opening")
async def the_opening_names_adapter_types(stage: Stage) -> str:
    await stage.master.attached()
    kinds = {agent["agent_id"]: agent.get("adapter_type") for agent in stage.master.hello["agents"]}
    must(set(kinds.values()) <= {"process", "sdk"}, f"the agents are {kinds}")
    return json.dumps(kinds)


@against_runner("17.4 SHOULD", "runner", "features.adapter_type of a process agent and of an SDK agent")
async def features_name_the_adapter_type(stage: Stage) -> str:
    session, _ = await stage.session("staying")
    must(session.features.get("adapter_type") == "process", f"the features are {session.features}")
    own, _ = await stage.session(SDK_AGENT)
    must(own.features.get("adapter_type") == "sdk", f"the features are {own.features}")
    return "process, sdk"


async def _unsupported(stage: Stage, feature: str, kind: str, payload: Any) -> str:
    session, _ = await stage.session("staying")
    must(not session.features.get(feature), f"the agent has {feature}")
    await session.prompt("say 1")
    await turn_end(session)
    await session.send(kind, payload)
    error = (await session.hear("session.error", within_s=LATE_S))["payload"]
    unless(forms.misfits("session.error", error))
    must(error["fatal"] is False, "it is fatal")
    await session.prompt("say 1")
    await turn_end(session)
    must(not session.of("session.compacted"), "a compaction is reported")
    return f"session.error {error['error_code']}, not fatal; the next prompt runs"


@against_runner("17.4", "runner", "control.session.compact to an agent without context_compaction")
async def compact_is_refused_where_unsupported(stage: Stage) -> str:
    return await _unsupported(stage, "context_compaction", "control.session.compact",
                              {"request_id": str(uuid.uuid4())})


@against_runner("17.4", "runner", "control.mode.switch to an agent without plan_mode")
async def mode_is_refused_where_unsupported(stage: Stage) -> str:
    return await _unsupported(stage, "plan_mode", "control.mode.switch", {"mode": "plan"})


# --- 17.2 process adapters ---

@against_runner("17.2.1 MUST", "runner", "an agent that prints its environment, a process a turn and one that stays")
async def the_environment_of_an_agent(stage: Stage) -> str:
    for agent in ("single", "staying"):
        session, place = await stage.session(agent)
        await session.prompt("environment")
        await turn_end(session)
        found = json.loads(texts(session))
        wanted = dict(zip(VARIABLES, (session.session_id, str(place), profile.VERSION), strict=True))
        must({name: found[name] for name in VARIABLES} == wanted, f"{agent} has {found}, not {wanted}")
    return "RAWP_SESSION_ID, RAWP_WORKSPACE_PATH and RAWP_DPS_VERSION as they should be"


async def _exit(stage: Stage, agent: str, words: str) -> tuple[Session, Frame, list[Frame]]:
    """Have an agent end in the middle of a turn; returns the end and the agent.errors before it."""
    session, _ = await stage.session(agent)
    await session.prompt(words)
    end = await turn_end(session)
    return session, end, [frame["payload"] for frame in session.of("agent.error")]


@against_runner("17.2.2 MUST", "runner", "exit 0 of a process that stays, in the middle of a turn")
async def exit_0_is_a_turns_end(stage: Stage) -> str:
    session, end, errors = await _exit(stage, "staying", "exit 0")
    must(end["stop_reason"] == "end_turn" and not errors, f"{end}, {errors}")
    await session.hear("session.closed")
    return "session.turn.end end_turn, no agent.error"


@against_runner("17.2.2 MUST", "runner", "exit 1, 2 and 127 of both kinds of process")
async def exit_1_to_127(stage: Stage) -> str:
    codes = set()
    for agent in ("single", "staying"):
        for number in (1, 2, 127):
            _, end, errors = await _exit(stage, agent, f"exit {number}")
            severities = [error["severity"] for error in errors]
            must(severities == ["fatal"], f"exit {number} of {agent}: agent.error {errors}")
            must(end["stop_reason"] == "error", f"exit {number} of {agent}: {end}")
            must(errors[0]["error_code"] != "SIGNAL_EXIT", f"exit {number} of {agent} is called a signal")
            codes.add(errors[0]["error_code"])
    return f"agent.error fatal ({', '.join(codes)}), then session.turn.end error"


@against_runner("17.2.2 MUST", "runner", "exit 130, 137 and 143 (128+N); death by signal 15 and 9")
async def exit_by_signal(stage: Stage) -> str:
    for agent in ("single", "staying"):
        for words in ("exit 130", "exit 137", "exit 143", "signal 15", "signal 9"):
            _, end, errors = await _exit(stage, agent, words)
            found = [(error["severity"], error["error_code"]) for error in errors]
            must(found == [("fatal", "SIGNAL_EXIT")], f"{words} of {agent}: agent.error {errors}")
            must(end["stop_reason"] == "error", f"{words} of {agent}: {end}")
    return "agent.error fatal SIGNAL_EXIT, then session.turn.end error"


@against_runner("17.2.2", "runner", "single_turn_process: exit 0, then another prompt")
async def a_single_turn_process_goes_on(stage: Stage) -> str:
    session, end, _ = await _exit(stage, "single", "exit 0")
    must(session.features.get("single_turn_process") is True, f"the features are {session.features}")
    must(end["stop_reason"] == "end_turn", f"the turn ends with {end}")
    await session.prompt("say 3 0")
    await turn_end(session)
    must(not session.of("session.closed"), "the session is closed")
    return "the turn ends, the session does not; the next prompt runs"


@against_runner("17.2.3", "runner", "close; the agent's process ignores SIGTERM")
async def sigterm_then_sigkill(stage: Stage) -> str:
    session, place = await stage.session("stubborn")
    log = await present(place, "*.log")
    pid = int(log.stem)
    dying = asyncio.create_task(asyncio.to_thread(death, pid))
    closed = (await session.close())["payload"]
    must(not alive(pid), "session.closed comes before the process is gone")
    died_at = await dying
    termed_at = noted(log, "TERM")
    must(termed_at is not None, "there was no SIGTERM before its end")
    waited_s = died_at - (termed_at or 0)
    must(GRACE_S - EARLY_S < waited_s < LATE_S, f"it was killed {waited_s:.1f} s after SIGTERM")
    return f"SIGTERM, SIGKILL {waited_s:.1f} s later, the process gone, then session.closed {json.dumps(closed)}"


@against_runner("17.2.3", "runner", "close; the agent's process obeys SIGTERM")
async def sigterm_is_enough(stage: Stage) -> str:
    session, _ = await stage.session("staying")
    began = time.monotonic()
    closed = (await session.close())["payload"]
    took_s = time.monotonic() - began
    must(closed.get("signal") != 9, f"it was killed: {closed}")
    return f"session.closed after {took_s:.1f} s, without SIGKILL: {json.dumps(closed)}"


@against_runner("17.2.2 MUST", "runner", "close in the middle of a turn, a process a turn that ignores SIGTERM")
async def an_exit_in_a_termination_is_reported(stage: Stage) -> str:
    session, place = await stage.session("single")
    await session.prompt("stay")
    log = await present(place, "*.log")
    closed = (await session.close())["payload"]
    must(noted(log, "TERM") is not None, "there was no SIGTERM")
    must(not alive(int(log.stem)), "the process is still there")
    ends = [frame["payload"]["stop_reason"] for frame in session.of("session.turn.end")]
    must(ends, "the turn did not end")
    errors = [(frame["payload"]["severity"], frame["payload"]["error_code"]) for frame in session.of("agent.error")]
    must(errors == [("fatal", "SIGNAL_EXIT")], f"death by SIGKILL is reported as {errors}; the turn ended {ends}")
    return f"agent.error fatal SIGNAL_EXIT, turn.end {ends[0]}, session.closed {json.dumps(closed)}"


# --- 17.3 SDK adapters ---

async def _asked(stage: Stage, agent: str, words: str) -> tuple[Session, Path, Frame]:
    session, place = await stage.session(agent)
    await session.prompt(words)
    request = (await session.hear("agent.interaction.request"))["payload"]
    must(request.get("interaction_type") == "PERMISSION", f"interaction_type is {request.get('interaction_type')}")
    context = request.get("context", {})
    must(context.get("tool_name"), f"the request names no context.tool_name: {context}")
    return session, place, request


async def _decided(stage: Stage, agent: str, words: str) -> str:
    """Allow, deny and time out: a file is written behind the first alone."""
    names = set()
    for decided in ("allow", "deny", "timeout"):
        session, place, request = await _asked(stage, agent, words)
        names.add(request["context"]["tool_name"])
        await asyncio.sleep(QUIET_S)
        must(not (place / "touched").exists(), "the tool ran before the answer")
        if decided == "timeout":
            await session.send("control.interaction.timeout", {"interaction_id": request["interaction_id"]})
        else:
            wanted = f"{decided}_once".replace("deny", "reject")
            option = next(each["option_id"] for each in request["options"] if each["kind"] == wanted)
            await session.send("control.interaction.response",
                               profile.decision(request["interaction_id"], decided, option))
        await turn_end(session)
        ran = (place / "touched").exists()
        must(ran == (decided == "allow"), f"behind {decided} the tool {'ran' if ran else 'did not run'}")
    return f"asks for {', '.join(sorted(names))}; runs behind allow, not behind deny, not behind timeout"


@against_runner("17.3.1", "runner", "an SDK agent's tool: response allow, response deny, timeout")
async def an_sdk_asks_and_is_answered(stage: Stage) -> str:
    return await _decided(stage, SDK_AGENT, "[[tool:touch touched]]")


@against_runner("17.3.1", "runner", "a process agent's tool: response allow, response deny, timeout")
async def a_process_asks_and_is_answered(stage: Stage) -> str:
    return await _decided(stage, "staying", "ask")


@against_runner("17.3.1 MUST", "runner", "control.interaction.timeout: the callback gets a no")
async def a_timeout_is_a_no(stage: Stage) -> str:
    session, place, request = await _asked(stage, "staying", "ask")
    await session.send("control.interaction.timeout", {"interaction_id": request["interaction_id"]})
    await turn_end(session)
    must(not (place / "touched").exists(), "the tool ran")
    results = [frame["payload"]["status"] for frame in session.of("tool.invoke.result")]
    must(results == ["denied"], f"the tool's result is {results}")
    return "the tool's result is denied, and it did not run"


@against_runner("17.3.2 MUST", "runner", "a second control.prompt.request in the middle of a turn")
async def a_second_prompt_is_refused(stage: Stage) -> str:
    session, place = await stage.session("staying")
    await session.prompt("later")
    await session.hear("session.turn.start")
    await session.prompt("say 1")
    error = (await session.hear("session.error", within_s=LATE_S))["payload"]
    must((error["error_code"], error["fatal"]) == ("PROMPT_IN_PROGRESS", False), f"the answer is {error}")
    (place / "go").touch()
    must((await turn_end(session))["stop_reason"] == "end_turn", "the first prompt did not end")
    await session.prompt("say 2")
    await turn_end(session)
    must(len(session.of("session.turn.start")) == 2, "the refused prompt ran")
    return "session.error PROMPT_IN_PROGRESS, fatal false; the first goes on, the refused one never runs"


# --- the envelope ---

@against_runner("7, Envelope", "runner", "unknown fields, unknown types, numbers as 3.0, payload before type")
async def unknown_words_do_no_harm(stage: Stage) -> str:
    session, _ = await stage.session("staying")
    await session.send("control.weather", {"sun": [1, None]})
    await session.send("moon.phase", {"is": "new"}, colour="blue")
    prompt = profile.prompt(str(uuid.uuid4()), "say 1")
    frame = await session.send("control.prompt.request", {**prompt, "colour": 1, "timeout_ms": 60000.0}, seq=4.0)
    answer = await session.hear("session.turn.start", "session.error",
                                where=lambda each: each["payload"].get("error_code") != "UNSUPPORTED_CAPABILITY")
    must(answer["type"] == "session.turn.start", f"refused: {answer['payload']}")
    await turn_end(session)
    fatal = [each["payload"] for each in session.of("session.error") if each["payload"]["fatal"]]
    must(not fatal, f"fatal: {fatal}")
    return f"the prompt with number {frame['seq']} runs, and nothing was fatal"
