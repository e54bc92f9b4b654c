"""RAWP-DPS section 17, played against our runner by a Master written from the text."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from functools import partial
from pathlib import Path
from typing import Any

from proof.independent_peers import forms, profile
from proof.independent_peers.agents import VARIABLES
from proof.independent_peers.peer_gateway import Session
from proof.independent_peers.profile import RECEIVE_S, Broken, Frame
from proof.independent_peers.runner_sessions import ANSWERED_S, texts, turn_end
from proof.independent_peers.stage import SDK_AGENT, Stage
from proof.independent_peers.table import Play, must, play, unless

PLAYS: list[Play] = []
against_runner = partial(play, PLAYS)
GRACE_S = 5.0
"""Between SIGTERM and SIGKILL (17.2.3)."""
EARLY_S = 0.2
"""How much earlier than the grace a clock of another process may see its end."""
LATE_S = 15.0
QUIET_S = 0.5


async def present(path: Path, name: str) -> Path:
    """Wait for a file that an agent writes. Raises Broken."""
    deadline = time.monotonic() + RECEIVE_S
    while time.monotonic() < deadline:
        found = await asyncio.to_thread(lambda: list(path.glob(name)))
        if found:
            return found[0]
        await asyncio.sleep(0.01)
    raise Broken(f"the agent wrote no {name}")


def noted(log: Path, word: str) -> float | None:
    """When an agent noted a word; None if it did not."""
    for line in log.read_text().splitlines():
        sentence, _, at = line.partition(" ")
        if sentence == word:
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
    error = (await session.receive("session.error", within_s=ANSWERED_S))["payload"]
    unless(forms.misfits("session.error", error))
    must(error["fatal"] is False, "it is fatal")
    await session.prompt("say 1")
    await turn_end(session)
    must(not session.of("session.compacted"), "a compaction is reported")
    return f"session.error {error['error_code']}, not fatal; the next prompt runs"


@against_runner("17.4", "runner", "control.session.compact to an agent without context_compaction")
async def compact_is_refused_if_unsupported(stage: Stage) -> str:
    return await _unsupported(stage, "context_compaction", "control.session.compact",
                              {"request_id": str(uuid.uuid4())})


@against_runner("17.4", "runner", "control.mode.switch to an agent without plan_mode")
async def mode_is_refused_if_unsupported(stage: Stage) -> str:
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
    await session.receive("session.closed")
    return "session.turn.end end_turn, no agent.error"


@against_runner("17.2.2 MUST", "runner", "exit 1, 2 and 127 of both kinds of process")
async def exit_1_to_127(stage: Stage) -> str:
    codes: set[str] = set()
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
async def a_single_turn_process_continues(stage: Stage) -> str:
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
    request = (await session.receive("agent.interaction.request"))["payload"]
    must(request.get("interaction_type") == "PERMISSION", f"interaction_type is {request.get('interaction_type')}")
    context = request.get("context", {})
    must(context.get("tool_name"), f"the request names no context.tool_name: {context}")
    return session, place, request


async def _decided(stage: Stage, agent: str, words: str) -> str:
    """Allow, deny and time out: a file is written behind the first alone."""
    names: set[str] = set()
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
async def a_timeout_is_a_denial(stage: Stage) -> str:
    session, place, request = await _asked(stage, "staying", "ask")
    await session.send("control.interaction.timeout", {"interaction_id": request["interaction_id"]})
    await turn_end(session)
    must(not (place / "touched").exists(), "the tool ran")
    results = [frame["payload"]["status"] for frame in session.of("tool.invoke.result")]
    must(results == ["denied"], f"the tool's result is {results}")
    return "the tool's result is denied, and it did not run"


@against_runner("17.3.2 MUST", "runner", "a second control.prompt.request while an SDK agent waits for a yes")
async def a_second_prompt_of_an_sdk_is_refused(stage: Stage) -> str:
    session, place, request = await _asked(stage, SDK_AGENT, "[[tool:touch touched]]")
    await session.prompt("[[tool:touch second]]")
    error = (await session.receive("session.error", within_s=ANSWERED_S))["payload"]
    must((error["error_code"], error["fatal"]) == ("PROMPT_IN_PROGRESS", False), f"the answer is {error}")
    option = next(each["option_id"] for each in request["options"] if each["kind"] == "allow_once")
    await session.send("control.interaction.response", profile.decision(request["interaction_id"], "allow", option))
    must((await turn_end(session))["stop_reason"] == "end_turn", "the first prompt did not end")
    must((place / "touched").exists() and not (place / "second").exists(), "the wrong tool ran")
    return "session.error PROMPT_IN_PROGRESS, fatal false; the first goes on to its end"


@against_runner("17.3.2 MUST", "runner", "a second control.prompt.request in the middle of a turn")
async def a_second_prompt_is_refused(stage: Stage) -> str:
    session, place = await stage.session("staying")
    await session.prompt("later")
    await session.receive("session.turn.start")
    await session.prompt("say 1")
    error = (await session.receive("session.error", within_s=ANSWERED_S))["payload"]
    must((error["error_code"], error["fatal"]) == ("PROMPT_IN_PROGRESS", False), f"the answer is {error}")
    (place / "go").touch()
    must((await turn_end(session))["stop_reason"] == "end_turn", "the first prompt did not end")
    await session.prompt("say 2")
    await turn_end(session)
    must(len(session.of("session.turn.start")) == 2, "the refused prompt ran")
    return "session.error PROMPT_IN_PROGRESS, fatal false; the first goes on, the refused one never runs"
