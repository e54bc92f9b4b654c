"""The course of the demonstration: a command is held, granted, cut off in the middle, resumed, and counted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from interlock.cli.display.terminal import one_line
from interlock.cli.display.values import count
from interlock.cli.exit_status import BY_STATE
from interlock.cli.link.gateway_link import GatewayLink, decoded
from interlock.cli.link.sse import SseEvent, SseStream
from interlock.command.card.permission_request import title_of_approval
from interlock.demo import audit, files
from interlock.demo.agent import Chosen
from interlock.demo.figures import DemoFigures, check_permissions, compare_text, count_frames
from interlock.demo.outbox_file import OutboxState, look, look_until
from interlock.demo.proxy import Proxy
from interlock.demo.stream_view import StreamView
from interlock.demo.viewer import DemoViewer
from interlock.protocol.api.approvals import GET_APPROVAL, LIST_APPROVALS, VOTE
from interlock.protocol.api.audit import EXPORT_AUDIT
from interlock.protocol.api.commands import GET_COMMAND, GET_STATUS, SUBMIT_COMMAND
from interlock.protocol.api.sessions import GET_SESSION
from interlock.protocol.resources import Approval, Command, Session

T = TypeVar("T")

HOLD_S = 0.5
"""Time for which a held tool call is watched: nothing of it may run."""
AWAY_S = 1.0
"""Limit of the cut with a real agent, since its output cannot be predicted."""
SETTLE_S = 5.0
"""Limit for the last frames and acknowledgements after the command's end."""
OUTBOX = Path("state/runner/outbox.db")
_PIECES = frozenset({"agent.text.delta", "tool.invoke.stream"})
_WHOLE = frozenset({"agent.text.done", "tool.invoke.result", "session.turn.end"})


class Noticed(Exception):
    """A check failed, and the demonstration cannot continue. The text is one sentence."""


class _EndedBefore(Exception):
    """The command ended too early; the text names what had not happened yet."""


class CutPoint:
    """Where the link is cut: in the middle of the held command's output; with a real agent, at its first output."""

    def __init__(self, chosen: Chosen) -> None:
        self._is_shell = chosen.spec is None
        self._after = files.seen_chars()

    def is_here(self, frame: dict[str, Any]) -> bool:
        """Return whether to cut at this frame of the runner."""
        kind, payload = frame.get("type"), cast("dict[str, Any]", frame.get("payload") or {})
        if not self._is_shell:
            return kind in _PIECES or kind in _WHOLE
        return kind == "tool.invoke.stream" and payload["offset"] + len(payload["text"]) > self._after


class Course:
    """Runs the demonstration with one gateway. `report` receives a sentence for each event."""

    def __init__(self, link: GatewayLink, chosen: Chosen, base: Path, figures: DemoFigures,
                 report: Callable[[str], None]) -> None:
        self._link = link
        self._chosen = chosen
        self._base = base
        self._figures = figures
        self._report = report

    async def play(self, proxy: Proxy, export: Path) -> None:
        """Run the course. Raises Noticed, Trouble; other failed checks are added to the figures. After a task that
        ended early, what was approved and what ran are checked all the same."""
        command = await self._submit()
        viewer = DemoViewer(self._link, command.target.session_id or "")
        following = asyncio.ensure_future(viewer.follow())
        ended = asyncio.ensure_future(self._until_over(command.id, following))
        try:
            await self._grant_command(command)
            if self._chosen.spec is None:
                await self._play_shell(command, viewer, proxy, ended)
            else:
                await self._play_agent(command, viewer, proxy, ended)
            await ended
            await self._count(command.id, viewer, proxy, export)
        except _EndedBefore as early:
            self._figures.noticed.append(f"{self._how_it_ended(await self._ended(command.id))}, before {early}.")
            await self._check_yes(command.id, await viewer.fetch(), export)
        finally:
            ended.cancel()
            following.cancel()
            await asyncio.gather(ended, following, return_exceptions=True)

    # --- the command ---
    async def _submit(self) -> Command:
        target = {"agent_id": self._chosen.agent_id, "workspace": str(self._base / "work")}
        message = {"role": "user", "content": [{"contentType": "text", "value": self._chosen.prompt}]}
        body = {"type": "execute", "target": target, "payload": {"messages": [message]}}
        command = decoded(await self._link.send(SUBMIT_COMMAND.at(), body), Command, SUBMIT_COMMAND.at())
        if command.state != "pending_approval" or command.approval_id is None:
            raise Noticed(f"The task should be held by the config's rule, but is {command.state}.")
        what = "three shell commands" if self._chosen.spec is None else "a question"
        self._report(f"A task for {self._chosen.agent_id} ({what}) is held by a rule, before anything starts.")
        return command

    async def _grant_command(self, command: Command) -> None:
        await self._vote(command.approval_id or "", "grant")
        self._report("The task is allowed, and starts.")

    async def _until_over(self, command_id: str, following: asyncio.Future[None]) -> None:
        """Wait for the command's end; a viewer that cannot continue also ends the waiting. Raises Trouble."""
        ended = asyncio.ensure_future(self._until_ended(command_id))
        try:
            await asyncio.wait([ended, following], return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
            await ended
        finally:
            ended.cancel()

    async def _until_ended(self, command_id: str) -> None:
        async for item in SseStream(self._link, GET_STATUS.at(command_id)):
            if isinstance(item,
                          SseEvent) and item.data.get("event") == "state" and item.data.get("state") in BY_STATE:
                return

    async def _ended(self, command_id: str) -> Command:
        command = await self._link.read(GET_COMMAND.at(command_id), Command)
        self._figures.command_state = command.state
        return command

    def _how_it_ended(self, command: Command) -> str:
        why = f" ({command.error.code}: {command.error.message.rstrip('.')})" if command.error is not None else ""
        return f"The task ended as {command.state}{why}"

    async def _vote(self, approval_id: str, decision: str) -> Approval:
        approval = await self._link.read(GET_APPROVAL.at(approval_id), Approval)
        if approval.state != "pending":
            return approval
        body = {"decision": decision, "digest": approval.digest}
        path = VOTE.at(approval_id)
        return decoded(await self._link.send(path, body), Approval, path)

    # --- shell ---
    async def _play_shell(self, command: Command, viewer: DemoViewer, proxy: Proxy,
                          ended: asyncio.Future[None]) -> None:
        marks, outbox, session_id = self._base / "marks", self._base / OUTBOX, command.target.session_id or ""
        reading = viewer.reading
        await _sooner(viewer.until(lambda seen: bool(seen.held)), ended, "a tool call was held")
        interaction_id, approval_id = next(iter(reading.held.items()))
        invocation_id = reading.asked[interaction_id]["context"]["invocation_id"]
        self._report(f"{files.COMMANDS[0]!r} ran by a rule; {files.HELD!r} is held until a person allows it.")
        await self._watch_held(viewer, interaction_id)
        voted = await self._vote(approval_id, "grant")
        await _sooner(viewer.until(lambda seen: len(seen.shown(invocation_id)) >= files.seen_chars()), ended,
                      "a viewer saw output")
        self._report(f"{'It is allowed' if voted.votes else 'No one allowed it'}, and it runs; a viewer has read "
                   f"{len(reading.shown(invocation_id)):,} characters of its output.")
        (marks / files.SEEN).touch()
        await _sooner(proxy.cut.wait(), ended, "the link was cut")
        self._report("The connection is reset (RST), in the middle of a frame of that output.")
        (marks / files.CUT).touch()
        waiting = await _sooner(look_until(outbox, session_id, _next_is_asked), ended, "more was made while detached")
        frames = count(len(waiting.waiting), "frame")
        self._report(f"The work continues without a link: {frames} waiting in the runner's outbox.")
        await self._reattach(proxy, ended)

    async def _watch_held(self, viewer: DemoViewer, interaction_id: str) -> None:
        try:
            async with asyncio.timeout(HOLD_S):
                await viewer.until(lambda seen: interaction_id in seen.outcome)
        except TimeoutError:
            return
        title = viewer.reading.asked[interaction_id]["title"]
        self._figures.noticed.append(f"While it was held, the tool call was {viewer.reading.outcome[interaction_id]} "
                                     f"without a person's decision: {title}")

    async def _reattach(self, proxy: Proxy, ended: asyncio.Future[None]) -> None:
        proxy.restore()
        await _sooner(proxy.until_attached(2), ended, "the runner was attached again")
        self._report("The runner is attached again.")

    # --- any agent ---
    async def _play_agent(self, command: Command, viewer: DemoViewer, proxy: Proxy,
                          ended: asyncio.Future[None]) -> None:
        answering = asyncio.ensure_future(self._answer_tools(viewer))
        try:
            await _sooner(proxy.cut.wait(), ended, "the link was cut")
            self._report(f"{self._chosen.agent_id} writes text; the connection is reset (RST) in the middle of it.")
            before = look(self._base / OUTBOX, command.target.session_id or "").last_seq
            try:
                async with asyncio.timeout(AWAY_S):
                    await look_until(self._base / OUTBOX, command.target.session_id or "",
                                     lambda outbox: outbox.last_seq > before)
            except TimeoutError:
                pass  # The command wrote nothing more; the text in transit is enough.
            await self._reattach(proxy, ended)
            await ended
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)

    async def _answer_tools(self, viewer: DemoViewer) -> None:
        """Grant the first tool call and deny the others: a demonstration must not give an agent free rein."""
        answered: set[str] = set()
        while True:
            await viewer.until(lambda seen: any(one not in answered for one in seen.held))
            interaction_id = next(one for one in viewer.reading.held if one not in answered)
            decision = "deny" if answered else "grant"
            answered.add(interaction_id)
            if decision == "grant":
                await self._watch_held(viewer, interaction_id)
            approval = await self._vote(viewer.reading.held[interaction_id], decision)
            verb = "granted" if decision == "grant" else "denied, since one is enough here"
            self._report(f"A tool call was held, and is {verb}: {one_line(title_of_approval(approval))}")

    # --- the end ---
    async def _count(self, command_id: str, viewer: DemoViewer, proxy: Proxy, export: Path) -> None:
        figures = self._figures
        command = await self._ended(command_id)
        if command.state != "succeeded":
            figures.noticed.append(f"{self._how_it_ended(command)}.")
        session_id = command.target.session_id or ""
        outbox = await self._settled(viewer, session_id)
        history = await viewer.fetch()
        await _at_most(viewer.until(lambda seen: seen.last_n >= history.last_n))
        session = await self._link.read(GET_SESSION.at(session_id), Session)
        count_frames(figures, outbox, history, session)
        figures.history_frames = proxy.history_frames
        if not proxy.history_frames:
            figures.noticed.append("The reattach delivered no frame made before it.")
        compare_text(figures, viewer.reading, history,
                     files.expected(self._base / "work") if self._chosen.spec is None else None)
        await self._check_yes(command_id, history, export)
        self._check_doors()
        self._report_figures(viewer.reading)

    async def _settled(self, viewer: DemoViewer, session_id: str) -> OutboxState:
        """Wait until the agent is idle and everything is acknowledged to the runner; return the outbox's state."""
        path = self._base / OUTBOX
        await _at_most(viewer.until(lambda seen: seen.resting))
        await _at_most(look_until(path, session_id, lambda outbox: outbox.acked_seq == outbox.last_seq))
        return look(path, session_id)

    async def _check_yes(self, command_id: str, history: StreamView, export: Path) -> None:
        """Export the audit log, and compare what ran with the approvals."""
        await self._export(export)
        approvals = [one for one in await self._link.list(LIST_APPROVALS.at(), Approval)
                     if one.command_id == command_id]
        check_permissions(self._figures, history, approvals, audit.approved(export))

    async def _export(self, export: Path) -> None:
        with export.open("wb") as file:
            async for chunk in self._link.download(EXPORT_AUDIT.at()):
                file.write(chunk)

    def _check_doors(self) -> None:
        doors = ("command", "tool") if self._chosen.spec is None else ("command",)
        granted = {one.door for one in self._figures.approvals if one.decision == "grant"}
        for door in doors:
            if door not in granted:
                self._figures.noticed.append(f"No approval of a {door} was granted.")

    def _report_figures(self, reading: StreamView) -> None:
        figures = self._figures
        if figures.noticed:
            return
        self._report(f"The task has {figures.command_state}. Frames: {figures.frames_made} made by the runner, "
                   f"{figures.frames_applied} applied by the gateway, {figures.frames_lost} lost; "
                   f"{figures.history_frames} of them came in the history after the reattach.")
        against = "equals the files" if self._chosen.spec is None else "equals the history"
        self._report(f"The viewer's text {against} exactly: {len(reading.text):,} characters.")


def _next_is_asked(outbox: OutboxState) -> bool:
    """Return whether, detached, the held command has ended and the agent has asked for the next one."""
    _, ended, after = ",".join(outbox.waiting).partition("tool.invoke.result")
    return bool(ended) and "agent.interaction.request" in after


async def _sooner(awaited: Awaitable[T], ended: asyncio.Future[None], what: str) -> T:
    """Wait, but not beyond the command's end; returns the result. Raises _EndedBefore."""
    waiting = asyncio.ensure_future(awaited)
    try:
        await asyncio.wait([waiting, ended], return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            ended.result()
            raise _EndedBefore(what)
        return waiting.result()
    finally:
        waiting.cancel()


async def _at_most(awaited: Awaitable[object]) -> None:
    """Wait SETTLE_S at most; the figures show what is missing then."""
    try:
        async with asyncio.timeout(SETTLE_S):
            await awaited
    except TimeoutError:
        pass
