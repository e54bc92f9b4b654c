"""Actions of a person at a master: send a prompt, answer it, cancel it."""

from __future__ import annotations

import asyncio
import secrets
import shlex
import time
from typing import Any, Protocol

import httpx2

from interlock.conformance.with_master import AGENT
from interlock.protocol.api.approvals import GET_APPROVAL, VOTE
from interlock.protocol.api.commands import GET_STATUS, SUBMIT_COMMAND

ACTION_TIMEOUT_S = 20.0
PRESENT_S = 5.0
"""Time in which a welcomed runner is offered to people; until then a prompt is a conflict."""
LOOK_S = 0.1
CONFLICT = 409


class HandFailed(Exception):
    """The master did not carry out a person's action; the text is one sentence."""


class Hand(Protocol):
    """Carries out a person's actions at the master."""

    async def do(self, action: str) -> None:
        """Carry out `prompt` (prompt our agent in a new session), `allow`, `deny` or `cancel`. Raises HandFailed."""
        ...


class ProgramHand:
    """Runs a program of the master's owner with the action as its last argument."""

    def __init__(self, program: str) -> None:
        self._program = shlex.split(program)

    async def do(self, action: str) -> None:
        """Run the program to its end; it must exit with 0. Raises HandFailed."""
        try:
            ran = await asyncio.create_subprocess_exec(*self._program, action, stdin=asyncio.subprocess.DEVNULL,
                                                       stdout=asyncio.subprocess.DEVNULL)
        except OSError as error:
            raise HandFailed(f"{self._program[0]} cannot be run: {error}") from None
        try:
            status = await asyncio.wait_for(ran.wait(), ACTION_TIMEOUT_S)
        except TimeoutError:
            ran.kill()
            await ran.wait()
            raise HandFailed(f"{self._program[0]} {action} did not end within {ACTION_TIMEOUT_S:.0f} s") from None
        if status != 0:
            raise HandFailed(f"{self._program[0]} {action} ended with {status}")


class RestHand:
    """Commands, votes and cancels over the RACP REST API of Interlock's gateway."""

    def __init__(self, base: str, key: str) -> None:
        self._base = base
        self._headers = {"Authorization": f"Bearer {key}"}
        self._command = ""

    async def do(self, action: str) -> None:
        """Send the action over REST; `allow` and `deny` wait for the approval that they answer."""
        async with httpx2.AsyncClient(base_url=self._base, headers=self._headers, timeout=ACTION_TIMEOUT_S) as rest:
            try:
                await self._do(rest, action)
            except httpx2.HTTPError as error:
                raise HandFailed(f"{self._base} cannot be reached: {error}") from None

    async def _do(self, rest: httpx2.AsyncClient, action: str) -> None:
        if action == "prompt":
            messages = [{"role": "user", "content": [{"contentType": "text", "value": "conformance"}]}]
            body = {"type": "execute", "target": {"agent_id": AGENT}, "payload": {"messages": messages}}
            self._command = (await _once_present(rest, body))["id"]
        elif action == "cancel":
            await _post(rest, SUBMIT_COMMAND.at(), {"type": "cancel", "target": {"command_id": self._command}})
        else:
            approval = await self._approval(rest)
            ballot = {"decision": "grant" if action == "allow" else "deny", "digest": approval["digest"]}
            await _post(rest, VOTE.at(approval["id"]), ballot)

    async def _approval(self, rest: httpx2.AsyncClient) -> Any:
        cursor, deadline = "", time.monotonic() + ACTION_TIMEOUT_S
        while time.monotonic() < deadline:
            since = {"since": cursor} if cursor else {}
            page = _json(await rest.get(GET_STATUS.at(self._command), params={"wait": 5, **since}))
            cursor = page["next_cursor"]
            for event in page["events"]:
                if event["event"] == "approval" and event["approval_state"] == "pending":
                    return _json(await rest.get(GET_APPROVAL.at(event["approval_id"])))
            if page["terminal"]:
                break
        raise HandFailed(f"the gateway asks no one about command {self._command}")


async def _once_present(rest: httpx2.AsyncClient, body: dict[str, Any]) -> Any:
    """Submit a command; repeat it while its agent is not present yet."""
    deadline = time.monotonic() + PRESENT_S
    while True:
        answer = await _answer(rest, SUBMIT_COMMAND.at(), body)
        if answer.status_code != CONFLICT or time.monotonic() > deadline:
            return _json(answer)
        await asyncio.sleep(LOOK_S)


async def _post(rest: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> Any:
    return _json(await _answer(rest, path, body))


async def _answer(rest: httpx2.AsyncClient, path: str, body: dict[str, Any]) -> httpx2.Response:
    return await rest.post(path, json=body, headers={"Idempotency-Key": f"conformance-{secrets.token_hex(8)}"})


def _json(answer: httpx2.Response) -> Any:
    if answer.status_code >= 400:
        raise HandFailed(f"HTTP {answer.status_code}: {answer.text[:300]}")
    return answer.json()
