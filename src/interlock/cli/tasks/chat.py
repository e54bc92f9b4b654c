"""`interlock chat`: a conversation at the terminal, through the same operation as every other chat's (R-4, V-1,
Y-7)."""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Annotated, Any, Protocol, get_args

from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.approvals.approval_prompt import Answering, Answers, ApprovalPrompt, TerminalAnswers
from interlock.cli.approvals.seen_approvals import SeenApprovals
from interlock.cli.config.place import CHAT_HISTORY_FILE, NOWHERE, Here, Where
from interlock.cli.display.terminal import is_terminal, one_line, printable, result, say, write
from interlock.cli.display.values import span
from interlock.cli.exit_status import BY_STATE, ExitStatus
from interlock.cli.link.gateway_link import GatewayLink, decoded
from interlock.cli.tasks.cursors import Cursors, ShownCursor
from interlock.cli.tasks.follower import Follower
from interlock.cli.tasks.outcome import close_line, exit_of
from interlock.cli.tasks.run import canonical, entry_of, has_session
from interlock.cli.tasks.screen import Screen
from interlock.cli.tasks.unfold_key import HINT
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.api.commands import GET_COMMAND, LIST_COMMANDS, SUBMIT_COMMAND
from interlock.protocol.api.gateway import LIST_NODES
from interlock.protocol.api.messages import RECEIVE_MESSAGE
from interlock.protocol.identifiers import AGENT_ID
from interlock.protocol.inbound import Received
from interlock.protocol.problems import not_offered
from interlock.protocol.resources import Command, CommandState
from interlock.sdk.requests.base import read
from interlock.session.store.entry import verbosity

CHANNEL = "terminal"
MAX_WAITING = 100
"""Lines that may wait to be sent, and commands that may wait to be shown."""
BYE = ("/quit", "/exit")
HELP = "/help"
COMMANDS = {
    "/new": "[MODEL] starts a new session; text after it is the first message", "/reset": "the same as /new",
    "/status": "agent, model, tokens, cost, what runs and what waits", "/stop": "ends what runs and what waits",
    "/compact": "[WHAT TO KEEP] makes a long conversation shorter", HELP: "shows this",
    "/quit": "leaves; what runs continues",
}
"""The chat's own commands. All but the last two are for the gateway."""
KEYS = (("Enter", "sends"), ("Alt-Enter", "new line"), ("Tab", "completes commands and paths"),
        ("Up, Ctrl-R", "earlier messages"), ("Ctrl-C", "clears the line; on an empty line ends the turn"),
        ("Ctrl-D", "leaves"))
WELCOME = "/help lists commands and keys · /quit leaves, what runs continues"
PROMPT = "> "
_LIVE = [state for state in get_args(CommandState) if state not in BY_STATE]


def chat(
    agent: Annotated[str | None, Parameter(name="AGENT", help="The agent (default: the agent of your chats).")] = None,
    /,
    *,
    session: Annotated[str | None, Parameter(help="Use the session of this key, such as main.")] = None,
    no_input: Annotated[bool, Parameter(help="Do not answer approvals here.")] = False, where: Here = NOWHERE,
) -> int:
    """Chat with an agent: each line is a message, and approvals are asked for here.

    `/new`, `/reset`, `/status`, `/stop` and `/compact` are for the gateway; all else is for the agent. What you type
    while it works is sent at once, and waits its turn there.
    """
    if agent is not None and not AGENT_ID.fullmatch(agent):
        raise usage(f"{agent!r} is not an agent's id.", "List the agents with: interlock agents")
    key = canonical(session or "main", agent or "shell") if agent is not None else session
    try:
        return asyncio.run(_Chat(where, key, "elsewhere" if no_input else "ask", agent).run())
    except KeyboardInterrupt:
        write(sys.stderr, "\n")
        say("what runs continues; see it with: interlock attach @last")
        return ExitStatus.INTERRUPTED


class LineSource(Protocol):
    """A source of lines."""

    async def line(self) -> str | None:
        """Wait for one line; None at the end of the input."""
        ...

    def show_question(self, question: str | None) -> None:
        """Show that the next line answers a question; None when there is no question any more."""
        ...


class LineReader(Answers):
    """A reader of a source with two kinds of lines: answers while a question is open, messages otherwise."""

    def __init__(self, source: LineSource) -> None:
        self._source = source
        self._answer: asyncio.Future[str | None] | None = None
        self.messages: asyncio.Queue[str | None] = asyncio.Queue(MAX_WAITING)
        self.ended = False

    async def line(self, question: str = "") -> str | None:
        """Ask, and wait for the answer."""
        if self.ended:
            return None
        self._answer = asyncio.get_running_loop().create_future()
        self._source.show_question(question)
        try:
            return await self._answer
        finally:
            self._answer = None
            self._source.show_question(None)

    async def read(self) -> None:
        """Read until the end of the input."""
        while not self.ended:
            line = await self._source.line()
            self.ended = line is None
            if self._answer is not None and not self._answer.done():
                self._answer.set_result(line)
                if line is not None:
                    continue
            await self.messages.put(line)


class PipedLines:
    """Lines of a pipe or file."""

    async def line(self) -> str | None:
        """Read the next line."""
        line = await asyncio.to_thread(sys.stdin.readline)
        return line.rstrip("\r\n") if line else None

    def show_question(self, question: str | None) -> None:
        """Do nothing: questions are not asked through a pipe."""


class PlainLines:
    """Lines of a terminal that cannot be edited on: a dumb one, or one whose output is redirected."""

    def __init__(self) -> None:
        self._answers = TerminalAnswers(sys.stdin.fileno())

    async def line(self) -> str | None:
        """Read the next line."""
        return await self._answers.line()

    def show_question(self, question: str | None) -> None:
        """Write the question; the line that was typed ends its row."""
        if question is not None:
            write(sys.stderr, question)


class _Working:
    """The command that is being shown, for the row below the editor."""

    def __init__(self) -> None:
        self._command: Command | None = None
        self._screen: Screen | None = None
        self._since_s = 0.0

    @property
    def command_id(self) -> str | None:
        return self._command.id if self._command is not None else None

    def begin(self, command: Command, screen: Screen) -> None:
        self._command, self._screen, self._since_s = command, screen, time.monotonic()

    def end(self) -> None:
        self._command = self._screen = None

    def toggle_fold(self) -> None:
        if self._screen is not None:
            self._screen.toggle_fold()

    def status(self) -> str:
        if self._command is None or self._screen is None:
            return ""
        status_word = f"{self._screen.status_word()} {span(time.monotonic() - self._since_s)}"
        parts = [self._command.target.agent_id or "", status_word,
                 f"{self._screen.tokens:,} tokens" if self._screen.tokens else "", self._screen.current_tool(),
                 "Ctrl-C ends the turn"]
        return one_line(" · ".join(part for part in parts if part), 200)


class _Chat:
    """A conversation from its first line to its end."""

    def __init__(self, where: Where, key: str | None, how: Answering, agent_id: str | None = None) -> None:
        """Create the conversation; `agent_id` is the named agent; None for the one that answers in this person's
        chats."""
        self._agent_id = agent_id
        self._where = where
        self._key = key
        self._is_person = is_terminal(sys.stdin)
        self._how: Answering = how if self._is_person else "elsewhere"
        self._working = _Working()
        self._interrupted = asyncio.Event()
        self._is_edited = False
        self._cursors = Cursors(where.directory())
        self._commands: asyncio.Queue[str | None] = asyncio.Queue(MAX_WAITING)
        self._status: int = ExitStatus.DONE

    async def run(self) -> int:
        """Run until the person leaves, which is a success; with piped input, until the last command has ended, whose
        exit status it is."""
        async with GatewayLink(self._where) as link:
            await self._check_offered(link)
            source, output = self._source()
            self._lines = LineReader(source)
            with output:
                return await self._run(link)

    async def _check_offered(self, link: GatewayLink) -> None:
        """Refuse an agent that no runner offers before input is read: the first message may come late or never. An
        existing session accepts messages for later. Raises Trouble."""
        agent_id, key = self._agent_id, self._key
        if agent_id is None or key is None:
            return
        nodes = (await link.ask(read(LIST_NODES))).nodes
        online = [node for node in nodes if node.status != "offline"]
        if any(offer.get("agent_id") == agent_id for node in online for offer in node.agents):
            return
        if not await has_session(link, key):
            refusal = not_offered(agent_id)
            raise Trouble(refusal.code, refusal.detail, refusal.hint or "")

    def _source(self) -> tuple[LineSource, AbstractContextManager[None]]:
        if not self._is_person:
            return PipedLines(), nullcontext()
        if not (is_terminal(sys.stdout) and is_terminal(sys.stderr)) or os.environ.get("TERM", "dumb") == "dumb":
            return PlainLines(), nullcontext()
        from interlock.cli.tasks.line_editor import EditedLines

        self._is_edited = True
        directory = self._where.directory()
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        editor = EditedLines(directory / CHAT_HISTORY_FILE, tuple(COMMANDS), self._interrupt, self._working.status,
                             unfold=self._working.toggle_fold)
        return editor, editor.below_output()

    async def _run(self, link: GatewayLink) -> int:
        if self._is_person:
            say(WELCOME, "dim")
            await self._rejoin(link)
        tasks = [asyncio.create_task(work) for work in (
            self._lines.read(), self._show_all(link), self._end_turns(link))]
        try:
            await self._listen(link, tasks[1])
            if not self._is_person:
                await self._commands.put(None)
                await tasks[1]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return ExitStatus.DONE if self._is_person else self._status

    async def _rejoin(self, link: GatewayLink) -> None:
        """Show the running command of this key's session, from the last event that this terminal showed."""
        if self._key is None:
            return
        try:
            session = await short_ids.session(link, self._key)
        except Trouble as trouble:
            if trouble.code != "NotFound":
                raise
            return
        lists = await asyncio.gather(*(
            link.list(LIST_COMMANDS.at(), Command, {"session": session.session_id, "state": state}) for state in _LIVE))
        live = sorted((one for some in lists for one in some if one.type == "execute"), key=lambda one: one.created_at)
        for one in live[:MAX_WAITING]:
            self._commands.put_nowait(one.id)
        if not self._commands.empty():
            say(f"{session.session_key} is still working; here is what it does", "dim")

    async def _listen(self, link: GatewayLink, showing: asyncio.Task[None]) -> None:
        self._prompt()
        while True:
            reading = asyncio.create_task(self._lines.messages.get())
            await asyncio.wait([reading, showing], return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                reading.cancel()
                showing.result()  # It ends by itself only after a failure.
                return
            line = reading.result()
            word = line.strip().lower() if line is not None else ""
            if line is None or word in BYE:
                return
            if word == HELP and self._is_person:
                show_help()
            elif word:
                await self._send(link, line)
            self._prompt()

    def _prompt(self) -> None:
        if self._is_person and not self._is_edited and self._commands.empty():
            write(sys.stderr, PROMPT, safe=True)

    def _interrupt(self) -> None:
        if self._working.command_id is None:
            say("nothing runs; leave with /quit or Ctrl-D", "dim")
        else:
            self._interrupted.set()

    async def _end_turns(self, link: GatewayLink) -> None:
        """Cancel the command that is shown, each time that the person presses Ctrl-C."""
        while True:
            await self._interrupted.wait()
            self._interrupted.clear()
            command_id = self._working.command_id
            if command_id is None:
                continue
            body = {"type": "cancel", "target": {"command_id": command_id}}
            with self._refusals():
                await link.send(SUBMIT_COMMAND.at(), body)

    def _refusals(self) -> AbstractContextManager[None]:
        return _Shown() if self._is_person else nullcontext()

    async def _send(self, link: GatewayLink, text: str) -> None:
        # Without a message_id: the request's idempotency key makes it count once.
        body: dict[str, Any] = {"channel": CHANNEL, "chat_type": "direct", "sender": _user(), "text": text}
        if self._key is not None:
            body["session_key"] = self._key
        with self._refusals():
            received = decoded(await link.send(RECEIVE_MESSAGE.at(), body), Received, RECEIVE_MESSAGE.at())
            if received.reply is not None:
                result(printable(received.reply))
            elif received.denied:
                say("sendPolicy keeps silent here: it is in the transcript, and nothing answers")
            elif received.reset is not None:
                say(f"a new session begins: {received.session_id}", "dim")
            if received.command_id is not None:
                await self._commands.put(received.command_id)

    async def _show_all(self, link: GatewayLink) -> None:
        """Show commands one after another, in the order in which their session runs them."""
        while (command_id := await self._commands.get()) is not None:
            command = await link.read(GET_COMMAND.at(command_id), Command)
            detail = verbosity((await entry_of(link, command)).get("verboseLevel"), "on")
            screen = Screen(command.target.agent_id or "", detail=detail)
            if self._is_edited:
                screen.hint_unfold(HINT)
            asker = ApprovalPrompt(link, self._how, self._lines if self._is_person else None,
                                   SeenApprovals(self._where.directory()))
            shown = self._cursors.command(command.id)
            place = shown or ShownCursor(cursor=self._cursors.session(command.target.session_id or ""))
            follower = Follower(link, command, screen, asker, self._cursors, place=place)
            self._working.begin(command, screen)
            try:
                ended = await follower.follow()
            finally:
                self._working.end()
            self._status = exit_of(ended)
            if ended.state != "succeeded" or ended.denials:
                close_line(ended, shown=True)
            self._prompt()


class _Shown(AbstractContextManager[None]):
    """Shows a refusal, and continues; without a gateway the chat ends."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if not isinstance(error, Trouble) or error.code == "Unreachable":
            return False
        say(error.line(), "red", error.label)
        return True


def show_help() -> None:
    """List the chat's commands and keys."""
    rows = [*COMMANDS.items(), *KEYS]
    width = max(len(name) for name, _ in rows)
    for name, what in rows:
        say(f"{name:<{width}}  {what}", "bold", name)


def _user() -> str:
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return "terminal"
