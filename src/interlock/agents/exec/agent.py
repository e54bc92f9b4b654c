"""Any command-line program: one process per turn, its standard output as text, no questions (A-3, A-7, A-10)."""

from __future__ import annotations

import asyncio
import codecs

from interlock.agents.exec.codex_servers import server_words
from interlock.ports.agent import (
    AgentPrompt,
    AgentStart,
    AgentStartFailed,
    ProcessExit,
    Started,
    TurnOutcome,
    TurnWriter,
)
from interlock.ports.process import Process, Spawn
from interlock.protocol.codes import Code
from interlock.protocol.limits import KIB
from interlock.protocol.payloads import Features

PLACEHOLDER = "{prompt}"
"""Placeholder of the prompt in the configured arguments; without one the prompt is the last argument."""
MAX_ARGUMENT_BYTES = 96 * KIB
"""A longer prompt goes to standard input: the kernel allows 128 KiB in one argument."""
DRAIN_S = 5.0
"""Limit for processing a program's last output after its end."""


class ExecAgent:
    """One configured program. Between two prompts no process of it runs."""

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn
        self._opening: AgentStart | None = None
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[ProcessExit] | None = None
        self._cancelled = False
        self._last_stderr = ""
        self._server_words: list[str] = []
        self._server_variables: dict[str, str] = {}

    async def open(self, opening: AgentStart) -> Started:
        """Check the command; nothing starts before a prompt (A-3). Raises AgentStartFailed without a command, or for an
        MCP server that it does not support."""
        if not opening.spec.command:
            raise AgentStartFailed("The agent has no command; set `command` in its `[agents.<id>]` section.")
        self._opening = opening
        self._server_words, self._server_variables = server_words(opening.servers, opening.environment)
        features = Features(adapter_type="process", pause="signal", single_turn_process=True)
        return Started(features, opening.spec.name or opening.agent_id)

    async def prompt(self, prompt: AgentPrompt, turn_writer: TurnWriter) -> TurnOutcome:
        """Run the program once. Its exit code is the turn's: 0 completes it, for others see A-2."""
        opening = self._opening
        assert opening is not None, "open comes first"
        if any(block.get("type") != "text" for block in prompt.content):
            return TurnOutcome("error", error=(Code.UNSUPPORTED_CAPABILITY, "The agent accepts only text."))
        self._cancelled = False
        text = "\n".join(str(block.get("text", "")) for block in prompt.content)
        arguments, on_input = command_line(opening.spec.args, text)
        try:
            process = self._process = await self._spawn(
                [opening.spec.command, *self._server_words, *arguments],
                {**opening.environment, **self._server_variables}, opening.workspace
            )
        except AgentStartFailed as error:
            return TurnOutcome("error", error=(Code.AGENT_START_FAILED, str(error)))
        if self._cancelled:
            self._terminate(process)
        return self._outcome(await self._run(process, turn_writer, on_input))

    async def _run(self, process: Process, turn_writer: TurnWriter, on_input: str) -> ProcessExit:
        reading = self._reading = asyncio.create_task(_forward(process, turn_writer))
        writing = asyncio.create_task(_feed(process, on_input))
        try:
            ended = await process.exited()
            # Its children could hold its output open for ever: the turn ends with the program.
            await process.terminate()
            await asyncio.wait([reading])
            return ended
        finally:
            await self._settle(process, reading, writing)

    async def _settle(self, process: Process, *tasks: asyncio.Task[None]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await process.terminate()
        self._last_stderr = process.stderr_tail()
        self._process = self._reading = None

    def _outcome(self, ended: ProcessExit) -> TurnOutcome:
        if self._cancelled:
            return TurnOutcome("cancelled", exit_code=ended.code, stopped=ended)
        if ended.code == 0:
            return TurnOutcome("end_turn", exit_code=0)
        return TurnOutcome("error", exit_code=ended.code, process=ended)

    async def cancel(self) -> None:
        """End the program, which has no other cancel: SIGTERM, then SIGKILL after the grace (A-4)."""
        self._cancelled = True
        if self._process is not None:
            self._terminate(self._process)

    def _terminate(self, process: Process) -> None:
        if self._ending is None or self._ending.done():
            self._ending = asyncio.create_task(process.terminate())

    async def pause(self) -> None:
        """Stop the process tree (C-6)."""
        if self._process is not None:
            self._process.pause()

    async def resume(self) -> None:
        """Resume the process tree."""
        if self._process is not None:
            self._process.resume()

    async def close(self) -> ProcessExit | None:
        """End the running program and all its descendants; return None if none ran."""
        process, reading = self._process, self._reading
        if process is None:
            return None
        self._cancelled = True
        ended = await process.terminate()
        if reading is not None:
            await asyncio.wait([reading], timeout=DRAIN_S)
            reading.cancel()
        return ended

    async def gone(self) -> ProcessExit:
        """Never return: a program's end is its turn's end, which `prompt` reports."""
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nothing sets that future")

    def stderr_tail(self) -> str:
        """Return the last lines of standard error of the running, or the last, program (A-8)."""
        return self._process.stderr_tail() if self._process is not None else self._last_stderr


def command_line(configured: list[str], prompt: str) -> tuple[list[str], str]:
    """Return the arguments and the standard input for a prompt: at its placeholder, as the last argument, or on the
    input if it is too long for an argument or contains a NUL. An argument that the prompt begins is never an option."""
    fits = len(prompt.encode()) <= MAX_ARGUMENT_BYTES and "\0" not in prompt
    if not fits:
        return [argument.replace(PLACEHOLDER, "") for argument in configured if argument != PLACEHOLDER], prompt
    if not any(PLACEHOLDER in argument for argument in configured):
        configured = [*configured, PLACEHOLDER]
    return [argument.replace(PLACEHOLDER, _text(prompt) if argument.startswith(PLACEHOLDER) else prompt)
            for argument in configured], ""


def _text(prompt: str) -> str:
    """Return a prompt as an argument that no program reads as an option: a leading hyphen gets a space before it.

    `--` would leave the text as it is, but not every program supports it, and a wrapper (`npx --`, `sh -c … --`)
    consumes it.
    """
    return f" {prompt}" if prompt.startswith("-") else prompt


async def _forward(process: Process, turn_writer: TurnWriter) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    async for chunk in process.chunks():
        await turn_writer.text(decoder.decode(chunk))
    await turn_writer.text(decoder.decode(b"", final=True))


async def _feed(process: Process, text: str) -> None:
    try:
        if text:
            await process.write(text.encode())
    except BrokenPipeError:
        return
    finally:
        process.close_input()
