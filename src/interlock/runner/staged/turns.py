"""One session's staged changes over its turns: compare, ask, land, discard (H-17)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from interlock.ports.agent import AgentQuestion, InteractionAnswer, TurnOutcome
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.runner.journal import Journal
from interlock.runner.staged.difference import Difference
from interlock.runner.staged.entries import FileChange
from interlock.runner.staged.later import marks
from interlock.runner.staged.question import landed, picked_by, question, report
from interlock.runner.staged.store import Staged, picked


class LandingApproval(Protocol):
    """Asks people during a turn."""

    async def ask(self, question: AgentQuestion) -> InteractionAnswer: ...

    async def warn(self, code: str, message: str) -> None: ...


class StagedTurns:
    """Reports to the gateway by a session's journal, and keeps the order: journal of the landing, files, report."""

    def __init__(self, journal: Journal, staged: Staged) -> None:
        self._journal = journal
        self.staged = staged
        self._shown = ""

    async def open(self) -> None:
        """Prepare for an agent's start. Raises OSError."""
        await self.resume()
        await asyncio.to_thread(self.staged.prepare, self.staged.moment())

    async def resume(self) -> None:
        """Finish and report a landing that a kill interrupted. Raises OSError."""
        if not self.staged.exists:
            return
        done = await asyncio.to_thread(self.staged.resume)
        if done is not None:
            await self._report(landed(done, await self._later(done.done)))
            await asyncio.to_thread(self.staged.reported)

    async def begin(self) -> None:
        """Store the starting point of every currently staged file, before the agent continues."""
        with suppress(OSError):  # The comparison at the turn's end reports it.
            await asyncio.to_thread(lambda: self.staged.look(self.staged.moment()))

    async def settle(self, asker: LandingApproval, outcome: TurnOutcome) -> None:
        """Report the turn's staged changes, and ask whether they land. Never raises for errors of the disk."""
        try:
            await self._settle(asker, asks=outcome.stop_reason not in ("cancelled", "error", "tool_use"))
        except (OSError, ValueError) as error:
            await asker.warn(Code.INTERNAL, f"The staged changes did not land: {getattr(error, 'strerror', error)}.")

    async def _settle(self, asker: LandingApproval, *, asks: bool) -> None:
        staged = self.staged
        found = await self._look()
        if not asks or not found.changes:
            return
        answer = await asker.ask(await asyncio.to_thread(question, found, staged.upper, staged.workspace))
        if not answer.allow:
            return
        changes = picked(found.changes, picked_by(answer, found))
        later = await self._later(changes)  # Before landing: changes of git's attributes are visible only now.
        done = await asyncio.to_thread(staged.land, changes)
        await self._report(landed(done, later))
        await asyncio.to_thread(staged.reported)
        await self._left()

    async def discard(self, paths: list[str] | None) -> None:
        """Discard staged changes at or below `paths`, or all. No agent may run. Raises OSError."""
        staged = self.staged
        done = await asyncio.to_thread(lambda: staged.discard(paths, staged.moment()))
        await self._report(report("discarded", None, done.done, done.refused, await self._later(done.done)))
        await self._left()

    async def report(self) -> None:
        """Report staged changes, if there are any. Raises OSError."""
        if self.staged.exists:
            await self._look()

    async def _look(self) -> Difference:
        found = await asyncio.to_thread(lambda: self.staged.look(self.staged.moment()))
        if found.digest != self._shown and (found.changes or found.left_out or self._shown):
            await self._report_staged(found)
            self._shown = found.digest
        return found

    async def _left(self) -> None:
        """Report the changes that are still staged after some landed or were discarded."""
        found = await asyncio.to_thread(lambda: self.staged.look(self.staged.moment()))
        await self._report_staged(found)
        self._shown = found.digest

    async def _report_staged(self, found: Difference) -> None:
        later = await self._later(found.changes)
        await self._report(report("staged", found, found.changes, found.left_out, later))

    async def _later(self, changes: Sequence[FileChange]) -> dict[str, str]:
        return await asyncio.to_thread(marks, changes, self.staged.upper, self.staged.workspace)

    async def _report(self, fields: dict[str, Any]) -> None:
        await self._journal.write(self._journal.frame("x-interlock.changes.report", p.ChangesReport(**fields)))
        await self._journal.durable()
