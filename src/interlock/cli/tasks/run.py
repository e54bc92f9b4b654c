"""`interlock run`: send a prompt to an agent, stream its work, ask for approvals, and exit with the outcome's
status."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.approvals.approval_prompt import Answering, ApprovalPrompt, check_may_vote, terminal_answers
from interlock.cli.approvals.seen_approvals import SeenApprovals
from interlock.cli.config.place import NOWHERE, Here, Where
from interlock.cli.display.terminal import is_terminal, one_line, print_json, say
from interlock.cli.display.values import milliseconds
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import GatewayLink, decoded
from interlock.cli.options import NAMED_DIRECTORY
from interlock.cli.tasks import worktree as worktrees
from interlock.cli.tasks.cursors import Cursors, ShownCursor
from interlock.cli.tasks.follower import Follower
from interlock.cli.tasks.outcome import GOES_ON, close_line, exit_of, interrupted_line
from interlock.cli.tasks.prompt_files import attached
from interlock.cli.tasks.screen import Screen
from interlock.cli.tasks.turn_status import turn_status
from interlock.cli.tasks.unfold_key import unfold_key
from interlock.cli.tasks.worktree import Worktree
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.api.commands import SUBMIT_COMMAND
from interlock.protocol.api.gateway import LIST_NODES
from interlock.protocol.api.sessions import GET_SESSION, LIST_SESSIONS
from interlock.protocol.identifiers import AGENT_ID
from interlock.protocol.limits import MAX_BODY_BYTES, MIB
from interlock.protocol.resources import Command, OnBusy, Session, WorkspaceAccess
from interlock.sdk.requests.base import read
from interlock.session.keys import BadKey, canonical_key
from interlock.session.store.entry import verbosity

MAX_WORDS_BYTES = 4 * MIB
"""Maximum size of a prompt's text; a longer one belongs in a file of the workspace."""
STDIN_REMARK_S = 1.0
"""A read of standard input that takes longer is reported."""


def run(
    agent: str,
    /,
    *prompt: str,
    session: Annotated[str | None, Parameter(help="Join the session of this key, or open it.")] = None,
    continue_: Annotated[bool, Parameter(
        name="--continue", help="Join this agent's newest session in this directory.")] = False,
    workspace: Annotated[Path | None, NAMED_DIRECTORY, Parameter(help="Where the agent works (default: here).")] = None,
    worktree: Annotated[bool, Parameter(
        negative=(), help="Work in a git worktree of its own, on a branch of its own; needs a runner on this host.")]
    = False,
    branch: Annotated[str | None, Parameter(help="With --worktree: the name of the branch.")] = None,
    access: Annotated[WorkspaceAccess | None, Parameter(
        help="The agent's access to the workspace: rw, or ro for an agent that asks before its tools.")] = None,
    runner: Annotated[str | None, Parameter(help="The runner to use: its id, its name or a unique beginning (default: "
                                           "the one whose roots hold the directory).")] = None,
    timeout: Annotated[str | None, Parameter(
        help="End the task after this working time: 90s, 15m, 2h. Time spent waiting for approvals is not "
             "counted (default: the config's, else 1h).")] = None,
    on_busy: Annotated[OnBusy, Parameter(help="If the session is busy: wait, be refused, or interrupt the running "
                                              "task (default: enqueue, wait).")]
    = "enqueue",
    priority: Annotated[int, Parameter(help="-100 to 100; higher runs first (default: 0).")] = 0,
    mode: Annotated[str | None, Parameter(help="The agent's mode for this prompt, such as plan.")] = None,
    model: Annotated[str | None, Parameter(help="The model for this prompt, by the agent's own name for it.")] = None,
    thinking: Annotated[str | None, Parameter(help="The agent's thinking level, by the agent's own name for "
                                                   "it.")] = None,
    image: Annotated[list[Path] | None, Parameter(help="An image to send with the prompt; may be repeated.")] = None,
    file: Annotated[list[Path] | None, Parameter(help="A file to send with the prompt; may be repeated.")] = None,
    detach: Annotated[bool, Parameter(help="Return at once; follow it later with `interlock attach`.")] = False,
    yes: Annotated[bool, Parameter(help="Allow every tool call of this task.")] = False,
    no_input: Annotated[bool, Parameter(help="Do not prompt here, and do not read standard input.")] = False,
    full: Annotated[bool, Parameter(help="Show the whole output of tools, not only its first lines.")] = False,
    json: Annotated[bool, Parameter(help="Print the ended task as one JSON document.")] = False,
    jsonl: Annotated[bool, Parameter(help="Print every event as a line of JSON.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Send an agent a prompt, and follow the task until it ends.

    Parameters
    ----------
    agent
        The agent's id: `interlock agents` lists them.
    prompt
        The prompt; piped standard input is appended to it.
    """
    _check_options(agent, session, branch, priority, continue_=continue_, worktree=worktree, json=json, jsonl=jsonl,
                   detach=detach, yes=yes)
    timeout_ms = milliseconds(timeout, "--timeout") if timeout is not None else None
    parts = attached(image or [], file or [])
    words = whole_prompt(prompt, read_stdin=not no_input)
    target: dict[str, Any] = {"agent_id": agent}
    if session is not None:
        target["session_key"] = canonical(session, agent)
    if access is not None:
        target["workspace_access"] = access
    if runner is not None:
        target["runner_id"] = runner
    message = {**payload(words, parts), **settings(mode, model, thinking)}
    body: dict[str, Any] = {"type": "execute", "target": target, "priority": priority,
                            "on_busy": on_busy, "payload": message}
    if timeout_ms is not None:
        body["timeout_ms"] = timeout_ms
    if len(msgspec.json.encode(body)) > MAX_BODY_BYTES:
        raise usage(f"Prompt and files take more than {MAX_BODY_BYTES} bytes together.",
                    "Put what is large into the workspace and name it in the prompt.")
    how: Answering = "yes" if yes else "elsewhere" if no_input else "ask"
    running = CommandRun(where, how, json=json, jsonl=jsonl, full=full)
    apart = BranchOf(branch) if worktree else None
    return running.drive(running.run(body, workspace, continue_=continue_, detach=detach, apart=apart))


def _check_options(agent: str, session: str | None, branch: str | None, priority: int, *, continue_: bool,
                   worktree: bool, json: bool, jsonl: bool, detach: bool, yes: bool) -> None:
    """Refuse options that are out of bounds or exclude each other."""
    if not AGENT_ID.fullmatch(agent):
        raise usage(f"{agent!r} is not an agent's id.", "List the agents with: interlock agents")
    if session is not None and continue_:
        raise usage("--session and --continue both name a session.", "Give one of them.")
    if json and jsonl:
        raise usage("--json and --jsonl exclude each other.", "Give one of them.")
    if detach and yes:
        raise usage("--yes answers from this terminal, and --detach leaves it.",
                    "Leave one out; `interlock attach @last --yes` answers later.")
    if branch is not None and not worktree:
        raise usage("--branch names the branch of a worktree.", "Add --worktree.")
    if worktree and continue_:
        raise usage("--continue continues in the directory of its session, and --worktree makes another.",
                    "Give one of them.")
    if not -100 <= priority <= 100:
        raise usage(f"--priority {priority} is out of bounds.", "Give a number from -100 to 100.")


class BranchOf(NamedTuple):
    """The branch of a task that works in a worktree: `name`, or one named for the task if that is None."""

    name: str | None


class CommandRun:
    """One command that this terminal started or returned to."""

    def __init__(self, where: Where, how: Answering, *, json: bool, jsonl: bool, full: bool = False) -> None:
        self._where = where
        self._how: Answering = how
        self._json = json
        self._jsonl = jsonl
        self._full = full
        self._cursors = Cursors(where.directory())
        self._command: Command | None = None
        self._tree: Worktree | None = None

    def drive(self, work: Coroutine[Any, Any, int]) -> int:
        """Run the work to its end; Ctrl-C leaves the command running, and prints how to return."""
        try:
            return asyncio.run(_interruptible(work))
        except (KeyboardInterrupt, asyncio.CancelledError):
            if self._command is None:
                raise KeyboardInterrupt from None
            say(interrupted_line(self._command.id), "bold", GOES_ON)
            if self._tree is not None:
                say(worktrees.kept_line(self._tree))
            return ExitStatus.INTERRUPTED
        except BrokenPipeError:
            if self._command is not None:  # The reader of the output has enough; the command continues.
                say(interrupted_line(self._command.id), "bold", GOES_ON)
            raise
        except Trouble as trouble:
            if self._command is None or trouble.code != "Unreachable":
                raise
            raise Trouble(trouble.code, trouble.sentence,
                          f"The work continues; come back with: interlock attach {self._command.id}") from None

    async def run(self, body: dict[str, Any], workspace: Path | None, *, continue_: bool, detach: bool,
                  apart: BranchOf | None = None) -> int:
        """Submit the command and follow it."""
        async with GatewayLink(self._where) as link:
            if self._how == "yes":
                await check_may_vote(link)
            target = body["target"]
            if "runner_id" in target:
                target["runner_id"] = await short_ids.runner_id(link, target["runner_id"])
            here = chosen_workspace(workspace, link)
            tree = planned_worktree(link, here, apart.name) if apart is not None else None
            joins = False
            if continue_:
                target["session_id"] = (await newest_session(link, target["agent_id"], here)).session_id
                joins = True
            elif "session_key" in target:
                joins = await has_session(link, target["session_key"])
            if tree is not None:
                if joins:
                    raise usage("The session works in the directory that it was opened in, and --worktree makes "
                                "another.", "Leave --worktree out, or name another --session.")
                here = str(tree.workspace)
            if workspace is not None or not joins:
                target["workspace"] = here  # Otherwise the session keeps the one that it was opened in.
                await check_roots(link, target, here)
            if not joins and "session_key" not in target:
                body["close_session"] = True  # The session is opened for this command only, and its agent ends with it.
            self._command = command = await self._submitted(link, body, tree)
            if detach:
                return self._detached(command)
            say(f"{command.id} · session {command.target.session_id}", "dim")
            started = self._cursors.session(command.target.session_id or "")
            status = await self.follow(link, command, ShownCursor(cursor=started))
            if tree is not None:
                worktrees.close(tree)
            return status

    async def _submitted(self, link: GatewayLink, body: dict[str, Any], tree: Worktree | None) -> Command:
        """Submit the command; its worktree is created before, and removed if the command is refused."""
        if tree is not None:
            worktrees.make(tree)
        try:
            command = decoded(await link.send(SUBMIT_COMMAND.at(), body), Command, SUBMIT_COMMAND.at())
        except Trouble as trouble:
            if tree is not None and trouble.code != "Unreachable":  # Otherwise it may have been accepted.
                worktrees.unmake(tree)
            raise
        self._tree = tree
        return command

    async def follow(self, link: GatewayLink, command: Command, place: ShownCursor) -> int:
        """Follow a command to its end, and print how it ended."""
        self._command = command
        quiet = self._json or self._jsonl
        async with terminal_answers() as answers:
            asker = ApprovalPrompt(link, self._how, answers, SeenApprovals(self._where.directory()))
            detail = verbosity((await entry_of(link, command)).get("verboseLevel"), "full")
            screen = Screen(command.target.agent_id or "", quiet=quiet, detail=detail, fold=not self._full)
            follower = Follower(link, command, screen, asker, self._cursors, place=place, events=self._jsonl)
            async with turn_status(screen):
                with unfold_key(screen):
                    ended = await follower.follow()
        if self._json:
            print_json(msgspec.json.encode(ended))
        close_line(ended, shown=not quiet)
        return exit_of(ended)

    def _detached(self, command: Command) -> int:
        if self._json or self._jsonl:
            print_json(msgspec.json.encode(command))
        else:
            sys.stdout.write(command.id + "\n")
        say(f"follow it with: interlock attach {command.id}", "dim")
        if self._tree is not None:
            say(worktrees.kept_line(self._tree), "dim")
        return ExitStatus.DONE


async def entry_of(link: GatewayLink, command: Command) -> dict[str, Any]:
    """Return the entry of the command's session (I-4); {} if it cannot be read: the work matters more than its
    display."""
    if command.target.session_id is None:
        return {}
    try:
        return (await link.read(GET_SESSION.at(command.target.session_id), Session)).entry
    except Trouble:
        return {}


async def _interruptible(work: Coroutine[Any, Any, int]) -> int:
    """Treat SIGTERM and SIGHUP as Ctrl-C: the cursor is stored before the end."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await work


def chosen_workspace(option: Path | None, link: GatewayLink) -> str:
    """Return the workspace as an absolute path on the runner. Raises Trouble if the gateway is on this machine, and the
    path is not a directory."""
    login = link.address.context
    if option is None and login is not None and login.directory:
        return login.directory
    path = Path(os.path.abspath(option.expanduser() if option is not None else Path.cwd()))  # noqa: PTH100
    if link.is_local and not path.is_dir():
        raise usage(f"The workspace {path} is not a directory.", "Name a directory with --workspace.")
    return str(path)


def planned_worktree(link: GatewayLink, here: str, branch: str | None) -> Worktree:
    """Return the planned worktree of a task. Raises Trouble."""
    if not link.is_local:
        raise usage(f"--worktree makes a worktree on this host, and the gateway at {link.address.url} is another's.",
                    "Run it on the runner's host, or have an agent's changes staged (interlock help changes).")
    return worktrees.planned(here, branch)


async def check_roots(link: GatewayLink, target: Mapping[str, Any], here: str) -> None:
    """Check before anything is submitted that a runner may work here, if that can be known: on this machine, with
    symlinks resolved as the runner resolves them (A-1). Raises Trouble."""
    if not link.is_local:
        return
    wanted = target.get("runner_id")
    nodes = (await link.ask(read(LIST_NODES))).nodes
    roots = [list[str](offer.get("roots") or node.roots) for node in nodes for offer in node.agents
             if offer.get("agent_id") == target["agent_id"] and node.status != "offline"
             and wanted in (None, node.node_id)]
    every = list(dict.fromkeys(root for one in roots for root in one))
    if every and not lies_within(here, every):
        known = ", ".join(every)
        raise Trouble("WORKSPACE_REFUSED", f"The directory {here} lies outside the runner's roots ({known}).",
                      f"Name another with --workspace, or start the runner with: --root {here}")


def lies_within(here: str, roots: Sequence[str]) -> bool:
    """Return whether a directory is under one of the roots, with symlinks resolved."""
    place = Path(here).resolve()
    return any(place.is_relative_to(Path(root).resolve()) for root in roots)


async def has_session(link: GatewayLink, key: str) -> bool:
    """Return whether there is a session of this canonical key."""
    return any(one.session_key == key for one in await link.list(LIST_SESSIONS.at(), Session))


async def newest_session(link: GatewayLink, agent_id: str, workspace: str) -> Session:
    """Find the agent's newest session in a directory. Raises Trouble."""
    found = [one for one in await link.list(LIST_SESSIONS.at(), Session)
             if one.agent_id == agent_id and one.workspace == workspace and one.state != "terminated"]
    if not found:
        raise Trouble("NotFound", f"{agent_id} has no session in {workspace} to continue.",
                      "Leave --continue out to open one, or name one with --session.")
    return max(found, key=lambda one: one.updated_at)


def canonical(key: str, agent_id: str) -> str:
    """Return a session's key as the gateway stores it (R-2). Raises Trouble."""
    try:
        return canonical_key(key, agent_id)
    except BadKey as error:
        raise usage(f"--session {one_line(key, 80)!r}: {error}") from None


def payload(words: str, parts: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return the payload of an execute: one text, and the files that are attached to it."""
    return {"messages": [{"role": "user", "content": [{"contentType": "text", "value": words}, *parts]}]}


def settings(mode: str | None, model: str | None, thinking: str | None) -> dict[str, Any]:
    """Return the members of a payload that set the agent for this prompt only. Raises Trouble."""
    for name, value in (("--mode", mode), ("--model", model), ("--thinking", thinking)):
        if value is not None and not value.strip():
            raise usage(f"{name} names nothing.", "Leave it out, or write the agent's own word for it.")
    chosen: dict[str, Any] = {name: value for name, value in (("mode", mode), ("model", model)) if value is not None}
    return chosen if thinking is None else {**chosen, "options": {"thinking": thinking}}


def whole_prompt(words: tuple[str, ...], *, read_stdin: bool, verb: str = "run") -> str:
    """Return the prompt's words joined with the piped text. Raises Trouble if it is empty, unreadable or too long."""
    parts = [" ".join(words).strip()]
    if read_stdin and _is_piped(bool(parts[0])):
        parts.append(_read_stdin())
    prompt = "\n\n".join(part for part in parts if part.strip())
    if not prompt.strip():
        raise usage("There is nothing to do: the prompt is empty.",
                    f'Write it behind the agent: interlock {verb} shell "ls -l"')
    if len(prompt.encode("utf-8", "surrogateescape")) > MAX_WORDS_BYTES:  # Of a pipe, no more was read than shows that.
        raise usage(f"The prompt has more than {MAX_WORDS_BYTES} bytes.",
                    "Put the text in a file of the workspace and name it in the prompt.")
    try:
        prompt.encode("utf-8")
    except UnicodeEncodeError:
        raise usage("The prompt is not UTF-8 text.", "Put binary data in a file of the workspace.") from None
    return prompt


def _is_piped(has_words: bool) -> bool:
    """Return whether standard input is a part of the prompt: a pipe or a file, never a terminal or /dev/null."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    if is_terminal(sys.stdin):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or (stat.S_ISSOCK(mode) and not has_words)


def _read_stdin() -> str:
    import threading

    remark = threading.Timer(STDIN_REMARK_S, say, ("reading standard input … (--no-input leaves it alone)", "dim"))
    remark.daemon = True
    remark.start()
    try:
        raw = sys.stdin.buffer.read(MAX_WORDS_BYTES + 1)
    finally:
        remark.cancel()
    try:
        return raw.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError:
        if len(raw) > MAX_WORDS_BYTES:
            return "x" * (MAX_WORDS_BYTES + 1)
        raise usage("Standard input is not UTF-8 text.", "Put binary data in a file of the workspace.") from None
