"""One session on the runner: receives control frames, drives an agent, writes frames (rawp sections 4 to 6)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from interlock.ports.agent import (
    Agent,
    AgentPrompt,
    AgentStart,
    AgentStartFailed,
    Compacts,
    PromptSettings,
    Settable,
    SettingRefused,
    Started,
    SwitchesMode,
)
from interlock.ports.outbox import PutPolicy
from interlock.protocol import payloads as p
from interlock.protocol.box import Box
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import FRAMES
from interlock.runner.journal import Journal
from interlock.runner.process.programs import ProgramDesk
from interlock.runner.session.agent_start import (
    OpenRefused,
    as_configured,
    back_to_mode,
    capabilities,
    check_access,
    check_files,
    commit_before,
    not_resumed,
    prepare,
    refusal,
)
from interlock.runner.session.prompt_intake import PromptRefused, check_box, files_of, take_plan, take_prompt
from interlock.runner.session.session_context import Surroundings
from interlock.runner.session.uploads import Uploads
from interlock.runner.session_state import SessionState
from interlock.runner.staged.store import Staged
from interlock.runner.staged.turns import StagedTurns
from interlock.runner.turn import endings, turn_pause
from interlock.runner.turn.compaction import compact
from interlock.runner.turn.interactions import Interactions
from interlock.runner.turn.turn import RunnerTurn
from interlock.runner.turn.turn_settings import asks, switches

NOTHING = p.Features(adapter_type="process")
"""Features of an agent that does not run."""

log = structlog.get_logger()


class RunnerSession:
    """A session over all its openings. `control` handles one frame after another; turns run beside it."""

    def __init__(self, around: Surroundings, session_id: str, state: SessionState) -> None:
        self.session_id = session_id
        self.journal = Journal(session_id, state, around.flow, around.clock, around.entropy)
        self._around = around
        self._uploads = Uploads(state, around.objects)
        self._agent: Agent | None = None
        self._started: Started | None = None
        self.starting: asyncio.Task[Started] | None = None
        self.controller = ""
        """The gateway that controls the session, as stored in the outbox (D-5)."""
        self.order = asyncio.Lock()
        """Held while a control frame is handled or control passes: one at a time, for all gateways."""
        self._interactions = Interactions(self.journal, around.presence, around.waits, lambda: self.controller)
        self._reads_by_asking = False
        """Whether the agent may only read its workspace, enforced by denying its requests and not by a wall (H-15)."""
        self._box: Box | None = None
        """The box in which the open agent was started (H-18)."""
        self._commit: str | None = None
        """The commit that was checked out in the workspace before the agent started (J-4)."""
        self._staged: StagedTurns | None = None
        """Staged changes of the agent, if its changes are staged (H-17)."""
        self._turn: RunnerTurn | None = None
        self._programs = ProgramDesk(self.journal, lambda: self._turn)
        self._working: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._acting = asyncio.Lock()
        self._closing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def state(self) -> SessionState:
        """Return the session's stored state."""
        return self.journal.state

    @property
    def busy(self) -> bool:
        """Return whether a turn is accepted or runs (T-1)."""
        return self._working is not None and not self._working.done()

    @property
    def over(self) -> bool:
        """Return whether it is closed and idle: a later opening needs only the outbox."""
        under_way = self.starting is not None or self._acting.locked() or self._closing.locked()
        return self.state.opening == "closed" and self._agent is None and not self.busy and not under_way

    def forget(self) -> None:
        """Disconnect from the runner's signals."""
        self._interactions.close()

    async def rested(self) -> None:
        """Wait for the end of the current turn."""
        if self._working is not None:
            await asyncio.wait([self._working])

    def controlled_by(self, gateway_id: str) -> None:
        """Set the controller, as read from the outbox."""
        self.controller = gateway_id
        self.state.name_first(gateway_id)

    def ask_again(self) -> list[Frame]:
        """Return the frames that void waiting questions and ask the new controller (D-5)."""
        return self._interactions.ask_again()

    async def control(self, frame: Frame) -> None:
        """Handle one stored control frame; return when the next may be handled. An unknown one changes nothing."""
        async with self._acting:
            await self._act(frame)
        if self.state.handled(self.controller) < (frame.seq or 0):
            self._handled(frame)
            await self.journal.keep()

    async def _act(self, frame: Frame) -> None:
        payload = frame.payload
        match payload:
            case p.SessionOpen():
                await self._open(frame, payload)
            case p.PromptRequest():
                await self._prompt(frame, payload)
            case p.FileTransfer():
                if (sentence := self._uploads.take(frame)) is not None:
                    await self._refuse(frame, Code.INVALID_FRAME, sentence)
            case p.TurnCancel():
                await self._cancel(frame, payload)
            case p.TurnPause() | p.TurnResume():
                await self._pause(frame, pause=isinstance(payload, p.TurnPause))
            case p.InteractionResponse() | p.InteractionTimeout() | p.InteractionHeld():
                self._interactions.take(payload)
            case p.SessionClose():
                await self.close(payload.reason)
            case p.SessionError() if payload.fatal:
                await self.close(payload.message)
            case p.ChangesDiscard():
                await self._discard(frame, payload.files)
            case p.SessionCompact() if self._features.context_compaction and isinstance(self._agent, Compacts):
                await self._compact(frame, payload, self._agent)
            case p.ModeSwitch() if switches(self._features) and isinstance(self._agent, SwitchesMode):
                await self._switch_mode(frame, payload.mode, self._agent)
            case p.SessionError() if self._turn is not None:
                self._turn.overflow.refused(frame, payload)
            case p.SessionError() | p.Capabilities() | p.Usage():
                pass
            case _:
                row = FRAMES.get(frame.type)
                feature = ", ".join(sorted(row.features)) if row is not None and row.features else frame.type
                await self._refuse(frame, Code.UNSUPPORTED_CAPABILITY, f"This agent does not offer {feature}.")

    @property
    def _features(self) -> p.Features:
        return self._started.features if self._started is not None else NOTHING

    def _handled(self, frame: Frame) -> None:
        """Mark the frame as answered with the next write: a restart does not answer it again (D-7)."""
        self.state.note_handled(self.controller, frame.seq or 0)

    async def _refuse(self, frame: Frame, code: Code, sentence: str) -> None:
        self._handled(frame)
        self._uploads.discard(files_of(frame.payload))
        await self.journal.write(self.journal.session_error(code, sentence, fatal=False, reply_to=frame.message_id))
        await self._uploads.sweep()

    # --- opening ---
    async def _open(self, frame: Frame, payload: p.SessionOpen) -> None:
        if self._agent is not None and self._started is not None:
            await self._report_capabilities(frame, self._started)
            return
        self.state.begin_opening(payload)
        await self.journal.write(PutPolicy(self.session_id, payload.buffer_policy))
        try:
            agent, opening, staged = prepare(self._around, self.journal, payload, frame.metadata, self._programs)
            await check_files(self._around, opening, payload.trusted_files)
            self._staged = None if staged is None else StagedTurns(self.journal, staged)
            if self._staged is not None:
                await self._staged.open()
            self._commit = await commit_before(self._around, opening)
            started = self._started = await self._start(agent, opening)
        except (OpenRefused, AgentStartFailed, OSError) as error:
            self._handled(frame)
            await self.journal.write(
                refusal(self.journal, payload.agent_id, error, frame.message_id),
                *endings.closed(self.journal, "the agent could not be started", None),
            )
            return
        self._agent = agent
        self._box = opening.box
        self.state.agent_session = started.agent_session or ""
        await self._report_capabilities(frame, started, *not_resumed(self.journal, opening, started))
        self._watching = asyncio.create_task(self._watch(agent))
        self._rest()

    async def _start(self, agent: Agent, opening: AgentStart) -> Started:
        starting = self.starting = asyncio.create_task(agent.open(opening))
        try:
            await asyncio.wait([starting])
        except asyncio.CancelledError:
            starting.cancel()
            await asyncio.wait([starting])
            raise
        finally:
            self.starting = None
        if starting.cancelled():
            raise AgentStartFailed("The runner is stopping.")
        started = as_configured(opening, starting.result())
        try:
            check_access(opening, started, self._around.boxing)
            held = self._around.boxing.holds(opening.spec, opening.workspace_access)
            self._reads_by_asking = opening.workspace_access == "ro" and not held
            await back_to_mode(agent, started, self.state.mode)
        except OpenRefused:
            await agent.close()
            raise
        return started

    async def _report_capabilities(self, frame: Frame, started: Started, *more: Frame) -> None:
        self._handled(frame)
        settings = self._agent.settings if isinstance(self._agent, Settable) else None
        report = capabilities(self.journal, started, frame.message_id, self._box, settings, self._commit)
        idle = self.journal.state_changed("idle") if not self.busy else []
        await self.journal.write(report, *idle, *more)

    # --- turns ---
    async def _prompt(self, frame: Frame, payload: p.PromptRequest) -> None:
        if await self._refused_as_busy(frame):
            return
        agent, started = self._agent, self._started
        if agent is None or started is None:
            await self._refuse(frame, Code.SESSION_NOT_FOUND, "The session is not open on this runner.")
            return
        lands = payload.input_type == "landing"
        if lands and self._staged is None:
            await self._refuse(frame, Code.UNSUPPORTED_CAPABILITY, "Changes of this agent are not staged.")
            return
        try:
            check_box(self._box, payload)
            content, settings = await take_prompt(self._uploads, agent, started.features, payload,
                                                  reads_only=self._reads_by_asking) if not lands else ([],
                                                                                                       PromptSettings())
        except PromptRefused as refused:
            await self._refuse(frame, refused.code, str(refused))
            return
        self._uploads.discard(files_of(payload))
        self._rest(cancel=True)
        prompt = AgentPrompt(payload.prompt_id, self.journal.new_uuid(), content, payload.timeout_ms, settings=settings)
        turn, starting = self._begin_turn(agent, prompt, payload.mode or self.state.mode, lands=lands)
        self._handled(frame)
        written = asyncio.Event()
        self._working = asyncio.create_task(self._work(agent, turn, prompt, starting, written),
                                            name=f"prompt {prompt.prompt_id}")
        self._working.add_done_callback(_report)
        await written.wait()

    def _begin_turn(self, agent: Agent, prompt: AgentPrompt, mode: str | None, *, lands: bool = False
                    ) -> tuple[RunnerTurn, list[Frame]]:
        """Return the turn, and the frames that start it."""
        journal, state = self.journal, self.state
        opened = state.begin_turn(prompt.turn_id, prompt.prompt_id, journal.now_ms, silent=prompt.settings.silent)
        start = p.TurnStart(turn_id=opened.turn_id, turn_index=state.next_turn_index, mode=mode)
        turn = self._turn = RunnerTurn(agent, journal, opened, self._interactions, self._around.timeouts,
                                       single_process=self._features.single_turn_process,
                                       asks=asks(agent, self._features), staged=self._staged, lands=lands)
        return turn, [
            *journal.state_changed("running"),
            journal.frame("session.turn.start", start, {"prompt_id": prompt.prompt_id}),
        ]

    async def _refused_as_busy(self, frame: Frame) -> bool:
        if not self.busy and not self._closing.locked():
            return False
        if not self.busy:
            async with self._closing:
                pass  # A request during a close is refused after the close is reported, and is sent again.
        await self._refuse(frame, Code.PROMPT_IN_PROGRESS, "The session is working on a prompt already, or is closing.")
        return True

    async def _work(self, agent: Agent, turn: RunnerTurn, prompt: AgentPrompt, starting: list[Frame],
                    written: asyncio.Event) -> None:
        # D-7: the start is in the outbox before the agent gets the prompt, so a prompt starts at most once.
        try:
            await self.journal.write(*starting)
        finally:
            written.set()
        await self.journal.durable()
        await self._uploads.sweep()
        over = await turn.run(prompt)
        while not over and turn.goes_on:
            # T-1: between a `tool_use` end and the next start the query is still running; a cancel then counts.
            await turn.may_go_on()
            last, prompt = turn, prompt._replace(turn_id=self.journal.new_uuid(), content=[], continues=True)
            turn, starting = self._begin_turn(agent, prompt, None)
            last.pass_cancel(turn)
            await self.journal.write(*starting)
            over = await turn.run(prompt)
        self._turn = None
        self._interactions.let_go()
        if over:
            await self._forget_agent()
        else:
            self._rest()

    async def _compact(self, frame: Frame, request: p.SessionCompact, agent: Compacts) -> None:
        try:
            request = await take_plan(self._uploads, request)
        except PromptRefused as refused:
            await self._refuse(frame, refused.code, str(refused))
            return
        if self._turn is not None and self._turn.overflow.take(frame, request):
            self._uploads.discard(files_of(frame.payload))
            return
        if await self._refused_as_busy(frame):
            return
        self._uploads.discard(files_of(frame.payload))
        self._rest(cancel=True)
        self._working = asyncio.create_task(compact(agent, self.journal, frame, request), name="compaction")
        self._working.add_done_callback(self._compacted)

    async def _discard(self, frame: Frame, paths: list[str] | None) -> None:
        """Discard staged changes. A running agent would continue from data it has read, so it is closed first."""
        if await self._refused_as_busy(frame):
            return
        turns = StagedTurns(self.journal, Staged(Path(self._around.boxing.staged), self.session_id,
                                                 self.state.workspace))
        if not self._around.boxing.staged or not turns.staged.exists:
            await self._refuse(frame, Code.UNSUPPORTED_CAPABILITY, "Nothing is staged in this session.")
            return
        self._handled(frame)
        await self.close("its staged changes are discarded")
        try:
            await turns.discard(paths)
        except OSError as error:
            await self._refuse(frame, Code.INTERNAL, f"The staged changes could not be discarded: {error.strerror}.")

    async def recover_landing(self, *, in_turn: bool) -> None:
        """Finish a landing that the last run left incomplete, and report staged changes if a turn was running, since
        its end did not (H-17)."""
        if not self._around.boxing.staged or not self.state.workspace:
            return
        staged = Staged(Path(self._around.boxing.staged), self.session_id, self.state.workspace)
        try:
            turns = StagedTurns(self.journal, staged)
            await turns.resume()
            if in_turn:
                await turns.report()
        except OSError as error:
            log.warning("a landing could not be finished", session_id=self.session_id, error=str(error))

    async def _switch_mode(self, frame: Frame, mode: str, agent: SwitchesMode) -> None:
        try:
            await agent.switch_mode(mode)
            self.state.mode = mode
        except SettingRefused as refused:
            await self._refuse(frame, Code.UNSUPPORTED_CAPABILITY, str(refused))

    def _compacted(self, working: asyncio.Task[None]) -> None:
        _report(working)
        self._rest()

    async def _cancel(self, frame: Frame, payload: p.TurnCancel) -> None:
        if "replaces" in frame.metadata:
            # The no-op in place of a prompt that never came (D-7): its files are discarded.
            self._uploads.discard(frame.metadata.get("transfers"))
            await self._uploads.sweep()
            return
        turn = self.state.turn
        if payload.turn_id is not None and (turn is None or turn.turn_id != payload.turn_id):
            await self._refuse(frame, Code.UNKNOWN_TURN, f"The turn {payload.turn_id} is not open.")
        elif self._turn is not None:
            self._turn.cancel(payload.reason)

    async def _pause(self, frame: Frame, *, pause: bool) -> None:
        agent, started = self._agent, self._started
        if agent is None or started is None or not self.busy:
            await self._refuse(frame, Code.UNKNOWN_TURN, "There is no turn to pause or resume.")
            return
        if started.features.pause == "none":
            await self._refuse(frame, Code.UNSUPPORTED_CAPABILITY, "This agent does not offer pause.")
            return
        self._handled(frame)
        if pause:
            await turn_pause.pause(agent, started.features, self.journal, self._interactions)
        else:
            await turn_pause.resume(agent, self.journal, self._interactions)

    # --- ending ---
    async def close(self, reason: str, *, only_idle: bool = False) -> None:
        """End the turn as cancelled, the agent, and this opening (A-4). Does nothing if none is open or, with
        `only_idle`, if a turn has begun meanwhile."""
        async with self._closing:
            if only_idle and self.busy:
                return
            self._rest(cancel=True)
            if self._turn is not None:
                self._turn.cancel(reason, by_runner=True)
            elif self._working is not None:
                self._working.cancel()  # A compaction; its request is answered all the same.
            if self._working is not None:
                await asyncio.wait([self._working])
            agent = self._agent
            if agent is None:
                return
            ended = await agent.close()
            if self._agent is not agent:
                return
            errors = endings.exit_error(self.journal, ended, "", None, expected=True) if ended else []
            await self._end_opening(agent, [*errors, *endings.closed(self.journal, reason, ended)])

    async def stop(self, reason: str) -> None:
        """Close the session because the runner ends: also abort a start in progress."""
        if self.starting is not None:
            self.starting.cancel()
            async with self._acting:
                pass  # The aborted start writes its own frames first.
        await self.close(reason)
        self._interactions.close()

    async def _watch(self, agent: Agent) -> None:
        """Detect an agent that ends by itself (A-2); if it ends in a turn, the turn reports it."""
        ended = await agent.gone()
        if self._working is not None:
            await asyncio.wait([self._working])
        if self._agent is not agent or self._closing.locked():
            return
        stderr = agent.stderr_tail()
        errors = endings.exit_error(self.journal, ended, stderr, None, expected=False)
        await self._end_opening(agent, [*errors, *endings.closed(self.journal, "the agent's process ended", ended)])
        await agent.close()

    async def _end_opening(self, agent: Agent, frames: list[Frame]) -> None:
        if self._agent is agent:
            watching = self._watching
            self._agent = self._started = self._watching = None
            self._rest(cancel=True)
            await self.journal.write(*frames)
            if watching is not None and watching is not asyncio.current_task():
                watching.cancel()

    async def _forget_agent(self) -> None:
        """Forget the agent; the turn's end has reported that the opening is over."""
        if self._watching is not None:
            self._watching.cancel()
        self._agent = self._started = self._watching = None

    def _rest(self, *, cancel: bool = False) -> None:
        """Start or cancel the idle timer of an agent without a turn."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if not cancel and self._agent is not None:
            self._idle = asyncio.get_running_loop().call_later(self._around.timeouts.idle_s, self._close_idle)

    def _close_idle(self) -> None:
        if not self.busy:
            task = asyncio.create_task(self.close("the agent was idle for too long", only_idle=True))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


def _report(working: asyncio.Task[None]) -> None:
    """Log a turn that could not be written to its end: the outbox failed, and the next start recovers it (D-6)."""
    if not working.cancelled() and (error := working.exception()) is not None:
        log.error("a turn could not be finished", exc_info=error)
