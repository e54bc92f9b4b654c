"""The shell of compaction: it reads transcripts for lanes, plans, calls the hook, and has the lane decide (Z-4, Z-6).

A lane states its needs in its state (`context.due`, `wants_context`); this module is shown every decision once it is
durable. There is one task per session, so that a session's needs are met in order; what it reads is checked against the
lane again before it is used.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import structlog

from interlock.engine.bridge.context import compaction
from interlock.engine.bridge.context.context_state import Cause
from interlock.engine.bridge.context.contexts import ContextMessage, Prepared
from interlock.engine.bridge.handlers.gateway import ContextView
from interlock.engine.bridge.handlers.people import compact_verb
from interlock.engine.bridge.inputs.gateway import (
    CompactionDropped,
    CompactionPlanned,
    ContextLooked,
    ContextPrepared,
    ContextUnreadable,
    ContextViewed,
)
from interlock.engine.bridge.inputs.people import (
    AgentCompaction,
    CompactionChecked,
    CompactionRequested,
    PolicyAsked,
)
from interlock.engine.bridge.lane import Lane
from interlock.engine.lanes.lane_shell import LaneShell
from interlock.engine.lanes.lanes import Lanes
from interlock.engine.sessions.transcript_writer import TranscriptWriter
from interlock.ports.compaction_hook import BeforeCompact, CompactionHook, CompactionVeto, Supply
from interlock.ports.ledger import LedgerError
from interlock.ports.transcripts import TranscriptStore
from interlock.protocol.identifiers import session_stream
from interlock.protocol.problems import Problem
from interlock.protocol.records import IdempotencyRecord, Principal
from interlock.session.context.compaction_plan import (
    CompactionPlan,
    NothingToCompact,
    Path,
    estimated_tokens,
    plan,
)
from interlock.session.context.context import identified
from interlock.session.transcript.tree import Tree

PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR)
"""Errors of the machine rather than of a file: the commands that wait for it keep waiting."""
ROUNDS = 8
"""How many times a session's needs are checked in one run: each result may create the next need."""
RETRY_S = 2.0
"""Delay before an unreadable transcript is read again."""
MAX_HOOK_BYTES = 4 * 1024 * 1024
"""Size of the conversation's messages that a hook is sent; larger ones are omitted."""

log = structlog.get_logger()

class _Read(NamedTuple):
    """A transcript, limited to the part in context."""

    path: Path
    prepared: Prepared
    estimated: int


class Compactor:
    """The worker for lanes whose context the gateway owns."""

    def __init__(self, lanes: Lanes, transcripts: TranscriptStore, writer: TranscriptWriter) -> None:
        self._lanes = lanes
        self._transcripts = transcripts
        self._writer = writer
        self._hook: CompactionHook | None = None
        self._working: dict[str, asyncio.Task[None]] = {}
        self._again: set[asyncio.TimerHandle] = set()

    def configure(self, hook: CompactionHook | None) -> None:
        """Call `hook` before each compaction from now on (Z-6)."""
        self._hook = hook

    def watch(self, lane: Lane) -> None:
        """Check what a decision left to do. Never blocks."""
        if lane.state.context.due or lane.wants_context:
            self._start(lane.state.session_id)

    def _start(self, session_id: str) -> None:
        if session_id not in self._working:
            task = asyncio.create_task(self._work(session_id), name=f"context {session_id}")
            self._working[session_id] = task
            task.add_done_callback(lambda _: self._working.pop(session_id, None))

    async def settled(self) -> None:
        """Return when every current need is met, or waits for another party."""
        while self._working:
            await asyncio.gather(*self._working.values(), return_exceptions=True)

    async def stop(self) -> None:
        """Stop the tasks under way; a waiting lane states its needs again after the next start."""
        for handle in self._again:
            handle.cancel()
        tasks = list(self._working.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- automatic compaction ---
    async def _work(self, session_id: str) -> None:
        try:
            for _ in range(ROUNDS):
                shell = await self._lanes.lane(session_id)
                if shell is None or not await self._meet(shell):
                    return
            self._later(session_id)
        except (LedgerError, Problem) as error:
            # The lane is read again on demand, and states its needs again.
            log.warning("a context could not be looked at", session_id=session_id, error=str(error))
            self._later(session_id)

    def _later(self, session_id: str) -> None:
        def again() -> None:
            self._again.discard(handle)
            shell = self._lanes.peek(session_id)
            if shell is not None:
                self.watch(shell.lane)

        handle = asyncio.get_running_loop().call_later(RETRY_S, again)
        self._again.add(handle)

    async def _meet(self, shell: LaneShell) -> bool:
        """Do what the session needs now; False if it needs nothing more."""
        view: ContextView = await shell.call(ContextViewed())
        view = view._replace(wanted=shell.lane.wants_context)
        if not view.due and not view.wanted:
            return False
        session_id = shell.lane.state.session_id
        try:
            read = await self._read(shell, view)
        except (OSError, ValueError) as error:
            sentence = f"its transcript cannot be read: {error}"
            log.error("a context cannot be read", session_id=session_id, error=str(error))  # noqa: TRY400
            lasting = _lasting(error)

            await shell.call(ContextUnreadable(sentence, lasting if view.wanted else None))
            if lasting is not None:
                return True  # What waits behind it is checked at once.
            self._later(session_id)
            return False
        if view.due == "look":
            seen = compaction.ContextSnapshot(view.tip, read.estimated)
            await shell.call(ContextLooked(seen))
        elif view.due:
            cause: Cause = "overflow" if view.due == "overflow" else "threshold"
            await self._compact(shell, view, read, cause)
        else:
            await shell.call(ContextPrepared(read.prepared))
        return True

    async def _compact(self, shell: LaneShell, view: ContextView, read: _Read, cause: Cause) -> None:
        system = {"id": "gateway", "role": "system"}
        keep = min(read.estimated // 2, view.window // 4) if cause == "overflow" else None
        try:
            made = await self._plan(view, read, keep)
            answer = await self._ask_hook(shell.lane, view, read, made, cause)
            if isinstance(answer, CompactionVeto):
                raise NothingToCompact(f"a hook canceled it: {answer.reason}")
        except NothingToCompact as nothing:
            await shell.call(CompactionDropped(str(nothing)))
            return
        request = compaction.CompactionRequest(made, view.tip, cause, system, view.instructions)
        await shell.call(CompactionPlanned(view.due, request, read.prepared, answer.summary if answer else None))

    # --- requested compaction ---
    async def compact(
        self, principal: Principal, shell: LaneShell, instructions: str | None,
        remember: Callable[[compaction.RequestedCompaction], IdempotencyRecord],
    ) -> compaction.RequestedCompaction:
        """Compact a conversation now, as a person requested. Policy is asked once there is something to do. Raises
        Problem."""
        permitted = False
        for _ in range(ROUNDS):
            await self._looked(shell)
            await shell.call(CompactionChecked(instructions))
            view: ContextView = await shell.call(ContextViewed())
            try:
                read = await self._read(shell, view)
            except (OSError, ValueError) as error:
                raise Problem("Unavailable", f"The transcript cannot be read: {error}") from None
            try:
                made = await self._plan(view, read, None)
            except NothingToCompact as nothing:
                raise Problem("Conflict", f"There is nothing to compact: {nothing}") from None
            if not permitted:
                permitted = await shell.call(PolicyAsked(compact_verb(principal, instructions)))
            answer = await self._ask_hook(shell.lane, view._replace(instructions=instructions), read, made, "manual")
            if isinstance(answer, CompactionVeto):
                raise Problem("Conflict", f"A hook canceled the compaction: {answer.reason}")
            request = compaction.CompactionRequest(made, view.tip, "manual", principal.who, instructions)
            input_ = CompactionRequested(request, read.prepared, instructions, answer.summary if answer else None)
            requested: compaction.RequestedCompaction | None = await shell.call(input_, remember)
            if requested is not None:
                return requested
        raise Problem("Conflict", "The conversation keeps changing; compact it when no turn runs")

    async def _looked(self, shell: LaneShell) -> None:
        """Wait while the last turn's context is still being measured, so that a request right after it is not
        refused."""
        working = self._working.get(shell.lane.state.session_id)
        if working is not None and shell.lane.state.context.due == "look":
            await asyncio.wait([working])

    # --- reading and planning ---
    async def _read(self, shell: LaneShell, view: ContextView) -> _Read:
        state = shell.lane.state
        await self._writer.settle(state.session_id, state.tenant_id)
        tree = await self._transcripts.trunk(state.session_id, view.agent_id, state.tenant_id)
        return await asyncio.to_thread(_understood, tree, view.tip)

    async def _plan(self, view: ContextView, read: _Read, keep: int | None) -> CompactionPlan:
        return await asyncio.to_thread(
            plan, read.path, view.settings, view.window, calibration=view.calibration,
            tokens_before=view.calibration.context(read.estimated), keep_tokens=keep)

    async def _ask_hook(self, lane: Lane, view: ContextView, read: _Read, made: CompactionPlan,
                        cause: Cause) -> CompactionVeto | Supply | None:
        if self._hook is None:
            return None
        state = lane.state
        messages = await asyncio.to_thread(_messages, read.path, made)
        return await self._hook.before_compact(BeforeCompact(
            session_id=state.session_id, session_key=state.session_key, tenant_id=state.tenant_id,
            agent_id=state.agent_id, cause=cause, instructions=view.instructions, first_kept=made.first_kept,
            entries=len(made.entry_ids), tokens_before=made.tokens_before, tokens_kept=made.tokens_kept,
            max_summary_tokens=made.max_summary_tokens, previous_summary=made.previous_summary,
            read_files=made.read_files, modified_files=made.modified_files, messages=messages))


def _lasting(error: OSError | ValueError) -> str | None:
    """Return the fault of the file itself, as a sentence that names it; None if the next attempt may succeed."""
    if not isinstance(error, OSError) or error.filename is None or error.errno in PASSING:
        return None
    return f"The transcript {error.filename} cannot be read: {error.strerror}. Put the file right, and send it again."


def _understood(tree: Tree, tip: str | None) -> _Read:
    messages = [ContextMessage(one.id, one.message) for one in identified(tree)]
    path = Path.of_tree(tree)
    return _Read(path, Prepared(tip, messages), estimated_tokens(path))


def _messages(path: Path, made: CompactionPlan) -> list[dict[str, Any]] | None:
    wanted = set(made.entry_ids)
    entries = [path.entry(at) for at, entry_id in enumerate(path.ids) if entry_id in wanted]
    messages = [_plain(entry) for entry in entries]
    return messages if len(msgspec.json.encode(messages)) <= MAX_HOOK_BYTES else None


def _plain(entry: Any) -> dict[str, Any]:
    message = entry.get("message")
    if isinstance(message, dict):
        return {"entry_id": entry.get("id"), **message}
    kept = {name: entry[name] for name in ("content", "summary", "customType") if name in entry}
    return {"entry_id": entry.get("id"), "role": entry.get("type"), **kept}


async def ask_to_compact(
    compactor: Compactor | None, shell: LaneShell, principal: Principal, instructions: str | None,
    remember: Callable[[compaction.RequestedCompaction], IdempotencyRecord],
) -> compaction.RequestedCompaction:
    """Compact on request, in a context of the agent or of the gateway. Returns when the request is durable and visible
    in the session, or its summary is appended (V-2). Raises Problem."""

    input_ = AgentCompaction(principal, instructions, compactor is not None)
    requested: compaction.RequestedCompaction | None = await shell.call(input_, remember)
    if requested is None:
        assert compactor is not None
        requested = await compactor.compact(principal, shell, instructions, remember)
    await _check_effect(shell, requested)
    return requested


async def _check_effect(shell: LaneShell, requested: compaction.RequestedCompaction) -> None:
    """Check that the request is where viewers will read it, before reporting it (V-2). Raises Problem."""
    state = shell.lane.state
    events = await shell.lanes.ledger.events(state.tenant_id, session_stream(state.session_id), requested.n - 1, 1)
    if not any(requested.message_id.encode() in event.body for event in events) and requested.message_id:
        raise Problem("Unavailable", f"The compaction of session {state.session_id} cannot be seen yet")
