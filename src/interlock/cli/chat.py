"""`interlock chat`: a conversation at the terminal, by the same door as every other chat's (R-4, V-1)."""

from __future__ import annotations

import asyncio
import getpass
import sys
from contextlib import suppress
from typing import Annotated, Any

from cyclopts import Parameter

from interlock.cli.asking import Answering, Answers, Asker, TerminalAnswers
from interlock.cli.cursors import Cursors, Place
from interlock.cli.exit_status import Exit
from interlock.cli.following import Follower
from interlock.cli.gateway_link import GatewayLink, decoded
from interlock.cli.outcome import close_line, exit_of
from interlock.cli.place import NOWHERE, Here, Where
from interlock.cli.run import canonical, entry_of
from interlock.cli.screen import Screen
from interlock.cli.seen_approvals import SeenApprovals
from interlock.cli.terminal import is_terminal, printable, result, say, write
from interlock.cli.trouble import Trouble, usage
from interlock.protocol.identifiers import AGENT_ID
from interlock.protocol.inbound import Received
from interlock.protocol.resources import Command
from interlock.session.entry import verbosity

CHANNEL = "terminal"
MAX_WAITING = 100
"""Lines that may wait to be sent, and commands that may wait to be shown."""
BYE = ("/quit", "/exit")
HELP = "/new [MODEL] begins anew · /status · /stop · /compact [WHAT TO KEEP] · /quit leaves, what runs goes on"


def chat(
    agent: Annotated[str | None, Parameter(name="AGENT", help="The agent; else who answers in your chats.")] = None,
    /,
    *,
    session: Annotated[str | None, Parameter(help="Talk in the session of this key, such as main.")] = None,
    no_input: Annotated[bool, Parameter(help="Answer no approvals here.")] = False, where: Here = NOWHERE,
) -> int:
    """Talk with an agent: a line is a message, and what needs a yes is asked here.

    `/new`, `/reset`, `/status`, `/stop` and `/compact` are for the gateway; all else is for the agent. What you type
    while it works is sent at once, and waits its turn there.
    """
    if agent is not None and not AGENT_ID.fullmatch(agent):
        raise usage(f"{agent!r} is not an agent's id.", "List the agents with: interlock agents")
    key = canonical(session or "main", agent or "shell") if agent is not None else session
    try:
        return asyncio.run(_Talk(where, key, "elsewhere" if no_input else "ask").run())
    except KeyboardInterrupt:
        say("\nwhat runs goes on; see it with: interlock attach @last")
        return Exit.INTERRUPTED


class Lines(Answers):
    """One reader of what is typed, for two: who asks for an answer is given the next line, else it is a message."""

    def __init__(self, source: Answers) -> None:
        self._source = source
        self._asked: asyncio.Future[str | None] | None = None
        self.said: asyncio.Queue[str | None] = asyncio.Queue(MAX_WAITING)
        self.over = False

    async def line(self) -> str | None:
        """Wait for an answer."""
        if self.over:
            return None
        self._asked = asyncio.get_running_loop().create_future()
        try:
            return await self._asked
        finally:
            self._asked = None

    async def read(self) -> None:
        """Read until no more will come."""
        while not self.over:
            line = await self._source.line()
            self.over = line is None
            if self._asked is not None and not self._asked.done():
                self._asked.set_result(line)
                if line is not None:
                    continue
            await self.said.put(line)


class PipedLines(Answers):
    """Lines of a pipe or file."""

    async def line(self) -> str | None:
        """Read the next line; nobody waits at a terminal."""
        line = await asyncio.to_thread(sys.stdin.readline)
        return line.rstrip("\r\n") if line else None


class _Talk:
    """A conversation from its first line to its end."""

    def __init__(self, where: Where, key: str | None, how: Answering) -> None:
        self._where = where
        self._key = key
        self._is_person = is_terminal(sys.stdin)
        self._how: Answering = how if self._is_person else "elsewhere"
        self._lines = Lines(TerminalAnswers(sys.stdin.fileno()) if self._is_person else PipedLines())
        self._cursors = Cursors(where.directory())
        self._commands: asyncio.Queue[str | None] = asyncio.Queue(MAX_WAITING)
        self._status: int = Exit.DONE

    async def run(self) -> int:
        """Talk until the person leaves; piped in, until the last command has ended, whose exit status it is."""
        async with GatewayLink(self._where) as link:
            if self._is_person:
                say(HELP, "dim")
            reading = asyncio.create_task(self._lines.read())
            showing = asyncio.create_task(self._show_all(link))
            try:
                await self._hear(link, showing)
                if not self._is_person:
                    await self._commands.put(None)
                    await showing
            finally:
                for task in (reading, showing):
                    task.cancel()
                await asyncio.gather(reading, showing, return_exceptions=True)
        return self._status

    async def _hear(self, link: GatewayLink, showing: asyncio.Task[None]) -> None:
        self._prompt()
        while True:
            hearing = asyncio.create_task(self._lines.said.get())
            await asyncio.wait([hearing, showing], return_when=asyncio.FIRST_COMPLETED)
            if not hearing.done():
                hearing.cancel()
                showing.result()  # It ends by itself only where it failed.
                return
            line = hearing.result()
            if line is None or line.strip().lower() in BYE:
                return
            if line.strip():
                await self._send(link, line)
            self._prompt()

    def _prompt(self) -> None:
        if self._is_person and self._commands.empty():
            write(sys.stderr, "> ", safe=True)

    async def _send(self, link: GatewayLink, text: str) -> None:
        # Without a message_id: the request's own key is what makes it count once.
        body: dict[str, Any] = {"channel": CHANNEL, "chat_type": "direct", "sender": _who(), "text": text}
        if self._key is not None:
            body["session_key"] = self._key
        try:
            told = decoded(await link.send("/v1/inbound", body), Received, "/v1/inbound")
        except Trouble as trouble:
            if not self._is_person or trouble.code == "Unreachable":
                raise
            say(trouble.line(), "red", trouble.label)
            return
        if told.reply is not None:
            result(printable(told.reply))
        elif told.denied:
            say("sendPolicy keeps silent here: it is in the transcript, and nothing answers")
        elif told.reset is not None:
            say(f"a new session begins: {told.session_id}", "dim")
        if told.command_id is not None:
            await self._commands.put(told.command_id)

    async def _show_all(self, link: GatewayLink) -> None:
        """Show commands one after another, as their session runs them."""
        while (command_id := await self._commands.get()) is not None:
            command = await link.read(f"/v1/commands/{command_id}", Command)
            detail = verbosity((await entry_of(link, command)).get("verboseLevel"), "on")
            screen = Screen(command.target.agent_id or "", detail=detail)
            asker = Asker(link, self._how, self._lines if self._is_person else None,
                          SeenApprovals(self._where.directory()))
            place = Place(cursor=self._cursors.session(command.target.session_id or ""))
            follower = Follower(link, command, screen, asker, self._cursors, place=place)
            ended = await follower.follow()
            self._status = exit_of(ended)
            if ended.state != "succeeded" or ended.denials:
                close_line(ended, shown=True)
            self._prompt()


def _who() -> str:
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return "terminal"
