"""Prompts that the door answers itself: `/status`, `/pause`, `/approve` and so on (O-5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from interlock.command.card.permission_request import not_of_its_digest
from interlock.doors.acp.card import card_of
from interlock.doors.acp.open_session import OpenSession
from interlock.doors.acp.permission import COMMENT, waits
from interlock.protocol.resources import Approval
from interlock.sdk import AsyncInterlock, problems

COMMANDS = {
    "status": "Show what the session is doing, and what waits for approval",
    "pause": "Pause the agent at its next step",
    "resume": "Resume a paused agent",
    "compact": "Compact the conversation to free context",
    "approve": "Allow a waiting approval, after it was shown whole here",
    "deny": "Deny a waiting approval",
}
HINTS = {"compact": "what to keep in mind", "approve": "approval id", "deny": "approval id, and why"}
CARDS_SHOWN = 8
"""Approvals that `/status` shows whole; of further ones it lists the ids."""
ID_CHARS = 64


class SlashCommands:
    """Runs slash commands for the sessions of one door."""

    def __init__(self, gateway: AsyncInterlock) -> None:
        self._gateway = gateway
        self._verbs: dict[str, Callable[[OpenSession, str, str], Awaitable[str]]] = {
            "status": self._status, "pause": self._pause, "resume": self._resume, "compact": self._compact,
            "approve": self._approve, "deny": self._deny}

    async def run(self, session: OpenSession, name: str, argument: str) -> str:
        """Run one of COMMANDS; return the text for the editor's user. Raises InterlockError."""
        if session.session_id is None:
            return "The session has no work yet."
        return await self._verbs[name](session, session.session_id, argument)

    async def _compact(self, _session: OpenSession, session_id: str, argument: str) -> str:
        await self._gateway.sessions.compact(session_id, instructions=argument or None)
        return "The conversation will be compacted."

    async def _pause(self, _session: OpenSession, session_id: str, _argument: str) -> str:
        running = await self._gateway.commands.list(session=session_id, state="running", limit=1)
        if not running.items:
            return "There is nothing to pause."
        await self._gateway.commands.pause(running.items[0].id)
        return "Pause was requested."

    async def _resume(self, _session: OpenSession, session_id: str, _argument: str) -> str:
        paused = await self._gateway.commands.list(session=session_id, state="paused", limit=1)
        if not paused.items:
            return "There is nothing to resume."
        await self._gateway.commands.resume(paused.items[0].id)
        return "Resume was requested."

    async def _status(self, session: OpenSession, session_id: str, _argument: str) -> str:
        shown = await self._gateway.sessions.get(session_id)
        lines = [f"Agent {shown.agent_id} on {shown.runner_id} in {shown.workspace}: {shown.state}"
                 f"{', at work' if shown.turn_id else ''}; {shown.total_tokens} tokens."]
        waiting = await self._waiting(session_id)
        for approval in waiting[:CARDS_SHOWN]:
            card = card_of(approval)
            lines += [card.text, _remedy(approval) or f"Decide with /approve {approval.id} or /deny {approval.id}"]
            if card.whole:
                session.shown.add(approval)
        if rest := waiting[CARDS_SHOWN:]:
            lines.append(f"And {len(rest)} more: {', '.join(one.id for one in rest)}")
        return "\n".join(lines)

    async def _approve(self, session: OpenSession, session_id: str, argument: str) -> str:
        approval = await self._chosen(session_id, "approve", argument.split(" ")[0])
        if isinstance(approval, str):
            return approval
        if (elsewhere := _remedy(approval)) is not None:
            return elsewhere
        if not session.shown.covers(approval):
            return (f"Approval {approval.id} has not been shown whole in this conversation as it is now. Show it with "
                    f"/status, or decide at a terminal: interlock approve {approval.id}")
        if (why := not_of_its_digest(approval)) is not None:
            return f"{why} Deny it with /deny {approval.id}"
        voted = await self._gateway.approvals.grant(approval.id, digest=approval.digest, comment=COMMENT)
        return waits(voted) if voted.state == "pending" else f"Allowed: {approval.id}"

    async def _deny(self, session: OpenSession, session_id: str, argument: str) -> str:
        name, _, reason = argument.partition(" ")
        approval = await self._chosen(session_id, "deny", name)
        if isinstance(approval, str):
            return approval
        if approval.signed:
            return waits(approval)
        voted = await self._gateway.approvals.vote(approval.id, "deny", digest=approval.digest,
                                                   comment=reason.strip() or None)
        return waits(voted) if voted.state == "pending" else f"Denied: {approval.id}"

    async def _chosen(self, session_id: str, verb: str, name: str) -> Approval | str:
        """Find the named approval, or the only waiting one; a sentence if there is none to decide."""
        if not name:
            waiting = await self._waiting(session_id)
            if len(waiting) == 1:
                return waiting[0]
            ids = ", ".join(one.id for one in waiting[:CARDS_SHOWN])
            return f"Several approvals wait. Name one behind /{verb}: {ids}" if waiting else "No approval waits here."
        try:
            found = await self._gateway.approvals.get(name[:ID_CHARS])
        except problems.NotFound:
            return f"There is no approval {name[:ID_CHARS]!r}. List what waits with /status."
        if found.session_id != session_id:
            return (f"Approval {found.id} is of another session. Decide there, or at a terminal: "
                    f"interlock {verb} {found.id}")
        return found if found.state == "pending" else f"Approval {found.id} is {found.state} already."

    async def _waiting(self, session_id: str) -> list[Approval]:
        return [one async for one in self._gateway.approvals.every(state="pending", session=session_id)]


def _remedy(approval: Approval) -> str | None:
    """Return where to decide an approval that slash commands cannot allow; None if they can."""
    return waits(approval) if approval.kind == "question" or approval.signed else None
