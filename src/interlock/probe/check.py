"""One check of one agent (H-10): started in a scratch directory and a scratch HOME, against the model stand-in, driven
by its adapter as the runner drives it, ended again whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import time
import uuid
from collections.abc import Generator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from interlock.agents.evidence import Evidence, Seen, settings_digest
from interlock.agents.registry import ADAPTERS, make_agent
from interlock.model_stand_in import ModelServer, running_model_server
from interlock.model_stand_in.shell_tool import shell_call
from interlock.model_stand_in.tool_choice import OUTSIDE, deed_call, delegate_call
from interlock.ports.agent import Agent, AgentSpec, AgentStartFailed, Opening, Prompt, Started
from interlock.probe.pointing import Pointing, pointing_of
from interlock.probe.scratch import furnish, home_of, settings_of, surroundings
from interlock.probe.steps import BAD, OUTSIDE_SANDBOX, SUB_AGENT, SUB_AGENT_TOOLS, Step, Tried, seen_of, steps, verdict
from interlock.probe.witness import Witness
from interlock.runner.process import AgentProcess

OPEN_TIMEOUT_S = 30.0
"""An agent that is not ready by then is not checked."""
TURN_TIMEOUT_S = 10.0
"""One step; an agent that has not ended its turn by then is cancelled."""
CANCEL_TIMEOUT_S = 3.0
"""An agent that does not end its turn within this after the cancel is not asked any further."""
WHOLE_TIMEOUT_S = 90.0
"""The whole check."""
CLOSE_TIMEOUT_S = 15.0
TOOLS = ("shell", OUTSIDE_SANDBOX, "write", "edit", "fetch", SUB_AGENT, SUB_AGENT_TOOLS)
NEVER_ASKS = "Its adapter {} asks about nothing; the whole command is held."
NOT_ASKED = "It did not use the model stand-in, so nothing can be seen of it; the whole command is held."


class Scene(NamedTuple):
    """One check's own places."""

    home: Path
    workspace: Path
    model: ModelServer


async def check(agent_id: str, spec: AgentSpec, environment: Mapping[str, str], now: datetime) -> Evidence:
    """Check one agent as it is configured; `environment` is that of the runner, `now` is in UTC. Never raises for
    what the agent does: an agent that cannot be checked has the verdict `command`, with a sentence."""
    began = time.monotonic()
    pointing = pointing_of(spec.adapter, spec.command)
    settings = settings_of(pointing, home_of(spec, environment))
    about: dict[str, Any] = {"agent_id": agent_id, "checked": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
                             "digest": settings_digest(spec, environment, settings)}
    adapter = ADAPTERS.get(spec.adapter)
    if adapter is None or adapter.permission == "never":
        return Evidence(verdict="command", because=NEVER_ASKS.format(spec.adapter), **about)
    try:
        with _scene() as scene:
            async with asyncio.timeout(WHOLE_TIMEOUT_S):
                found = await _in_scene(agent_id, spec, environment, pointing, settings, scene)
    except AgentStartFailed as failed:
        found = _command(f"It did not start: {failed}")
    except TimeoutError:
        found = _command(f"The check took more than {WHOLE_TIMEOUT_S:.0f} s.")
    return Evidence(**about, **found, seconds=round(time.monotonic() - began, 1))


async def _in_scene(agent_id: str, spec: AgentSpec, environment: Mapping[str, str], pointing: Pointing,
                    settings: Mapping[str, bytes], scene: Scene) -> dict[str, Any]:
    furnish(scene.home, settings, pointing.files(scene.model.url))
    session_id = str(uuid.uuid4())
    variables = surroundings(spec, pointing, scene.model.url, home=scene.home, workspace=scene.workspace,
                             session_id=session_id, base=environment)
    opened = msgspec.structs.replace(spec, args=[*spec.args, *pointing.args])
    opening = Opening(session_id, agent_id, opened, str(scene.workspace), variables, fresh_id=str(uuid.uuid4()))
    return await _try(make_agent(opened, AgentProcess.start), opening, scene)


def _command(because: str) -> dict[str, Any]:
    return {"verdict": "command", "because": because}


@contextlib.contextmanager
def _scene() -> Generator[Scene]:
    place = Path(tempfile.mkdtemp(prefix="interlock-check-")).resolve()
    try:
        (place / "home").mkdir()
        (place / "work").mkdir()
        with running_model_server() as model:
            yield Scene(place / "home", place / "work", model)
    finally:
        shutil.rmtree(place, ignore_errors=True)


async def _try(agent: Agent, opening: Opening, scene: Scene) -> dict[str, Any]:
    try:
        started = await _open(agent, opening)
        tried, stopped = await _steps(agent, scene)
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await agent.close()
    return {"version": started.version, "mode": started.mode, **_judged(tried, stopped, scene)}


async def _open(agent: Agent, opening: Opening) -> Started:
    try:
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            return await agent.open(opening)
    except TimeoutError:
        raise AgentStartFailed(f"it was not ready within {OPEN_TIMEOUT_S:.0f} s.") from None


async def _steps(agent: Agent, scene: Scene) -> tuple[list[Tried], str]:
    """What was tried, and why the rest was not; "" if everything was."""
    tried: list[Tried] = []
    for number, step in enumerate(steps(scene.workspace, scene.model.url, scene.model.recording.visited)):
        if step.tool == SUB_AGENT_TOOLS and not tried[-1].witness.delegated:
            continue  # Delegating was not what it asked about, so there is nothing that a yes would open.
        if step.tool == OUTSIDE_SANDBOX and not _offered(step, scene):
            continue
        witness = Witness(step.allow, step.happened, step.tool == SUB_AGENT_TOOLS)
        stopped = await _turn(agent, number, step, witness)
        tried.append(Tried(step, witness, _offered(step, scene), step.happened()))
        if stopped:
            return tried, stopped
        if number == 0 and not scene.model.recording.all():
            return [], ""
    return tried, ""


async def _turn(agent: Agent, number: int, step: Step, witness: Witness) -> str:
    prompt = Prompt(f"check-{number}", f"check-{number}", [{"type": "text", "text": f"Please: {step.words}"}])
    turn = asyncio.create_task(agent.prompt(prompt, witness))
    try:
        await asyncio.wait([turn], timeout=TURN_TIMEOUT_S)
        if not turn.done():
            await agent.cancel()
            await asyncio.wait([turn], timeout=CANCEL_TIMEOUT_S)
        if not turn.done():
            return f"It did not end the turn in which it was to use {step.tool}."
        outcome = turn.result()
        return f"It ended in the turn in which it was to use {step.tool}." if outcome.process is not None else ""
    finally:
        if not turn.done():
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)


def _offered(step: Step, scene: Scene) -> bool:
    """Whether the agent has offered the model a tool that the step's words call."""
    tools = {tool.name: tool for one in scene.model.recording.turns() for tool in one.asked.tools}.values()
    match step.tool:
        case "shell":
            found = shell_call(tools, "true")
        case "sub-agent" | "sub-agent's tools":
            found = delegate_call(tools, "")
        case tool:
            found = deed_call(OUTSIDE if tool == OUTSIDE_SANDBOX else tool, tools, {})
    return found is not None


def _judged(tried: list[Tried], stopped: str, scene: Scene) -> dict[str, Any]:
    if not scene.model.recording.all():
        return {**_command(NOT_ASKED), "tools": [Seen(tool=tool, state="not tried") for tool in TOOLS]}
    seen = [seen_of(tool, [one for one in tried if one.step.tool == tool]) for tool in TOOLS]
    asks, because = verdict(seen)
    # What ended the check early is the reason, unless something ran that was not allowed.
    if stopped and not any(one.state in BAD and one.tool != SUB_AGENT_TOOLS for one in seen):
        asks, because = False, stopped
    return {**_command(because), "verdict": "asks" if asks else "command", "tools": seen}
