"""Changes in a session's workspace according to git, requested from its runner (J-4). In memory only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from interlock.engine.membership import Elsewhere
from interlock.engine.presence import RunnerPresence
from interlock.ports.clock import Clock, Entropy
from interlock.protocol.clock import iso
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.identifiers import uuid4
from interlock.protocol.payloads import WORKSPACE_CHANGES, WorkspaceChanges, WorkspaceLook
from interlock.protocol.problems import Problem
from interlock.protocol.records import SessionRecord
from interlock.protocol.resources import WorkspaceAccess

ANSWER_S = 12.0
"""Timeout for a runner's answer; its own look takes less."""
MAX_ASKED = 8
"""Workspaces of one runner that are requested at once; a further request is answered 503."""


class _Asked(NamedTuple):
    runner_id: str
    session_id: str
    answer: asyncio.Future[WorkspaceChanges | None]
    """None if the runner has detached."""
    end: asyncio.TimerHandle


class WorkspaceLooks:
    """Requests to runners that are attached here. Concurrent requests for the same session get the same answer.

    `find_runners` reads which runners are attached to other gateways."""

    def __init__(
        self, presence: RunnerPresence, clock: Clock, entropy: Entropy, find_runners: Callable[[], Awaitable[None]]
    ) -> None:
        self._presence = presence
        self._clock = clock
        self._entropy = entropy
        self._find_runners = find_runners
        self._asked: dict[str, _Asked] = {}
        """By request_id."""

    async def look(self, session: SessionRecord, access: WorkspaceAccess, start_commit: str | None = None
                   ) -> WorkspaceChanges:
        """Request the changes in a session's workspace from its runner, and return them; `access` is the session's to
        its workspace, `start_commit` what was checked out there at its start. Raises Problem, and Elsewhere if another
        gateway has the runner."""
        present = self._presence.get(session.runner_id)
        if present is None or not present.attached:
            await self._find_runners()  # It may have attached to another gateway, whose notice is not here yet.
        pending = next((one for one in self._asked.values() if one.session_id == session.session_id), None) \
            or self._ask(session, access, start_commit)
        answer = await asyncio.shield(pending.answer)
        if answer is None:
            raise _away(session, "did not answer in time, or has left")
        return answer

    def answer(self, runner_id: str, changes: WorkspaceChanges) -> None:
        """Process a runner's answer; one that was not requested, or is late, changes nothing."""
        pending = self._asked.get(changes.request_id)
        if pending is not None and (pending.runner_id, pending.session_id) == (runner_id, changes.session_id):
            self._end(changes.request_id, changes)

    def lose(self, runner_id: str) -> None:
        """End the requests to a runner that has detached."""
        for request_id in [name for name, one in self._asked.items() if one.runner_id == runner_id]:
            self._end(request_id, None)

    def _ask(self, session: SessionRecord, access: WorkspaceAccess, start_commit: str | None) -> _Asked:
        present = self._presence.get(session.runner_id)
        if present is not None and present.link is None and present.instance_id:
            raise Elsewhere(present.instance_id)
        if present is None or present.link is None:
            raise _away(session, "is not connected at the moment")
        if WORKSPACE_CHANGES not in present.hello.features:
            raise Problem("UnsupportedCapability", f"The runner {session.runner_id} does not offer to look at "
                          "workspaces.", hint="Update Interlock on the runner's host.")
        if sum(one.runner_id == session.runner_id for one in self._asked.values()) >= MAX_ASKED:
            raise Problem("Unavailable", f"The runner {session.runner_id} is asked for {MAX_ASKED} workspaces already.",
                          hint="Try again in a moment.", headers={"Retry-After": "2"})
        request_id, loop = uuid4(self._entropy(16)), asyncio.get_running_loop()
        pending = self._asked[request_id] = _Asked(session.runner_id, session.session_id, loop.create_future(),
                                                 loop.call_later(ANSWER_S, self._end, request_id, None))
        present.link.send(encode(Frame(
            type="x-interlock.workspace.look", message_id=uuid4(self._entropy(16)),
            timestamp=iso(self._clock.now_ms()),
            payload=WorkspaceLook(
                request_id=request_id, session_id=session.session_id, agent_id=session.agent_id,
                workspace=session.workspace, workspace_access=access,
                start_commit=start_commit))))
        return pending

    def _end(self, request_id: str, changes: WorkspaceChanges | None) -> None:
        pending = self._asked.pop(request_id)
        pending.end.cancel()
        if not pending.answer.done():
            pending.answer.set_result(changes)


def _away(session: SessionRecord, why: str) -> Problem:
    return Problem("Unavailable", f"The runner {session.runner_id}, which has this session's workspace, {why}.",
                   hint="`GET /v1/runners` shows when it is connected; try again then.", headers={"Retry-After": "5"})
