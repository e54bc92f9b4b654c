"""A program that supports RAWP-DPS itself, as JSON lines on its standard input and output (A-7)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from typing import Any

import msgspec

from interlock.agents.dps.capabilities import ended, started, with_stderr
from interlock.agents.dps.pipe import Pipe, id_of, sent_id
from interlock.agents.dps.questions import Questions
from interlock.agents.dps.turn_events import DpsTurn, report_refused, request_of
from interlock.agents.process_end import died, ended_silent, lives_on
from interlock.ports.agent import (
    AgentPrompt,
    AgentStart,
    AgentStartFailed,
    CompactionFailed,
    ProcessExit,
    Spent,
    Started,
    TurnOutcome,
    TurnWriter,
)
from interlock.ports.process import LineTooLong, Process, Spawn
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import FRAMES, Class, InvalidFrame, frame_class
from interlock.protocol.limits import CANCEL_GRACE_MS
from interlock.session.transfers import carried
from interlock.session.turn import Refusal, TurnMachine

START_TIMEOUT_S = 60.0
"""Limit from `control.session.open` to `session.capabilities`: an agent that installs itself first is slow."""
COMPACT_TIMEOUT_S = 300.0
"""Limit from `control.session.compact` to `session.compacted`."""
USAGE_GRACE_S = 2.0
"""How long the owed usage is waited for after `session.turn.end`; then the turn's usage is unknown."""
DRAIN_S = 5.0
"""Limit for processing an agent's last output after its end."""


class DpsAgent:
    """One agent process with one session. Its frames are checked by the frame table and by the gateway's turn machine;
    an invalid line is refused, counted and never fatal (E-1, T-4)."""

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn
        self._process: Process | None = None
        self._pipe: Pipe | None = None
        self._opening: AgentStart | None = None
        self._features = p.Features(adapter_type="process")
        self._machine = TurnMachine()
        self._turn: DpsTurn | None = None
        self._awaited = asyncio.Event()
        """Cleared after a turn that ended with `tool_use`, until the runner requests the query's next turn."""
        self._awaited.set()
        self._cancelled = False
        self._paused = False
        self._cost = 0.0
        """The agent's own running total in USD."""
        self._greeted: asyncio.Future[p.Capabilities] | None = None
        self._compacting: tuple[str, asyncio.Future[p.Compacted]] | None = None
        self._broken = False
        """The turn has failed because of the agent's output: it is stopped."""
        self._aside: set[asyncio.Task[None]] = set()
        self._questions: Questions | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._over = asyncio.Event()
        self._silent = False
        """It closed its output and kept running."""
        self._exit = ProcessExit(0, None)

    # --- its start ---
    async def open(self, opening: AgentStart) -> Started:
        """Start the program, send it the open, receive its capabilities. Raises AgentStartFailed."""
        spec = opening.spec
        if not spec.command:
            raise AgentStartFailed("The agent has no command; set `command` in its `[agents.<id>]` section.")
        self._opening = opening
        process = self._process = await self._spawn(
            [spec.command, *spec.args], opening.environment, opening.workspace
        )
        pipe = self._pipe = Pipe(process, opening.session_id)
        self._questions = Questions(pipe)
        greeted = self._greeted = asyncio.get_running_loop().create_future()
        self._tasks = [
            asyncio.create_task(self._read(process, pipe)), asyncio.create_task(self._close_at_exit(process)),
            asyncio.create_task(pipe.write()),
        ]
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                return await self._greet(opening, pipe, greeted)
        except (AgentStartFailed, TimeoutError) as error:
            await self.close()
            sentence = str(error) or f"The agent did not answer control.session.open within {START_TIMEOUT_S:.0f} s."
            raise AgentStartFailed(with_stderr(sentence, self.stderr_tail())) from error
        except BaseException:
            await self.close()
            raise

    async def _greet(self, opening: AgentStart, pipe: Pipe, greeted: asyncio.Future[p.Capabilities]) -> Started:
        wanted = p.SessionOpen(session_id=opening.session_id, agent_id=opening.agent_id, workspace=opening.workspace,
                               workspace_access=opening.workspace_access, resume=opening.resume)
        await pipe.send("control.session.open", wanted)
        over = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait([greeted, over], return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()
        if not greeted.done():
            raise AgentStartFailed(f"The agent ended before it was ready ({ended(self._exit)}).")
        start = started(await greeted, opening)
        self._features = start.features
        if self._questions is not None:
            self._questions.configure(start.features)
        return start

    # --- frames of the agent ---
    async def _read(self, process: Process, pipe: Pipe) -> None:
        lines = process.lines()
        try:
            while True:
                try:
                    await self._take(await anext(lines), pipe)
                except StopAsyncIteration:
                    self._silent = await lives_on(process)
                    return
                except LineTooLong as error:
                    self._overflowed(error, pipe)
        finally:
            self._exit = await process.terminate()
            self._over.set()

    async def _close_at_exit(self, process: Process) -> None:
        """End its descendants, which may hold its output open, so that reading ends."""
        await process.exited()
        await process.terminate()

    async def _take(self, line: bytes, pipe: Pipe) -> None:
        try:
            frame = pipe.read(line)
        except InvalidFrame as error:
            pipe.refuse(id_of(error.wire), error.code, str(error))
            if error.wire is not None and error.wire.type == "session.turn.start":
                self._break(error.code, f"The agent's session.turn.start is not valid: {error}")
            return
        if frame is None:
            return
        try:
            await self._act(frame)
        except InvalidFrame as error:
            self._refuse(frame, error.code, str(error))
        except Refusal as refusal:
            self._refuse(frame, refusal.code, refusal.sentence)

    def _refuse(self, frame: Frame, code: str, sentence: str) -> None:
        """Send the reason; a question that is refused is also answered, since the agent waits for it (A-5)."""
        self._connected().refuse(sent_id(frame), code, sentence)
        if isinstance(frame.payload, p.TurnStart) and code == Code.INVALID_FRAME:
            self._break(code, f"The agent's session.turn.start is not valid: {sentence}")
        if isinstance(frame.payload, p.InteractionRequest) and self._questions is not None:
            self._questions.deny(frame.payload.interaction_id, sentence)

    async def _act(self, frame: Frame) -> None:
        """Handle one frame. Raises InvalidFrame and Refusal."""
        turn, payload = self._turn, frame.payload
        if turn is not None and turn.ended.is_set() and not isinstance(payload, p.Usage):
            turn.settled.set()
        match payload:
            case p.Capabilities():
                self._open_machine(frame, payload)
            case p.TurnStart():
                await self._turn_starts(frame, payload)
            case p.SessionError():
                await self._failed(frame, payload)
            case p.Compacted():
                await self._compacted(frame, payload)
            case p.AgentError():
                await self._relay(frame, turn.relayed_error(payload) if turn is not None
                                  else msgspec.structs.replace(payload, turn_id=None))
            case p.StateChanged(state="paused") if self._paused and self._features.pause == "boundary":
                await self._relay(frame, frame.payload)
            case p.StateChanged() | p.SessionClosed():
                pass  # The runner knows both by itself.
            case _ if frame.type not in FRAMES or isinstance(payload, p.FileTransfer):
                await self._relay(frame, payload)
            case _:
                await self._in_turn(frame, payload)

    def _open_machine(self, frame: Frame, payload: p.Capabilities) -> None:
        self._machine.apply(frame)
        if self._greeted is not None and not self._greeted.done():
            self._greeted.set_result(payload)

    async def _turn_starts(self, frame: Frame, payload: p.TurnStart) -> None:
        await self._awaited.wait()
        turn = self._turn
        prompt_id = frame.metadata.get("prompt_id")
        if turn is None or turn.over.is_set() or turn.prompt.prompt_id != prompt_id:
            raise Refusal(Code.UNKNOWN_TURN, f"metadata.prompt_id {prompt_id!r} names no prompt that waits for a turn")
        self._machine.apply(frame)
        turn.start(payload.turn_id)

    async def _in_turn(self, frame: Frame, payload: Any) -> None:
        self._machine.check(frame)
        turn = self._turn
        if isinstance(payload, p.Usage) and payload.cost_usage.unit == "USD":
            self._cost = payload.cost_usage.used
        if turn is None or self._machine.phase == "idle":
            return  # The machine allows nothing but a quota here, and the gateway counts by itself.
        if isinstance(payload, p.InteractionRequest) and self._questions is not None:
            self._questions.ask(turn, payload, cancelled=self._cancelled)
        else:
            await turn.take(frame)
        if frame_class(frame.type) is Class.DURABLE:
            self._machine.apply(frame)
        if isinstance(payload, p.TurnEnd) and payload.stop_reason == "tool_use" and not self._cancelled:
            self._awaited.clear()
        if isinstance(payload, p.Usage) and turn.ended.is_set():
            turn.settled.set()

    async def _failed(self, frame: Frame, payload: p.SessionError) -> None:
        turn = self._turn
        sentence = payload.message or "The agent gave no reason."
        if self._greeted is not None and not self._greeted.done():
            self._greeted.set_exception(AgentStartFailed(f"The agent refused to start: {sentence}"))
        elif self._compacting is not None and frame.metadata.get("in_reply_to") == self._compacting[0]:
            self._compacting[1].set_exception(CompactionFailed(sentence))
            self._compacting = None
        elif turn is not None and (payload.fatal or turn.refuses(frame)):
            turn.fail(payload.error_code, sentence)
        elif turn is not None:
            await turn.turn_writer.warn(payload.error_code, sentence)
        if payload.fatal and self._process is not None:
            # T-5: a fatal error starts the termination, from either side.
            self._begin(_terminate(self._process))

    async def _compacted(self, frame: Frame, payload: p.Compacted) -> None:
        """Report every compaction (T-6); a requested one answers the request."""
        waiting = self._compacting
        if payload.trigger != "requested":
            await self._relay(frame, payload)
        elif waiting is None:
            raise InvalidFrame("$.payload.trigger", "no control.session.compact waits for an answer")
        else:
            self._compacting = None
            waiting[1].set_result(payload)

    async def _relay(self, frame: Frame, payload: Any) -> None:
        relay = self._opening.relay if self._opening is not None else None
        if relay is not None:
            # An agent must not set metadata that the runner and the gateway read of a known frame.
            metadata = {name: value for name, value in frame.metadata.items()
                        if frame.type not in FRAMES or name == "delegation_chain"}
            await relay(frame.type, payload, metadata)

    def _overflowed(self, error: LineTooLong, pipe: Pipe) -> None:
        pipe.refuse("", Code.FRAME_TOO_LARGE, str(error))
        self._break(Code.FRAME_TOO_LARGE, str(error))

    def _break(self, code: str, sentence: str) -> None:
        self._broken = True
        if self._turn is not None:
            self._turn.fail(code, sentence)

    # --- turns ---
    async def prompt(self, prompt: AgentPrompt, turn_writer: TurnWriter) -> TurnOutcome:
        """Send the prompt, or wait for the next turn of the same query, and forward frames until it is over."""
        pipe = self._connected()
        if not self._features.images and any(block.get("type") == "image" for block in prompt.content):
            return TurnOutcome("error", error=(Code.UNSUPPORTED_CAPABILITY, "The agent does not accept images."))
        refused, self._cancelled, self._broken = pipe.refused, False, False
        turn = self._turn = DpsTurn(prompt, turn_writer, self._cost)
        self._awaited.set()
        try:
            if not prompt.continues:
                body, files = carried(request_of(prompt), lambda: str(uuid.uuid4()))
                for file in files:  # E-5: on this pipe, too.
                    await pipe.send("agent.file.transfer", file)
                turn.sent_as(await pipe.send("control.prompt.request", body))
            if self._paused and self._features.pause == "boundary":
                await self._send("control.turn.pause", p.TurnPause())
            return await self._until_over(turn)
        finally:
            self._turn = None
            self._machine.leave_turn("idle")
            await report_refused(turn_writer, pipe.refused - refused)

    async def _until_over(self, turn: DpsTurn) -> TurnOutcome:
        ends, over = asyncio.create_task(turn.over.wait()), asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait([ends, over], return_when=asyncio.FIRST_COMPLETED)
            if not turn.over.is_set():
                return ended_silent(self._exit) if self._silent and not self._cancelled else died(self._exit)
            if self._broken:
                await self._stop_broken(turn)
            elif turn.ended.is_set():
                await _settled(turn)
            return turn.outcome()
        finally:
            ends.cancel()
            over.cancel()

    async def _stop_broken(self, turn: DpsTurn) -> None:
        """Stop a turn that has failed: the agent must not continue it. An agent that does not react is ended."""
        await self.cancel()
        try:
            async with asyncio.timeout(CANCEL_GRACE_MS / 1000):
                await turn.ended.wait()
        except TimeoutError:
            if self._process is not None:
                await self._process.terminate()

    async def compact(self, request: p.SessionCompact, spent: Spent) -> p.Compacted:
        """Let the agent compact its context; it does not report the usage. Raises CompactionFailed."""
        pipe = self._connected()
        waiting: asyncio.Future[p.Compacted] = asyncio.get_running_loop().create_future()
        self._compacting = (await pipe.send("control.session.compact", request), waiting)
        over = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait([waiting, over], timeout=COMPACT_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return await waiting
            raise CompactionFailed("The agent ended." if self._over.is_set() else
                                   f"The agent did not answer within {COMPACT_TIMEOUT_S:.0f} s.")
        finally:
            over.cancel()
            self._compacting = None

    async def switch_mode(self, mode: str) -> None:
        """Send it this mode."""
        await self._send("control.mode.switch", p.ModeSwitch(mode=mode))

    async def cancel(self) -> None:
        """Send `control.turn.cancel`; from now on every permission of this prompt is denied."""
        turn = self._turn
        if turn is not None and not self._cancelled:
            self._cancelled = True
            cancel = p.TurnCancel(reason="cancelled", turn_id=turn.agents_turn_id)
            # An agent that does not read would block us at a full pipe; the runner's grace ends that.
            self._begin(self._send("control.turn.cancel", cancel))

    async def _send(self, kind: str, payload: p.Payload) -> None:
        await self._connected().send(kind, payload)

    # --- its process ---
    async def pause(self) -> None:
        """Pause the agent at its next boundary, or stop the process tree (C-6)."""
        self._paused = True
        if self._features.pause == "boundary":
            if self._turn is not None:  # Before its prompt it would have no effect.
                await self._send("control.turn.pause", p.TurnPause())
        elif self._process is not None:
            self._process.pause()

    async def resume(self) -> None:
        """Resume it."""
        paused, self._paused = self._paused, False
        if paused and self._features.pause == "boundary":
            await self._send("control.turn.resume", p.TurnResume())
        elif self._process is not None:
            self._process.resume()

    async def close(self) -> ProcessExit | None:
        """End it and all its descendants (A-4)."""
        if self._process is None:
            return None
        self._awaited.set()
        how = await self._process.terminate()
        # Its last output may wait for an outbox that is full: that wait is bounded.
        if self._tasks:
            await asyncio.wait(self._tasks[:2], timeout=DRAIN_S)
        for task in [*self._tasks, *self._aside]:
            task.cancel()
        if self._questions is not None:
            await self._questions.close()
        await asyncio.gather(*self._tasks, *self._aside, return_exceptions=True)
        self._exit = how
        return how

    async def gone(self) -> ProcessExit:
        """Wait until the process and its output have ended."""
        await self._over.wait()
        return self._exit

    def stderr_tail(self) -> str:
        """Return the last lines of standard error (A-8)."""
        return self._process.stderr_tail() if self._process is not None else ""

    def _begin(self, doing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(doing)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    def _connected(self) -> Pipe:
        assert self._pipe is not None, "open comes first"
        return self._pipe


async def _settled(turn: DpsTurn) -> None:
    try:
        async with asyncio.timeout(USAGE_GRACE_S):
            await turn.settled.wait()
    except TimeoutError:
        return


async def _terminate(process: Process) -> None:
    await process.terminate()
