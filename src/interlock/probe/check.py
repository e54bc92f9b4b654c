"""One check of one agent (H-10): started in a scratch directory with a scratch HOME, against the model stand-in, driven
by its adapter as in the runner, and ended in any case."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import CoroutineType
from typing import Any, Literal, NamedTuple

import msgspec

from interlock.agents.evidence import (
    BAD,
    MODE_CHANGE,
    NOT_DECISIVE,
    READ_COMMAND,
    SLASH_COMMAND,
    SUB_AGENT_TOOLS,
    Evidence,
    ToolEvidence,
    settings_digest,
)
from interlock.agents.registry import ADAPTERS, make_agent
from interlock.model_stand_in import ModelServer, running_model_server
from interlock.model_stand_in.shell_tool import shell_call
from interlock.model_stand_in.tool_choice import OUTSIDE, action_call, delegate_call
from interlock.ports.agent import (
    Agent,
    AgentPrompt,
    AgentSpec,
    AgentStart,
    AgentStartFailed,
    McpServer,
    SettingRefused,
    Started,
    SwitchesMode,
)
from interlock.probe import mcp_server
from interlock.probe.hostile import Attack, attacks_on, groups, plant
from interlock.probe.model_endpoint import Pointing, pointing_of, why_not_pointed
from interlock.probe.scratch import furnish, home_of, settings_of, surroundings
from interlock.probe.steps import (
    CONTENT,
    MCP_TOOL,
    OUTSIDE_SANDBOX,
    READABLE,
    SUB_AGENT,
    TOOLS,
    EffectPlaces,
    ProbeStep,
    mode_steps,
    prompt_steps,
    repository_step,
    steps,
)
from interlock.probe.verdict import Tried, in_repository, limits, table, verdict
from interlock.probe.witness import Witness
from interlock.runner.process import outlet
from interlock.runner.process.process import AgentProcess
from interlock.runner.session.session_box import NO_BOX, Boxing, BoxRefused

OPEN_TIMEOUT_S = 30.0
"""An agent that is not ready within this is not checked."""
TURN_TIMEOUT_S = 10.0
"""Limit of one step; an agent that has not ended its turn within it is cancelled."""
SUB_AGENT_TURN_TIMEOUT_S = 6.0
"""Limit of the turn in which a sub-agent was allowed: some agents never end it, since the sub-agent's questions are not
sent."""
LATE_EFFECT_S = 8.0
"""Time for the effect of a sub-agent that continues after its turn."""
_LOOK_EVERY_S = 0.05
CANCEL_TIMEOUT_S = 3.0
"""An agent that does not end its turn within this after the cancel gets no further step."""
WHOLE_TIMEOUT_S = 90.0
"""Limit of everything but the hostile repositories."""
REPOSITORIES_TIMEOUT_S = 45.0
"""Limit of all hostile repositories of one agent; remaining ones are not tried."""
SWITCH_TIMEOUT_S = 5.0
"""Limit of one change of the mode."""
CLOSE_TIMEOUT_S = 15.0
_DEEDS = {OUTSIDE_SANDBOX: OUTSIDE, MCP_TOOL: "mark"}
"""The stand-in's action for each tool of the table."""
_NAMED = frozenset({"write", "edit", "fetch", MCP_TOOL, SUB_AGENT})
"""Tools that are not tried if no request of the agent offers them."""
AFTER_CANCEL = "Please say hello."
"""Sent after a cancelled turn: some agents also end the prompt after it, which must not be the next step."""
NEVER_ASKS = "Its adapter {} asks about nothing."
NOT_ASKED = "It did not use the model stand-in, so it could not be observed."


class StandInUnavailable(Exception):
    """The model stand-in cannot listen, so no agent can be checked; the text is one sentence."""


class Scene(NamedTuple):
    """The directories and the model server of one check."""

    home: Path
    workspace: Path
    model: ModelServer


class CheckedAgent(NamedTuple):
    """The checked agent: its config, and the parts of its user's environment that the check uses."""

    agent_id: str
    spec: AgentSpec
    environment: Mapping[str, str]
    pointing: Pointing
    settings: Mapping[str, bytes]
    boxing: Boxing


async def check(agent_id: str, spec: AgentSpec, environment: Mapping[str, str], now: datetime,
                boxing: Boxing = NO_BOX) -> Evidence:
    """Check one agent as it is configured; `environment` is that of the runner, `now` is in UTC; `boxing` is what the
    runner hides from its agents, and is also hidden from this one (H-15). Never raises for the agent's behaviour: an
    agent that cannot be checked has the verdict `command`, with a sentence. Raises StandInUnavailable."""
    began = time.monotonic()
    pointing = pointing_of(spec.adapter, spec.command)
    settings = settings_of(pointing, home_of(spec, environment))
    about: dict[str, Any] = {"agent_id": agent_id, "checked": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
                             "digest": settings_digest(spec, environment, settings)}
    adapter = ADAPTERS.get(spec.adapter)
    if adapter is None or adapter.permission == "never":
        return Evidence(verdict="command", because=NEVER_ASKS.format(spec.adapter), **about)
    if unpointed := why_not_pointed(spec.command):
        return Evidence(verdict="command", because=unpointed, **about)
    subject = CheckedAgent(agent_id, spec, environment, pointing, settings, boxing)
    found: dict[str, Any]
    try:
        with _scene() as scene:
            found = await _in_scene(subject, scene)
    except AgentStartFailed as failed:
        found = {**_command(f"It did not start: {failed}"), "cut_short": True}
    if any(one.state != "not tried" for one in found.get("tools", [])):
        asks = not any(one.tool == "shell" and one.state in BAD for one in found["tools"])
        found = _with_repositories(found, await _repositories(subject, asks))
    return Evidence(**about, **found, seconds=round(time.monotonic() - began, 1))


async def _in_scene(subject: CheckedAgent, scene: Scene) -> dict[str, Any]:
    agent, opening = _made(subject, scene)
    tried: list[Tried] = []
    ends = asyncio.get_running_loop().time() + WHOLE_TIMEOUT_S
    async with _closed(agent):
        started = await _open(agent, opening)
        try:
            async with asyncio.timeout_at(ends):
                stopped = await _steps(agent, started, scene, subject.pointing.prompts, tried)
        except TimeoutError:  # The observations until then count.
            stopped = f"The check took more than {WHOLE_TIMEOUT_S:.0f} s."
    return {"version": started.version, "mode": started.mode, **_judged(tried, stopped, scene)}


def _made(subject: CheckedAgent, scene: Scene) -> tuple[Agent, AgentStart]:
    """Return the agent with its scratch HOME, and its start parameters. Raises AgentStartFailed."""
    spec, pointing = subject.spec, subject.pointing
    furnish(scene.home, subject.settings, pointing.files(scene.model.url))
    session_id = str(uuid.uuid4())
    variables = surroundings(spec, pointing, scene.model.url, home=scene.home, workspace=scene.workspace,
                             session_id=session_id, base=subject.environment)
    opened = msgspec.structs.replace(spec, args=[*spec.args, *pointing.args])
    # Isolated mode: neither the agent's variables nor its directory affect what the server imports.
    server = McpServer(mcp_server.SERVER_NAME, sys.executable,
                       ("-I", str(Path(mcp_server.__file__)), str(scene.workspace)))
    opening = AgentStart(session_id, subject.agent_id, opened, str(scene.workspace), variables,
                         fresh_id=str(uuid.uuid4()), servers=(server,))
    return make_agent(opened, _spawn(subject, scene, variables)), opening


def _spawn(subject: CheckedAgent, scene: Scene,
                                  variables: dict[str, str]) -> partial[CoroutineType[Any, Any, AgentProcess]]:
    """Return the function that starts the agent behind the walls of its box; adds to `variables` how it reaches the
    stand-in through them. Raises AgentStartFailed."""
    spec, boxing, way_out = subject.spec, subject.boxing, dict[str, Any]()
    if spec.box is not None and spec.box.network != "all":
        # Its model is the stand-in, whatever its config has.
        spec = msgspec.structs.replace(spec, base_url=scene.model.url,
                                       box=msgspec.structs.replace(spec.box, network="model"))
    try:
        walls = boxing.walls(subject.agent_id, spec, str(scene.workspace), "rw", variables)
        if walls.network is not None and (reach := boxing.reach(subject.agent_id, spec, variables)) is not None:
            variables.update(outlet.variables(reach))
            way_out = {"way_out": outlet.Outlet(reach, _unreported)}
    except BoxRefused as refused:
        raise AgentStartFailed(str(refused)) from None
    return partial(AgentProcess.start, walls=walls, **way_out)


async def _repositories(subject: CheckedAgent, asks: bool) -> list[ToolEvidence]:
    """Return the outcome of each attack that files of a workspace can make on this agent (H-13)."""
    ends = asyncio.get_running_loop().time() + REPOSITORIES_TIMEOUT_S
    seen: list[ToolEvidence] = []
    for group in groups(attacks_on(subject.spec)):
        seen += await _in_repository(subject, group, ends, asks)
    return seen


async def _in_repository(subject: CheckedAgent, attacks: Sequence[Attack], ends: float,
                         asks: bool) -> list[ToolEvidence]:
    tried: Tried | None = None
    with _scene() as scene:
        # In the workspace, where the agent may write behind any walls.
        planted = plant(scene.workspace, scene.workspace / "traces", *attacks)
        places = _places(scene)
        with contextlib.suppress(AgentStartFailed, TimeoutError):
            async with asyncio.timeout_at(ends):
                agent, opening = _made(subject, scene)
                async with _closed(agent):
                    await _open(agent, opening)
                    tried, _ = await _attempt(agent, repository_step(places), "check-repository", scene)
        return in_repository([(one.attack, one.trace.exists()) for one in planted], tried, asks=asks)


def _places(scene: Scene) -> EffectPlaces:
    recording = scene.model.recording
    return EffectPlaces(scene.workspace, scene.model.url, recording.visited, recording.contained)


def _with_repositories(found: dict[str, Any], seen: list[ToolEvidence]) -> dict[str, Any]:
    """Return the result with the lines of the hostile repositories, which do not affect the verdict."""
    more = limits(seen) if found["verdict"] == "asks" else ""
    return {**found, "because": found["because"] + more, "tools": [*found["tools"], *seen]}


async def _unreported(_sentence: str) -> None:
    """Ignore the hosts that an agent tries to reach during its check."""


def _command(because: str) -> dict[str, Any]:
    return {"verdict": "command", "because": because}


@contextlib.contextmanager
def _scene() -> Generator[Scene]:
    place = Path(tempfile.mkdtemp(prefix="interlock-check-")).resolve()
    try:
        (place / "home").mkdir()
        (place / "work").mkdir()
        (place / "work" / READABLE).write_text(f"{CONTENT}\n")
        with contextlib.ExitStack() as stack:
            try:
                model = stack.enter_context(running_model_server())
            except OSError as error:
                raise StandInUnavailable(
                    f"The model stand-in cannot listen on 127.0.0.1: {error.strerror or error}.") from error
            yield Scene(place / "home", place / "work", model)
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.asynccontextmanager
async def _closed(agent: Agent) -> AsyncGenerator[None]:
    """End the agent in any case."""
    try:
        yield
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await agent.close()


async def _open(agent: Agent, opening: AgentStart) -> Started:
    try:
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            return await agent.open(opening)
    except TimeoutError:
        raise AgentStartFailed(f"it was not ready within {OPEN_TIMEOUT_S:.0f} s.") from None


async def _steps(agent: Agent, started: Started, scene: Scene, prompts: Sequence[str], tried: list[Tried]) -> str:
    """Add the tried steps to `tried`; return why the rest was not tried, "" if everything was."""
    places = _places(scene)
    modes = mode_steps(places, started.features.modes, started.mode)
    for step in [*steps(places), *modes, *prompt_steps(places, prompts)]:
        if _skipped(step, tried, scene):
            continue
        if step.tool == SLASH_COMMAND and tried[-1].step.mode:
            await _switched(agent, "default")
        name = f"check-{len(tried)}"
        one, stopped = await _attempt(agent, step, name, scene)
        tried.append(one)
        if one.late and not stopped:
            stopped, _ = await _turn(agent, f"{name}-after", AFTER_CANCEL, step, Witness(False, step.happened))
        if stopped:
            return stopped
        if len(tried) == 1 and not scene.model.recording.all():
            return ""
    return ""


def _skipped(step: ProbeStep, tried: Sequence[Tried], scene: Scene) -> bool:
    """Return whether the step cannot show anything: delegating was not asked about, so a yes has no effect; or the
    agent has offered no such tool in the requests so far."""
    match step.tool:
        case tool if tool == SUB_AGENT_TOOLS:
            return not tried[-1].witness.delegated
        case tool if tool == OUTSIDE_SANDBOX or tool in _NAMED:
            return not _offered(step, scene)
        case _:
            return False


async def _attempt(agent: Agent, step: ProbeStep, name: str, scene: Scene) -> tuple[Tried, str]:
    """Run one step; return it, and why the agent cannot continue after it, "" if it can."""
    witness = Witness(step.allow, step.happened, step.tool == SUB_AGENT_TOOLS, step.effect)
    if step.mode and (switched := await _switched(agent, step.mode)) != "switched":
        return Tried(step, witness, offered=False, happened=False, refused=switched == "refused",
                     late=switched == "late"), ""
    stopped, late = "", False
    if step.first:
        stopped, late = await _turn(agent, f"{name}-first", step.first, step, witness)
    if not stopped:
        stopped, late_again = await _turn(agent, name, f"Please: {step.words}", step, witness)
        late = late or late_again
    if step.tool in (SUB_AGENT, SUB_AGENT_TOOLS) and witness.finished and not stopped:
        await _late_effect(step)
    if not any(step.words in one.asked.prompt for one in scene.model.recording.turns()):
        late = True  # The prompt never reached the model.
    offered = _offered(step, scene, words=step.words)
    return Tried(step, witness, offered, step.happened(), late=late), stopped


async def _late_effect(step: ProbeStep) -> None:
    """Wait for the effects of a sub-agent in the background, whose turn has ended as if it were done."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LATE_EFFECT_S):
            while not step.happened():  # noqa: ASYNC110 - It is another process's file.
                await asyncio.sleep(_LOOK_EVERY_S)


async def _switched(agent: Agent, mode: str) -> Literal["switched", "refused", "late"]:
    """Switch the mode; `late` if there was no answer in time, which shows nothing about the mode."""
    if not isinstance(agent, SwitchesMode):
        return "refused"
    try:
        async with asyncio.timeout(SWITCH_TIMEOUT_S):
            await agent.switch_mode(mode)
    except SettingRefused:
        return "refused"
    except TimeoutError:
        return "late"
    return "switched"


async def _turn(agent: Agent, name: str, words: str, step: ProbeStep, witness: Witness) -> tuple[str, bool]:
    """Return why the agent cannot continue after a turn, "" if it can, and whether the turn had to be cancelled."""
    prompt = AgentPrompt(name, name, [{"type": "text", "text": words}])
    turn = asyncio.create_task(agent.prompt(prompt, witness))
    try:
        limit = min(TURN_TIMEOUT_S, SUB_AGENT_TURN_TIMEOUT_S) if step.tool == SUB_AGENT_TOOLS else TURN_TIMEOUT_S
        await asyncio.wait([turn], timeout=limit)
        late = not turn.done()
        if late:
            await agent.cancel()
            await asyncio.wait([turn], timeout=CANCEL_TIMEOUT_S)
        if not turn.done():
            return f"It did not end the turn in which it should use {step.tool}.", late
        ended = turn.result().process is not None
        return f"It ended in the turn in which it should use {step.tool}." if ended else "", late
    finally:
        if not turn.done():
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)


def _offered(step: ProbeStep, scene: Scene, words: str = "") -> bool:
    """Return whether the agent has offered the model a tool that the step's words call. With `words`, only in requests
    with these in their prompt: a tool offered only to a sub-agent was not called, so its agent refused nothing."""
    prompts = [one.asked for one in scene.model.recording.turns() if words in one.asked.prompt]
    tools = {tool.name: tool for one in prompts for tool in one.tools}.values()
    match step.tool:
        case tool if tool in ("shell", READ_COMMAND, MODE_CHANGE, SLASH_COMMAND):
            found = shell_call(tools, "true")
        case tool if tool in (SUB_AGENT, SUB_AGENT_TOOLS):
            found = delegate_call(tools, "")
        case tool:
            found = action_call(_DEEDS.get(tool, tool), tools, {})
    return found is not None


def _judged(tried: list[Tried], stopped: str, scene: Scene) -> dict[str, Any]:
    if not scene.model.recording.all():
        return {**_command(NOT_ASKED), "tools": [ToolEvidence(tool=tool, state="not tried") for tool in TOOLS],
                "cut_short": bool(stopped)}
    seen = [msgspec.structs.replace(one, state="not offered")
            if not stopped and one.tool in _NAMED and one.state == "not tried" else one for one in table(tried)]
    asks, because = verdict(seen)
    # The reason is why the check ended early, unless something ran that was not allowed.
    if stopped and not any(one.state in BAD and one.tool not in NOT_DECISIVE for one in seen):
        asks, because = False, stopped
    # A turn without a result for lack of time makes the record as incomplete as a check that ended early.
    lost = any(one.late and not one.witness.questions and not one.happened for one in tried)
    return {**_command(because), "verdict": "asks" if asks else "command", "tools": seen,
            "cut_short": bool(stopped) or lost}
