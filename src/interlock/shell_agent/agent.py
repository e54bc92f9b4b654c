"""The agent's side of ACP: sessions, each with a workspace, and at most one running prompt each."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import interlock
from interlock.shell_agent import script
from interlock.shell_agent.connection import INVALID_PARAMS, JsonRpcConnection, Method, RequestRefused
from interlock.shell_agent.turn import ShellTurn

PROTOCOL_VERSION = 1
MAX_SESSIONS = 256
"""Maximum number of sessions of one process; another one is refused with a sentence."""


class Initialize(msgspec.Struct, rename="camel"):
    protocol_version: int


class NewSessionParams(msgspec.Struct):
    cwd: str


class PromptBlock(msgspec.Struct):
    type: str
    text: str = ""


class PromptParams(msgspec.Struct, rename="camel"):
    session_id: str
    prompt: list[PromptBlock]


class CancelParams(msgspec.Struct, rename="camel"):
    session_id: str


class SessionParams(NamedTuple):
    session_id: str
    workspace: str


class ShellAgent:
    """The methods for the peer. Every refusal is one sentence with the place and the remedy."""

    def __init__(self, connection: JsonRpcConnection) -> None:
        self._connection = connection
        self._sessions: dict[str, SessionParams] = {}
        self._turns: dict[str, ShellTurn] = {}

    def methods(self) -> dict[str, Method]:
        """Return its methods; all others are refused."""
        return {"initialize": Method(Initialize, self._initialize), "session/new": Method(NewSessionParams, self._open),
                "session/prompt": Method(PromptParams, self._prompt),
                "session/cancel": Method(CancelParams, self._cancel)}

    async def _initialize(self, _: Initialize) -> dict[str, Any]:
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": {"name": "shell", "title": "Interlock shell", "version": interlock.__version__},
            "agentCapabilities": {"_meta": {"interlock": {"denied": True}}},
            "authMethods": [],
        }

    async def _open(self, params: NewSessionParams) -> dict[str, Any]:
        if (problem := _workspace_problem(params.cwd)) is not None:
            raise _refused(problem)
        if len(self._sessions) >= MAX_SESSIONS:
            raise _refused(f"This process already has {MAX_SESSIONS} sessions: start another one.")
        session = SessionParams(f"shell_{secrets.token_hex(8)}", params.cwd)
        self._sessions[session.session_id] = session
        return {"sessionId": session.session_id}

    def _prompt(self, params: PromptParams) -> Awaitable[dict[str, Any]]:
        """Create the turn before the next line, which may cancel it, is read."""
        session_id = params.session_id
        session = self._sessions.get(session_id)
        if session is None:
            raise _refused(f"There is no session {session_id!r} in this process: open one with session/new.")
        if session_id in self._turns:
            raise _refused(f"Session {session_id!r} is running a prompt: wait for its end, or cancel it.")
        try:
            commands = script.parse("\n".join(block.text for block in params.prompt if block.type == "text"))
        except script.ScriptRefused as refusal:
            raise _refused(str(refusal)) from refusal
        turn = ShellTurn(self._connection, session_id, session.workspace, secrets.token_hex(6), commands)
        self._turns[session_id] = turn
        return self._run(session_id, turn)

    async def _run(self, session_id: str, turn: ShellTurn) -> dict[str, Any]:
        try:
            return await turn.run()
        finally:
            del self._turns[session_id]

    def _cancel(self, params: CancelParams) -> None:
        """Handle ACP's `session/cancel`; without a running prompt it changes nothing."""
        if (turn := self._turns.get(params.session_id)) is not None:
            turn.cancel()

    async def close(self) -> None:
        """End every running command; called when the peer is gone."""
        await asyncio.gather(*(turn.abandon() for turn in self._turns.values()))


def _workspace_problem(cwd: str) -> str | None:
    if not Path(cwd).is_absolute():
        return f"The workspace {cwd!r} is not an absolute path: use one that begins with /."
    if not Path(cwd).is_dir():
        return f"The workspace {cwd!r} is not a directory on this machine: create it, or name another."
    return None


def _refused(sentence: str) -> RequestRefused:
    return RequestRefused(INVALID_PARAMS, sentence)
