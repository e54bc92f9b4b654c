"""The agent's side of ACP: sessions, each with a workspace, and at most one running prompt each."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any, NamedTuple

from acp import PROTOCOL_VERSION, RequestError
from acp.agent.connection import AgentSideConnection
from acp.schema import AgentCapabilities, Implementation, InitializeResponse, NewSessionResponse, PromptResponse

import interlock
from interlock.shell_agent import script
from interlock.shell_agent.turn import Turn

INVALID_PARAMS = -32602
"""JSON-RPC's own code for a request that names something wrong."""
MAX_SESSIONS = 256
"""Sessions of one process; one more is refused with a sentence."""


class Session(NamedTuple):
    session_id: str
    workspace: str


class ShellAgent:
    """What the SDK calls. Every refusal is a RequestError with one sentence that names the place and the remedy."""

    def __init__(self) -> None:
        self._connection: AgentSideConnection | None = None
        self._sessions: dict[str, Session] = {}
        self._turns: dict[str, Turn] = {}

    def on_connect(self, conn: AgentSideConnection) -> None:
        self._connection = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=Implementation(name="shell", title="Interlock shell", version=interlock.__version__),
            agent_capabilities=AgentCapabilities(),
            auth_methods=[],
        )

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        if (problem := _workspace_problem(cwd)) is not None:
            raise _refused(problem)
        if len(self._sessions) >= MAX_SESSIONS:
            raise _refused(f"This process already has {MAX_SESSIONS} sessions: start another one.")
        session = Session(f"shell_{secrets.token_hex(8)}", cwd)
        self._sessions[session.session_id] = session
        return NewSessionResponse(session_id=session.session_id)

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> PromptResponse:
        session = self._sessions.get(session_id)
        if session is None:
            raise _refused(f"There is no session {session_id!r} in this process: open one with session/new.")
        if session_id in self._turns:
            raise _refused(f"Session {session_id!r} is running a prompt: wait for its end, or cancel it.")
        try:
            commands = script.parse("\n".join(block.text for block in prompt if block.type == "text"))
        except script.ScriptRefused as refusal:
            raise _refused(str(refusal)) from refusal
        assert self._connection is not None, "the SDK connects before it calls"
        turn = Turn(self._connection, session_id, session.workspace, secrets.token_hex(6), commands)
        self._turns[session_id] = turn
        try:
            return await turn.run()
        finally:
            del self._turns[session_id]

    async def cancel(self, session_id: str, **_: Any) -> None:
        """ACP's `session/cancel`; without a running prompt it changes nothing."""
        if (turn := self._turns.get(session_id)) is not None:
            turn.cancel()

    async def close(self) -> None:
        """End every running command; called when the peer is gone."""
        await asyncio.gather(*(turn.abandon() for turn in self._turns.values()))


def _workspace_problem(cwd: str) -> str | None:
    if not Path(cwd).is_absolute():
        return f"The workspace {cwd!r} is not an absolute path: give one that begins with /."
    if not Path(cwd).is_dir():
        return f"The workspace {cwd!r} is not a directory on this machine: make it, or name another."
    return None


def _refused(sentence: str) -> RequestError:
    return RequestError(INVALID_PARAMS, sentence)
