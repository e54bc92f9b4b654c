"""Choose the agent and the workspace of an opening, and whether the agent resumes its conversation (A-1, A-6)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from interlock.agents.credentials import not_passed_on, remark_on
from interlock.agents.mcp_servers import servers_of
from interlock.agents.registry import ADAPTERS, keys_of, make_agent
from interlock.agents.workspace_files import ignoring_env
from interlock.ports.agent import Agent, AgentSpec, AgentStart, AgentStartFailed, SettingRefused, Started, SwitchesMode
from interlock.ports.process import Programs
from interlock.protocol import payloads as p
from interlock.protocol.box import Box
from interlock.protocol.codes import Code
from interlock.protocol.envelope import DPS_VERSION, Frame
from interlock.protocol.integers import whole
from interlock.protocol.limits import LARGEST_SEQ
from interlock.runner.journal import Journal
from interlock.runner.process import outlet
from interlock.runner.process.descriptors import is_shortage, shortage
from interlock.runner.process.environment import environment
from interlock.runner.process.programs import ProgramDesk
from interlock.runner.session.idle_programs import IdlePrograms
from interlock.runner.session.session_box import Boxing, BoxRefused
from interlock.runner.session.session_context import Surroundings
from interlock.runner.staged.store import Staged
from interlock.runner.turn.turn_settings import switches
from interlock.runner.workspace.git_place import checked_out
from interlock.runner.workspace.workspace import WorkspaceRefused, resolve_workspace
from interlock.runner.workspace.workspace_files import TooMany, look


class OpenRefused(Exception):
    """The open failed, with a code and a sentence. `workspace_files` are the bytes to be approved first (H-13)."""

    def __init__(self, code: Code, sentence: str, workspace_files: bytes | None = None) -> None:
        super().__init__(sentence)
        self.code = code
        self.workspace_files = workspace_files


def unstarted(agent_id: str, error: OpenRefused | AgentStartFailed | OSError) -> tuple[Code, str]:
    """Return the code and the sentence for an agent that was not started. An OSError that no adapter expected (no
    descriptor for the import of its modules, for example) fails the one open, not the session's task."""
    if isinstance(error, OSError):
        sentence = (shortage(f"Agent {agent_id}") if is_shortage(error)
                    else f"Agent {agent_id} was not started: {error}.")
        return Code.AGENT_START_FAILED, sentence
    return (error.code if isinstance(error, OpenRefused) else Code.AGENT_START_FAILED), str(error)


def prepare(around: Surroundings, journal: Journal, wanted: p.SessionOpen, remembered: Mapping[str, Any],
            programs: ProgramDesk) -> tuple[Agent, AgentStart, Staged | None]:
    """Return the agent to start, its start parameters, and where its changes are staged. `programs` decides on the
    programs that it starts, if its box holds programs.

    `remembered` is what the gateway stores for a runner that has forgotten the session: `agent_session`,
    `next_turn_index`. Raises OpenRefused and AgentStartFailed."""
    spec = around.offered.agents.get(wanted.agent_id)
    if spec is None:
        known = ", ".join(sorted(around.offered.agents))
        raise AgentStartFailed(f"This runner has no agent {wanted.agent_id!r}; it has: {known}.")
    state = journal.state
    journal.leave_out(not_passed_on(spec, around.environment))
    workspace = str(_workspace(around, spec, wanted))
    state.resolve_workspace(workspace)
    variables = environment(
        around.environment, session_id=journal.session_id, workspace=workspace, runner_id=around.runner_id,
        extra={**ignoring_env(spec), **spec.env}, credentials=spec.env_pass,
    )
    name, index = remembered.get("agent_session"), whole(remembered.get("next_turn_index"))
    known = state.agent_session or (name if isinstance(name, str) else None)
    if index is not None and index <= LARGEST_SEQ:
        state.skip_turns(index)
    opening = AgentStart(
        journal.session_id, wanted.agent_id, spec, workspace, variables, journal.relay, resume=wanted.resume,
        agent_session=known or None, workspace_access=wanted.workspace_access, fresh_id=journal.new_uuid(),
        keys=keys_of(spec, around.environment), hidden=around.boxing.concealed(spec),
        box=around.boxing.box(spec, wanted.workspace_access),
        servers=servers_of(wanted.agent_id, spec, around.environment, variables.get("PATH")),
    )
    try:
        staged = around.boxing.staging(wanted.agent_id, spec, journal.session_id, workspace, wanted.workspace_access)
        walls = around.boxing.walls(wanted.agent_id, spec, workspace, wanted.workspace_access, variables, staged)
        reach = around.boxing.reach(wanted.agent_id, spec, variables) if walls.network is not None else None
    except BoxRefused as refused:
        raise OpenRefused(Code.WORKSPACE_REFUSED, str(refused)) from None
    ways: dict[str, Any] = {"programs": _decides(programs, spec, journal)} if walls.programs else {}
    if reach is not None:
        variables.update(outlet.variables(reach))
        ways["way_out"] = outlet.Outlet(reach, partial(_report_refused, journal))
    return make_agent(spec, partial(around.spawn, walls=walls, **ways)), opening, staged


def _decides(programs: ProgramDesk, spec: AgentSpec, journal: Journal) -> Programs:
    """Return what decides on an agent's programs: policy and approvers in a turn, its config between turns."""
    entries = spec.box.between_turns if spec.box is not None else []
    return IdlePrograms(entries, programs, journal, lambda: programs.is_idle) if entries else programs


async def _report_refused(journal: Journal, sentence: str) -> None:
    await journal.write(journal.agent_error("warning", Code.NETWORK_REFUSED, sentence))


async def check_files(around: Surroundings, opening: AgentStart, trusted: str | None) -> None:
    """Search for files that would configure the agent; `trusted` is the digest of those that a person allowed. Each
    start searches again, since the files may have changed (H-13). Raises OpenRefused."""
    roots = opening.spec.roots or around.offered.roots
    try:
        found = await look(opening.agent_id, opening.spec, opening.workspace, roots, opening.environment)
    except TooMany as error:
        raise OpenRefused(Code.WORKSPACE_NOT_TRUSTED, str(error)) from None
    if found is None or found.digest == trusted:
        return
    files = "A file" if found.files == 1 else f"{found.files} files"
    raise OpenRefused(Code.WORKSPACE_NOT_TRUSTED, f"{files} in {opening.workspace} would configure the agent "
                      f"{opening.agent_id}, and no one has allowed them.", found.encoded)


async def commit_before(around: Surroundings, opening: AgentStart) -> str | None:
    """Read what is checked out in the workspace before the agent starts (J-4)."""
    if opening.workspace_access == "none":
        return None
    roots = opening.spec.roots or around.offered.roots
    return await asyncio.to_thread(checked_out, Path(opening.workspace), roots)


def _workspace(around: Surroundings, spec: AgentSpec, opening: p.SessionOpen) -> Path:
    adapter = ADAPTERS.get(spec.adapter)
    access = opening.workspace_access
    if adapter is not None and access not in adapter.access and not around.boxing.holds(spec, access):
        can = " or ".join(adapter.access)
        raise OpenRefused(Code.WORKSPACE_REFUSED, f"The adapter {spec.adapter} does not support the workspace access "
                          f"{access!r}; open the session with {can}.")
    roots = spec.roots or around.offered.roots
    try:
        return resolve_workspace(opening.workspace or roots[0], roots)
    except WorkspaceRefused as error:
        raise OpenRefused(Code.WORKSPACE_REFUSED, str(error)) from None


def refusal(journal: Journal, agent_id: str, error: OpenRefused | AgentStartFailed | OSError, reply_to: str) -> Frame:
    """Return the frame that rejects an open."""
    found = error.workspace_files if isinstance(error, OpenRefused) else None
    files = msgspec.UNSET if found is None else msgspec.Raw(found)
    code, sentence = unstarted(agent_id, error)
    remark = remark_on(sentence, agent_id, journal.keys_left_out)
    return journal.session_error(code, f"{sentence} {remark}".rstrip(), True, reply_to, files)


def capabilities(journal: Journal, started: Started, reply_to: str, box: Box | None = None,
                 settings: p.AgentSettings | None = None, workspace_commit: str | None = None) -> Frame:
    """Return the frame that answers an open with the agent's identity and features."""
    state = journal.state
    payload = p.Capabilities(
        dps_version=DPS_VERSION, features=msgspec.to_builtins(started.features),
        agent=p.AgentIdentity(agent_id=state.agent_id, name=started.name, version=started.version, model=started.model),
        box=box, settings=settings, workspace_commit=workspace_commit,
    )
    # A runner forgets a session once its end is acknowledged; the gateway then sends the conversation's name back.
    named = {"agent_session": started.agent_session} if started.agent_session else {}
    return journal.frame("session.capabilities", payload, {"in_reply_to": reply_to, **named})


def as_configured(opening: AgentStart, started: Started) -> Started:
    """Return the agent's features, corrected by its config: an agent that does not ask before its tools cannot be
    limited by denying its requests (A-10)."""
    if opening.spec.asks:
        return started
    features = msgspec.structs.replace(started.features, permission="never", read_only=False)
    return started._replace(features=features)


def check_access(opening: AgentStart, started: Started, boxing: Boxing) -> None:
    """Reject an agent that reports only now that it does not support the access, unless a wall enforces it. Raises
    OpenRefused."""
    if opening.workspace_access == "ro" and not (started.features.read_only or boxing.holds(opening.spec, "ro")):
        raise OpenRefused(Code.WORKSPACE_REFUSED, "This agent does not support read-only access (read_only): it does "
                          "not ask before its tools. Open the session with workspace_access=rw.")


async def back_to_mode(agent: Agent, started: Started, mode: str | None) -> None:
    """Switch the agent to the mode that the session was in. Raises OpenRefused."""
    if mode is None or not switches(started.features) or not isinstance(agent, SwitchesMode):
        return
    try:
        await agent.switch_mode(mode)
    except SettingRefused as refused:
        raise OpenRefused(Code.UNSUPPORTED_CAPABILITY, str(refused)) from None


def not_resumed(journal: Journal, opening: AgentStart, started: Started) -> list[Frame]:
    """Return the warning, once per opening, for an agent that starts afresh instead of resuming."""
    if not opening.resume or started.resumed:
        return []
    if started.fresh_because is not None:
        sentence = ("The agent could not resume its earlier conversation and begins a new one: "
                    f"{started.fresh_because}")
    elif started.features.resume_session:
        sentence = "The agent has stored nothing of its earlier conversation and begins a new one."
    else:
        sentence = ("The agent cannot resume an earlier conversation (resume_session) and begins a new one: it "
                    "remembers nothing of the earlier one.")
    return [journal.agent_error("warning", Code.UNSUPPORTED_CAPABILITY, sentence)]
