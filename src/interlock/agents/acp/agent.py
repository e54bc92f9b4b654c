"""Drives any Agent Client Protocol agent over stdio (A-7). Offers it neither files nor terminals."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any

import msgspec

import interlock
from interlock.agents.acp import wire
from interlock.agents.acp.choices import Choices
from interlock.agents.acp.content import block_of
from interlock.agents.acp.controls import Controls
from interlock.agents.acp.denied_calls import DeniedCalls, reads_denials
from interlock.agents.acp.inquiries import CANCELLED, Inquiry
from interlock.agents.acp.modes import ModeTable, asking_of, merged
from interlock.agents.acp.open_requests import OpenRequests
from interlock.agents.acp.outcome import AFTER_NO, EMPTY_TURN, answered, failed
from interlock.agents.acp.readers import reader_of
from interlock.agents.acp.updates import AcpUpdates
from interlock.agents.acp.usage import Tokens
from interlock.agents.process_end import died, ended_silent, lives_on
from interlock.agents.workspace_files import ignoring_meta
from interlock.jsonrpc import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    PeerLost,
    Rpc,
    RpcError,
    RpcRequest,
)
from interlock.ports.agent import (
    AgentPrompt,
    AgentStart,
    AgentStartFailed,
    ProcessExit,
    PromptSettings,
    Started,
    TurnOutcome,
    TurnWriter,
)
from interlock.ports.process import Process, Spawn
from interlock.protocol.codes import Code
from interlock.protocol.limits import CANCEL_GRACE_MS
from interlock.protocol.payloads import AgentSettings, Features

START_TIMEOUT_S = 60.0
"""Limit of `initialize` and `session/new` together: an agent that installs itself on its first start is slow."""
MAX_OPEN_QUESTIONS = 64
"""Simultaneous permission requests; one more is denied."""
DRAIN_S = 5.0
"""Limit for processing an agent's last output after its end."""
STDERR_SHOWN_CHARS = 2_000
_NO_ANSWER: dict[str, dict[str, Any]] = {"session/request_permission": CANCELLED,
                                         "elicitation/create": {"action": "cancel"}}
"""Requests that an agent may make of its user, and the answer to one that is not put to a person."""


class AcpAgent:
    """One agent process with one ACP session."""

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn
        self._process: Process | None = None
        self._rpc: Rpc | None = None
        self._updates: AcpUpdates | None = None
        self._acp_session = ""
        self._controls: Controls | None = None
        self._tokens = Tokens("")
        self._features = Features(adapter_type="process")
        self._cancelled = False
        self._denied = False
        self._denied_calls = DeniedCalls()
        """Whether a permission of this prompt was denied."""
        self._ended = False
        """The started program has ended; processes that it left may still write."""
        self._silent = False
        """It closed its output and kept running."""
        self._prompting = False
        self._aside: set[asyncio.Task[None]] = set()
        self._asking = OpenRequests()
        self._tasks: list[asyncio.Task[None]] = []
        self._over = asyncio.Event()
        self._exit = ProcessExit(0, None)
        self._malformed = 0
        self._unasked = 0
        """Requests of this turn that were denied because too many were waiting."""

    # --- its start ---
    async def open(self, opening: AgentStart) -> Started:
        """Start the program, initialize it, open a session in the workspace. Raises AgentStartFailed."""
        spec = opening.spec
        process = self._process = await self._spawn(
            [spec.command, *spec.args], opening.environment, opening.workspace
        )
        rpc = self._rpc = Rpc(process, self._notified, self._asked)
        self._tasks = [asyncio.create_task(self._read(process, rpc)), asyncio.create_task(self._close_at_exit(process))]
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                return await self._greet(opening)
        except BaseException as error:
            await self.close()
            sentence = self._why(error)
            if sentence is None:
                raise
            raise AgentStartFailed(sentence) from error

    async def _greet(self, opening: AgentStart) -> Started:
        rpc = self._connected()
        hello: dict[str, Any] = {
            "protocolVersion": wire.PROTOCOL_VERSION,
            "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False,
                                   "elicitation": {"form": {}}},
            "clientInfo": {"name": "interlock", "version": interlock.__version__},
        }
        initialized = wire.INITIALIZED.decode(await rpc.request("initialize", hello))
        if initialized.protocol_version != wire.PROTOCOL_VERSION:
            raise AgentStartFailed(
                f"The agent supports version {initialized.protocol_version} of the Agent Client Protocol, Interlock "
                f"supports version "
                f"{wire.PROTOCOL_VERSION}; update the older of the two."
            )
        _check_servers(opening, initialized.agent_capabilities)
        info = initialized.agent_info or wire.Implementation()
        asking = asking_of(info.name, opening.environment, opening.spec.asking_modes)
        where = _where(opening, asking)
        loaded, why = (await self._load(opening, initialized.agent_capabilities, where) if opening.resume
                       else (None, None))
        resumed = loaded is not None
        if loaded is None:
            loaded = wire.NEW_SESSION.decode(await rpc.request("session/new", where))
            self._acp_session = loaded.session_id
        choices = Choices(loaded, opening.spec.modes, asking)
        self._tokens = Tokens(info.name)
        self._denied_calls = DeniedCalls(reads_denials(initialized.agent_capabilities))
        self._updates = AcpUpdates(self._acp_session, choices, self._tokens, reader_of(info), opening.workspace)
        controls = self._controls = Controls(choices, rpc, self._acp_session, opening)
        await controls.open()
        self._features = _features(initialized.agent_capabilities, controls)
        return Started(
            self._features, opening.spec.name or info.title or info.name or opening.agent_id, info.version,
            choices.model, agent_session=self._acp_session, resumed=resumed, fresh_because=why, mode=choices.mode,
        )

    async def _load(self, opening: AgentStart, offered: wire.AgentCapabilities, where: Mapping[str, Any]
                    ) -> tuple[wire.LoadedSession | None, str | None]:
        """Load the conversation of an earlier opening; the agent's replay of it is ignored. Return the session, or None
        and the agent's message if it cannot resume."""
        method = _resuming(offered)
        if method is None or opening.agent_session is None:
            return None, None
        parameters = {"sessionId": opening.agent_session, **where}
        try:
            loaded = wire.LOADED_SESSION.decode(await self._connected().request(method, parameters))
        except RpcError as error:
            return None, str(error)
        self._acp_session = opening.agent_session
        return loaded or wire.LoadedSession(), None

    # --- settings ---
    @property
    def asks(self) -> bool:
        """Return whether the agent asks before its tools, with its current settings (H-11)."""
        return self._controls is not None and self._controls.asks

    @property
    def settings(self) -> AgentSettings:
        """Return the settings that can be chosen, and their current values (J-14)."""
        assert self._controls is not None, "open comes first"
        return self._controls.choices.settings

    async def switch_mode(self, mode: str) -> None:
        """Switch to this mode until further notice (A-6). Raises SettingRefused."""
        assert self._controls is not None, "open comes first"
        await self._controls.switch(mode)

    async def settle(self, settings: PromptSettings) -> None:
        """Apply the settings of the next prompt. Raises SettingRefused."""
        assert self._controls is not None, "open comes first"
        await self._controls.settle(settings)

    def _why(self, error: BaseException) -> str | None:
        """Return the sentence for a start that failed; None if the agent is not the cause."""
        match error:
            case AgentStartFailed():
                sentence = str(error)
            case RpcError():
                sentence = f"The agent refused to start a session: {error}"
            case TimeoutError():
                sentence = f"The agent did not answer within {START_TIMEOUT_S:.0f} s."
            case PeerLost():
                sentence = f"The agent ended before it was ready ({_ended(self._exit)})."
            case msgspec.MsgspecError():
                sentence = f"The agent's answer is not a message of the Agent Client Protocol: {error}."
            case _:
                return None
        # An error that the agent itself explains needs no log after it.
        explained = isinstance(error, AgentStartFailed) or (isinstance(error, RpcError) and error.explained)
        shown = "" if explained else self.stderr_tail().strip()[-STDERR_SHOWN_CHARS:]
        return f"{sentence}\n{shown}" if shown else sentence

    # --- messages of the agent ---
    async def _read(self, process: Process, rpc: Rpc) -> None:
        try:
            await rpc.run()
            self._silent = await lives_on(process)
        finally:
            self._exit = await process.terminate()
            self._over.set()

    async def _close_at_exit(self, process: Process) -> None:
        """End its descendants, which may hold its output open, so that reading ends."""
        await process.exited()
        self._ended = True
        await process.terminate()

    async def _notified(self, method: str, params: bytes) -> None:
        try:
            if method == "$/cancel_request":
                self._give_up(wire.CANCEL_REQUEST.decode(params).request_id)
            elif method == "session/update" and self._updates is not None:
                await self._updates.take(params)
                if self._controls is not None:
                    await self._controls.report()
        except msgspec.MsgspecError:
            self._malformed += 1

    def _give_up(self, request_id: int | str | float) -> None:
        """Cancel a permission request that the agent no longer waits for: a later yes must not look as if it took
        effect (A-5).
        """
        found = self._asking.take(request_id)
        if found is not None:
            found.task.cancel()
            self._begin(self._connected().refuse(found.request, REQUEST_CANCELLED, "The request was cancelled."))

    async def _asked(self, request: RpcRequest) -> None:
        rpc = self._connected()
        if self._asking.refuses(request.request_id):
            await self._deny_repeated(request)
            return
        none = _NO_ANSWER.get(request.method)
        if none is None:
            await rpc.refuse(request, METHOD_NOT_FOUND, f"Interlock does not offer {request.method}.")
            return
        if self._updates is None or self._cancelled or len(self._aside) >= MAX_OPEN_QUESTIONS:
            self._unasked += self._prompting and not self._cancelled
            await rpc.answer(request, none)
            return
        try:
            found = await self._updates.inquiry(request.method, request.params)
        except msgspec.MsgspecError:
            self._malformed += 1
            found = None
        if found is None:
            await rpc.answer(request, none)
            return
        # A person's answer takes time: the agent's other messages must be read meanwhile.
        self._asking.add(request, self._begin(self._answer(request, found)))

    async def _deny_repeated(self, request: RpcRequest) -> None:
        """Deny a request with the id of another one, past or waiting; deny that one as well if it still waits."""
        sentence = f"The id {request.request_id!r} was used for two requests at once, so both were denied."
        found = self._asking.take(request.request_id)
        if found is not None:
            found.task.cancel()
            if self._updates is not None:
                await self._updates.warn(Code.INVALID_FRAME, sentence)
            await self._connected().refuse(found.request, INVALID_REQUEST, sentence)
        await self._connected().refuse(request, INVALID_REQUEST, sentence)

    def _begin(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(doing)
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)
        return task

    async def _answer(self, request: RpcRequest, inquiry: Inquiry) -> None:
        reply = await inquiry.reply()
        self._asking.take(request.request_id)  # The agent may use the id again as soon as it reads the answer.
        self._denied = self._denied or reply.denied
        if reply.why is not None and not self._cancelled:
            self._denied_calls.add(reply.call, reply.why)
        await self._connected().answer(request, reply.result)

    # --- turns ---
    async def prompt(self, prompt: AgentPrompt, turn_writer: TurnWriter) -> TurnOutcome:
        """Send the prompt, and forward updates until it is answered or the agent is gone."""
        rpc, updates = self._connected(), self._updates
        assert updates is not None, "open comes first"
        content = self._denied_calls.appended([block_of(block) for block in prompt.content])
        garbage, self._cancelled, self._prompting = rpc.garbage + self._malformed, False, True
        self._denied, self._unasked = False, 0
        updates.begin(turn_writer)
        try:
            return await self._ask_agent(rpc, updates, {"sessionId": self._acp_session, "prompt": content})
        finally:
            self._prompting = False
            updates.end()
            unread = rpc.garbage + self._malformed - garbage
            if unread:
                lines = "line" if unread == 1 else "lines"
                await turn_writer.warn(Code.INVALID_FRAME,
                                       f"The agent wrote {unread} {lines} that Interlock could not read.")
            if self._unasked:
                await turn_writer.warn(
                    Code.UNSUPPORTED_CAPABILITY, f"The agent asked for more than {MAX_OPEN_QUESTIONS} permissions at "
                    f"once, so {self._unasked} were denied.")

    async def _ask_agent(self, rpc: Rpc, updates: AcpUpdates, params: dict[str, Any]) -> TurnOutcome:
        rpc.watch_size()
        # Some agents send updates after the answer: they belong to no turn.
        asking = asyncio.create_task(rpc.request("session/prompt", params, updates.end))
        overflow = asyncio.create_task(rpc.overflowed.wait())
        try:
            await asyncio.wait([asking, overflow], return_when=asyncio.FIRST_COMPLETED)
            if rpc.too_long is not None:
                await self._stop_after_overflow(asking)
                return TurnOutcome("error", error=(Code.FRAME_TOO_LARGE, str(rpc.too_long)))
            result = wire.PROMPTED.decode(await asking)
            outcome = answered(result, self._tokens.result(result))
            if outcome.stop_reason == "end_turn" and outcome.notice is None and not updates.spoke:
                return outcome._replace(notice=EMPTY_TURN)
            unasked = outcome.stop_reason == "cancelled" and not self._cancelled
            return await self._stopped(outcome) if unasked else outcome
        except RpcError as error:
            if self._cancelled:
                return TurnOutcome("cancelled")
            return died(await self.gone()) if self._ended else failed(error)
        except PeerLost:
            ended = await self.gone()
            return ended_silent(ended) if self._silent and not self._cancelled else died(ended)
        except msgspec.MsgspecError as error:
            return TurnOutcome("error", error=(Code.INTERNAL, f"The agent's answer cannot be read: {error}."))
        finally:
            overflow.cancel()
            asking.cancel()

    async def _stopped(self, outcome: TurnOutcome) -> TurnOutcome:
        """Return the outcome of a turn that ended as `cancelled` without a cancel."""
        if self._ended:
            # A launcher was killed, and its child answered the signal with which we ended it.
            return died(await self.gone())
        return outcome._replace(stop_reason="end_turn", notice=AFTER_NO) if self._denied else outcome

    async def _stop_after_overflow(self, asking: asyncio.Task[bytes]) -> None:
        """Stop a turn that has failed: the agent must not continue it. An agent that does not react is ended."""
        await self.cancel()
        await asyncio.wait([asking], timeout=CANCEL_GRACE_MS / 1000)
        if not asking.done() and self._process is not None:
            await self._process.terminate()

    async def cancel(self) -> None:
        """Send ACP's `session/cancel`; from now on every permission of this prompt is denied."""
        if self._prompting and not self._cancelled and self._updates is not None:
            self._cancelled = True
            self._updates.cancel()
            # An agent that does not read would block us at a full pipe; the runner's grace ends that.
            self._begin(self._connected().notify("session/cancel", {"sessionId": self._acp_session}))

    # --- process ---
    async def pause(self) -> None:
        """Stop the process tree (C-6)."""
        if self._process is not None:
            self._process.pause()

    async def resume(self) -> None:
        """Resume the process tree."""
        if self._process is not None:
            self._process.resume()

    async def close(self) -> ProcessExit | None:
        """End it and all its descendants (A-4)."""
        if self._process is None:
            return None
        ended = await self._process.terminate()
        # Its last output may wait for an outbox that is full: that wait is bounded.
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=DRAIN_S)
        for task in [*self._tasks, *self._aside]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._aside, return_exceptions=True)
        self._exit = ended
        return ended

    async def gone(self) -> ProcessExit:
        """Wait until the process and its output have ended."""
        await self._over.wait()
        return self._exit

    def stderr_tail(self) -> str:
        """Return the last lines of standard error (A-8)."""
        return self._process.stderr_tail() if self._process is not None else ""

    def _connected(self) -> Rpc:
        assert self._rpc is not None, "open comes first"
        return self._rpc


def _features(offered: wire.AgentCapabilities, controls: Controls) -> Features:
    choices, asks = controls.choices, controls.choices.not_asking is None
    return Features(
        adapter_type="process", permission="asks" if asks else "never", pause="signal", thinking=True,
        images=offered.prompt_capabilities.image, audio=offered.prompt_capabilities.audio,
        files=offered.prompt_capabilities.embedded_context, resume_session=_resuming(offered) is not None,
        plan_mode=choices.plans, modes=choices.modes, model_switch=choices.offers("model"),
        prompt_options=choices.offers("thinking"), read_only=asks,
    )


def _resuming(offered: wire.AgentCapabilities) -> str | None:
    """Return the method that resumes a conversation, if the agent has one."""
    if offered.session_capabilities.resume is not None:
        return "session/resume"
    return "session/load" if offered.load_session else None


def _check_servers(opening: AgentStart, offered: wire.AgentCapabilities) -> None:
    """Raise AgentStartFailed for an MCP server that this agent cannot use: omitting it would be noticed only later."""
    far = [one.name for one in opening.servers if one.url]
    if far and not offered.mcp_capabilities.http:
        raise AgentStartFailed(f"The agent does not support MCP servers over HTTP (mcpCapabilities.http), but [agents."
                               f"{opening.agent_id}.mcp] lists {', '.join(far)}; remove it, or name a program.")


def _where(opening: AgentStart, asking: ModeTable) -> dict[str, Any]:
    """Return the directory of a conversation; for an agent that accepts them from its client, with settings that make
    it ignore those in the directory (H-13) and ask about more."""
    meta = merged(ignoring_meta(opening.spec), asking.meta)
    return {"cwd": opening.workspace, "mcpServers": wire.mcp_servers(opening.servers),
            **({"_meta": meta} if meta else {})}


def _ended(ended: ProcessExit) -> str:
    return f"exit code {ended.code}" if ended.signal is None else f"signal {ended.signal}"
