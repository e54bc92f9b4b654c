"""One prompt of a pipeline: submit it once, follow it to its end, wait for its approvals within a limit (O-10)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from interlock.command.card.permission_request import title_of_approval
from interlock.doors.ci.log_lines import Level, LogWriter, phrase
from interlock.doors.ci.progress_lines import ProgressLines
from interlock.protocol.resources import Approval, Command, StatusEvent
from interlock.sdk import AsyncInterlock, InterlockError, Lost, Reattached, StreamEvent
from interlock.sdk.exchange import RequestSpec

DRAIN_S = 10.0
"""Time to wait for the last frames of a command that has ended."""
STILL_S = 300.0
"""After this time without a line, a line reports that the job continues: some CI systems end a silent job."""
OVERDUE_REASON = "an approval was not granted within the pipeline's limit"
ENDED_BADLY = frozenset({"failed", "timed_out", "canceled", "rejected", "expired"})
Write = Callable[[str], None]


class PipelineJob:
    """A command of a pipeline. `overdue` names the approval that exceeded the limit, if any."""

    def __init__(self, gateway: AsyncInterlock, link: str, writer: LogWriter, write: Write, *,
                 approval_limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._gateway = gateway
        self._link = link
        """The gateway's URL, as a browser reaches it."""
        self._writer = writer
        self._write = write
        self._limit_s = approval_limit_s
        self._clock = clock
        self._spoke = clock()
        self._waits: dict[str, asyncio.Task[None]] = {}
        self.progress = ProgressLines(writer)
        self.approvals: dict[str, Approval] = {}
        self.overdue: str | None = None

    async def submit(self, request: RequestSpec[Command], keys: Sequence[str]) -> Command:
        """Submit with the keys of all tries, the oldest first: the first command that is running or has succeeded is
        this job's; only the last key may start one after a failed one. Raises InterlockError."""
        for at, key in enumerate(keys):
            submitted = await self._gateway.link.answer(request.with_key(key))
            command = await self._gateway.commands.get(submitted.id)
            if at == len(keys) - 1 or command.state not in ENDED_BADLY:
                return command
            self.say(f"{command.id} of an earlier try of this job is {_words(command.state)}")
        raise ValueError("a job has at least one key")

    async def follow(self, command: Command) -> Command:
        """Write the command's log until it has ended; return its final state. Raises InterlockError."""
        try:
            async with asyncio.TaskGroup() as group:
                frames = group.create_task(self._frames(command.target.session_id or ""))
                still = group.create_task(self._still())
                await self._status(command.id, group)
                for wait in self._waits.values():
                    wait.cancel()
                ended = await self._gateway.commands.get(command.id)
                if ended.started_at is not None:
                    await asyncio.wait([frames], timeout=DRAIN_S)
                frames.cancel()
                still.cancel()
            return ended
        except BaseExceptionGroup as group_error:
            raise group_error.exceptions[0] from None

    def say(self, line: str) -> None:
        """Write a line of ours; text of others in it must have passed through `phrase`."""
        self.put([line])

    @property
    def annotates(self) -> bool:
        """Return whether the CI system shows annotations beside the job."""
        return self._writer.annotates

    def annotate(self, level: Level, title: str, message: str) -> None:
        """Write a line that the CI system shows beside the job."""
        self.put([self._writer.annotation(level, title, message)])

    def put(self, lines: Iterable[str]) -> None:
        """Write lines."""
        for line in lines:
            self._write(line)
            self._spoke = self._clock()

    async def _frames(self, session_id: str) -> None:
        async for item in self._gateway.sessions.follow(session_id):
            if isinstance(item, StreamEvent):
                self.put(self.progress.lines(item.data))
                if self.progress.is_over:
                    return

    async def _status(self, command_id: str, group: asyncio.TaskGroup) -> None:
        async for item in self._gateway.commands.follow(command_id):
            match item:
                case Lost():
                    self.say(f"the connection to the gateway was lost ({phrase(item.why)}); the work continues, "
                             "reconnecting")
                case Reattached():
                    self.say(f"connected to the gateway again after {item.away_s:.0f} s")
                case StreamEvent(data=StatusEvent(event="approval", approval_id=str() as approval_id)):
                    await self._approval(approval_id, command_id, group)
                case _:
                    continue

    async def _approval(self, approval_id: str, command_id: str, group: asyncio.TaskGroup) -> None:
        """Handle a change of an approval: log it once while it waits, and once when it is decided."""
        before = self.approvals.get(approval_id)
        if before is not None and before.state != "pending":
            return  # Decided before; later states, such as `consumed`, are read when the command has ended.
        approval = await self._gateway.approvals.get(approval_id)
        self.approvals[approval_id] = approval
        if approval.state == "pending":
            if before is None:
                self.annotate("notice", "Approval needed", self._asks(approval))
                self._waits[approval_id] = group.create_task(self._limit(approval_id, command_id))
            return
        if (wait := self._waits.pop(approval_id, None)) is not None:
            wait.cancel()
        # A yes may have been used before it is read here.
        state = "granted" if approval.state == "consumed" else approval.state
        self.say(f"{approval.id} is {_words(state)}{decided_by(approval)}: "
                 f"{phrase(title_of_approval(approval))}")

    def _asks(self, approval: Approval) -> str:
        own = f', which the agent calls "{phrase(approval.agent_title, 200)}"' if approval.agent_title else ""
        return (f"{phrase(title_of_approval(approval), 400)}{own} · rule: {phrase(approval.rule, 120)} · answer at "
                f"{self.link_to(approval.id)}")

    def link_to(self, approval_id: str) -> str:
        """Return the page on which a person answers an approval."""
        return f"{self._link}/a/{approval_id}"

    async def _limit(self, approval_id: str, command_id: str) -> None:
        """Cancel the command if the approval is still pending at the limit."""
        await asyncio.sleep(self._limit_s)
        self.overdue = approval_id
        self.annotate("error", "Approval overdue", f"{approval_id} was not decided within {self._limit_s:.0f} s, so "
                                                   f"{command_id} is canceled")
        try:
            await self._gateway.commands.cancel(command_id, reason=OVERDUE_REASON)
        except InterlockError as error:
            self.annotate("error", "Not canceled", f"{command_id}: {error}")

    async def _still(self) -> None:
        while True:
            silent = self._clock() - self._spoke
            if silent >= STILL_S:
                waits = f"{len(self._waits)} approvals wait" if len(self._waits) > 1 else \
                    "1 approval waits" if self._waits else "the agent works"
                self.say(f"still going on: {waits}")
                silent = 0.0
            await asyncio.sleep(STILL_S - silent)


def decided_by(approval: Approval) -> str:
    """Name the person or rule that decided, if any."""
    return f" by {phrase(approval.decided_by, 120)}" if approval.decided_by else ""


def _words(state: str) -> str:
    return state.replace("_", " ")

