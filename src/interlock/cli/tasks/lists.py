"""`interlock tasks`, `approvals` and `sessions`: lists, with what waits for this person first (G-7)."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple, get_args

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.approvals.left_to_others import NOTHING_LEFT, LeftToOthers, left_to_others, pending_approvals
from interlock.cli.approvals.seen_approvals import SeenApprovals
from interlock.cli.config.place import NOWHERE, Here, Where
from interlock.cli.display.columns import Layout
from interlock.cli.display.terminal import (
    print_table,
    printable,
    result,
    say,
    terminal_width,
    write,
)
from interlock.cli.display.values import ago, between, count, until
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import GatewayLink, ask_gateway
from interlock.cli.options import Agent, Json
from interlock.cli.sessions.session_list import WAITING, session_table
from interlock.cli.tasks.task_members import task_members
from interlock.cli.verb_answer import FoundRows, VerbAnswer, answered, print_answer
from interlock.cli.verb_error import Trouble, usage
from interlock.command.card.permission_request import title_of_approval
from interlock.command.card.votes import ANOTHER, YOU
from interlock.protocol.api.approvals import GET_APPROVAL, GET_APPROVAL_INPUT, LIST_APPROVALS
from interlock.protocol.api.commands import GET_COMMAND, LIST_COMMANDS
from interlock.protocol.api.sessions import GET_SESSION, LIST_SESSIONS
from interlock.protocol.limits import PAGE_MAX
from interlock.protocol.resources import Approval, ApprovalState, Command, CommandState, Session, SessionActivity
from interlock.sdk.requests.base import document, read

TASKS = Layout(text=("PROMPT", "SESSION", "ERROR", "BY"), extra=("TYPE", "BY", "SESSION", "TOOK"),
               drop=("CREATED", "AGENT"))
APPROVALS = Layout(text=("WHAT",), extra=("TOOL",), drop=("AGENT", "STATE", "TIME LEFT / BY"))
DECIDED = APPROVALS._replace(drop=("AGENT", "TIME LEFT / BY", "STATE"), text_least=9)
"""Layout of a list with decided approvals: their outcome matters more than their approver."""
SHARED = DECIDED._replace(text_least=16)
"""Layout of a list with approvals that wait for others."""
SHOWN_BY_DEFAULT = 50
"""Rows that a list at the terminal shows without --limit."""
Limit = Annotated[int, Parameter(help=f"The number to show (default: {SHOWN_BY_DEFAULT}).")]
SessionSearch = Annotated[str | None, Parameter(name="--search", help="Only those with this text in their title, key, "
                                                "id, agent or directory; transcripts are not searched.")]
ApprovalSearch = Annotated[str | None, Parameter(name="--search", help="Only those with this text in their title, "
                                                 "tool, agent, directory, comment or rule.")]


def tasks(
    id_: Annotated[str | None, Parameter(name="ID", help="Show this one: an id, a unique beginning, or @last.")] = None,
    /,
    *,
    only: Annotated[str | None, Parameter(
        name="--only", help=f"Only those in this state: {', '.join(get_args(CommandState))}.")] = None,
    agent: Agent = None,
    session: Annotated[str | None, Parameter(help="Only those of this session: an id, a unique beginning, a "
                                             "key, or @last.")] = None,
    by: Annotated[str | None, Parameter(name="--by", help="Only those that this person or agent submitted.")] = None,
    all_: Annotated[bool, Parameter(name="--all", help="Include cancels, pauses and resumes.")] = False,
    limit: Limit = SHOWN_BY_DEFAULT,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """List tasks, or show one."""
    _check_limit(limit)
    _check_state(only, get_args(CommandState))
    filters = {key: value for key, value in (("state", only), ("agent", agent), ("session", session), ("actor", by),
                                             ("type", None if all_ else "execute")) if value}
    if id_ is not None:
        return _show_task(where, id_, json=json)

    async def find(link: GatewayLink) -> tuple[FoundRows[Command], dict[str, str | None], _Awaited]:
        rows = FoundRows("commands", Command, await link.pages(LIST_COMMANDS.at(), await _of_session(link, filters),
                                                               limit))
        if json:
            return rows, {}, _Awaited()
        titles = {one.session_id: one.title for one in await link.list(LIST_SESSIONS.at(), Session, most=PAGE_MAX)}
        return rows, titles, await _awaited(link, [one.state for one in rows.values()])

    rows, titles, awaited = ask_gateway(where, find)
    return rows.print(lambda found: _show_tasks(found, titles, awaited, narrowed=bool(filters.keys() - {"type"})),
                      json=json)


def approvals(
    id_: Annotated[str | None, Parameter(name="ID", help="Show this one: an id, a unique beginning, or @last.")] = None,
    /,
    *,
    all_: Annotated[bool, Parameter(name="--all", help="Include decided approvals.")] = False,
    only: Annotated[str | None, Parameter(
        name="--only", help=f"Only those in this state: {', '.join(get_args(ApprovalState))}.")] = None,
    agent: Agent = None,
    session: Annotated[str | None, Parameter(help="Only those of this session: an id, a unique beginning, a "
                                             "key, or @last.")] = None,
    by: Annotated[str | None, Parameter(name="--by", help="Only those that this person voted on or decided.")] = None,
    search: ApprovalSearch = None,
    limit: Limit = SHOWN_BY_DEFAULT,
    bytes_: Annotated[bool, Parameter(name="--bytes", help="Write exactly the bytes that this approval's "
                                                           "digest covers.")] = False,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """List pending approvals, or show one approval."""
    _check_limit(limit)
    _check_state(only, get_args(ApprovalState))
    if bytes_:
        if id_ is None or json:
            raise usage("--bytes writes the bytes of one approval.", "Name it: interlock approvals ID --bytes")
        return ask_gateway(where, lambda link: _voted_bytes(link, id_))
    filters = {"state": only} if only else {} if all_ or by else {"state": "pending"}
    filters |= _given(agent=agent, session=session, by=by, q=search)
    seen = SeenApprovals(where.directory())
    if id_ is not None:
        async def one(link: GatewayLink) -> tuple[VerbAnswer[Approval], LeftToOthers]:
            answer = await answered(link, read(GET_APPROVAL, (await short_ids.approval(link, id_)).id))
            return answer, await left_to_others(link, [] if json else [answer.value()])

        answer, others = ask_gateway(where, one)
        return answer.print(lambda approval: _show_approval(
            approval, seen, up_to_you=approval.id not in others.approvals), json=json)

    async def find(link: GatewayLink) -> tuple[FoundRows[Approval], LeftToOthers]:
        raw = await link.pages(LIST_APPROVALS.at(), await _of_session(link, filters), limit)
        rows = FoundRows("approvals", Approval, raw)
        return rows, await left_to_others(link, [] if json else rows.values())

    rows, others = ask_gateway(where, find)
    nothing = "nothing waits for you" if filters.get("state") == "pending" else "no approvals of that kind"
    return rows.print(lambda found: _show_approvals(found, seen, nothing, others.approvals), json=json)


def sessions(
    id_: Annotated[str | None, Parameter(name="ID", help="The session to show: an id, a unique beginning, a key, or "
                                                         "@last.")]
    = None,
    /,
    *,
    active: Annotated[int | None, Parameter(name="--active", help="Only those that were active in the last "
                                                                  "MIN minutes.")] = None,
    waiting: Annotated[bool, Parameter(name="--waiting", help="Only those with a pending approval.")] = False,
    only: Annotated[str | None, Parameter(
        name="--only", help=f"Only those in this state: {', '.join(get_args(SessionActivity))}.")] = None,
    agent: Agent = None,
    runner: Annotated[str | None, Parameter(
        help="Only those on this runner: its id, its name or a unique beginning.")] = None,
    search: SessionSearch = None,
    limit: Limit = SHOWN_BY_DEFAULT,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """List sessions, or show one."""
    _check_limit(limit)
    _check_state(only, get_args(SessionActivity))
    if active is not None and active < 1:
        raise usage(f"--active {active} shows nothing.", "Give a number of minutes from 1.")
    filters = _given(active=str(active) if active is not None else None, waiting="true" if waiting else None,
                     state=only, agent=agent, runner=runner, q=search)
    if id_ is not None:
        return print_answer(where, short_ids.of_session(id_, lambda whole: document(
            GET_SESSION.at(whole), dict[str, Any])), _print_members, json=json)

    async def find(link: GatewayLink) -> tuple[FoundRows[Session], LeftToOthers]:
        on = {"runner": await short_ids.runner_id(link, runner)} if runner is not None else {}
        rows = FoundRows("sessions", Session, await link.pages(LIST_SESSIONS.at(), {**filters, **on}, limit))
        waits = not json and any(one.state in WAITING for one in rows.values())
        return rows, await left_to_others(link, await pending_approvals(link)) if waits else NOTHING_LEFT

    if filters.keys() == {"active"}:
        nothing = f"no session was active in the last {count(int(filters['active']), 'minute')}"
    elif filters:
        nothing = "no session of that kind"
    else:
        nothing = "no sessions yet; open one with: interlock run AGENT \"…\""
    rows, others = ask_gateway(where, find)
    return rows.print(lambda found: _show_sessions(found, limit, nothing, others.sessions), json=json)


SHOWN_STATES = {"consumed": "allowed (used)", "void": "withdrawn (void)"}
"""Shown names of approval states whose names on the wire do not state their outcome."""


class _Awaited(NamedTuple):
    """Ids of the tasks that wait for an approval, also while they run, and of those among them that wait for other
    people than the one at this terminal."""

    tasks: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()

    def state(self, task_id: str, state: str) -> str:
        """Return a task's state for people: a running one whose tool call waits, waits."""
        if task_id in self.others:
            return ANOTHER
        return YOU if task_id in self.tasks else _state(state)


async def _awaited(link: GatewayLink, states: Iterable[str]) -> _Awaited:
    """Return which tasks wait for an approval, if one of these states may. Raises Trouble."""
    if WAITING.isdisjoint(found := set(states)) and "running" not in found:
        return _Awaited()
    pending = await pending_approvals(link)
    return _Awaited(frozenset(one.command_id for one in pending if one.command_id is not None),
                    (await left_to_others(link, pending)).tasks)


def _show_task(where: Where, named: str, *, json: bool) -> int:
    async def one(link: GatewayLink) -> tuple[VerbAnswer[dict[str, Any]], _Awaited]:
        task = await short_ids.command(link, named)
        answer = await answered(link, document(GET_COMMAND.at(task.id), dict[str, Any]))
        return answer, _Awaited() if json else await _awaited(link, [str(answer.value()["state"])])

    answer, awaited = ask_gateway(where, one)
    return answer.print(lambda found: _print_members(
        {**task_members(found), "state": awaited.state(str(found["id"]), str(found["state"]))}), json=json)


def _show_tasks(found: list[Command], titles: dict[str, str | None], awaited: _Awaited, *, narrowed: bool) -> None:
    if not found:
        say("no tasks" + (" of that kind" if narrowed else " yet; give one with: interlock run AGENT \"…\""), "dim")
        return
    found.sort(key=lambda one: (one.state != "pending_approval" and one.id not in awaited.tasks,
                                one.id in awaited.others))
    header = ("TASK", "STATE", "TYPE", "AGENT", "PROMPT", "SESSION", "BY", "CREATED", "TOOK", "ERROR")
    rows = [[one.id, awaited.state(one.id, one.state), one.type, one.target.agent_id or "",
             one.title or "", _session_name(one, titles.get(one.target.session_id or "")), one.actor.id,
             ago(one.created_at), between(one.started_at, one.ended_at), one.error.code if one.error else ""]
            for one in found]
    if all(one.type == "execute" for one in found):
        header, rows = header[:2] + header[3:], [row[:2] + row[3:] for row in rows]
    print_table(rows, header, TASKS if any(one.error for one in found) else TASKS._replace(
        extra=(*TASKS.extra, "ERROR")))


def _session_name(task: Command, title: str | None) -> str:
    """Return the name that a person gave to a task's session by `--session`, or else its title; "" if that is the
    prompt beside it."""
    target = task.target
    name = (target.session_key or "").removeprefix(f"agent:{target.agent_id}:")
    if name and not (target.session_id and name.endswith(target.session_id)):
        return name
    return title if title is not None and title != task.title else ""


async def _voted_bytes(link: GatewayLink, id_: str) -> int:
    approval = await short_ids.approval(link, id_)
    raw = await link.get(GET_APPROVAL_INPUT.at(approval.id))
    if hashlib.sha256(raw).hexdigest() != approval.digest:
        raise Trouble("UpstreamError", f"The bytes of {approval.id} that came are not those of its digest.",
                      "Do not vote on it; see: interlock audit verify")
    sys.stdout.flush()
    sys.stdout.buffer.write(raw)
    sys.stdout.buffer.flush()
    return ExitStatus.DONE


def _show_approval(approval: Approval, seen: SeenApprovals, *, up_to_you: bool) -> None:
    from interlock.cli.approvals.approval_card import CardReading, show_result
    from interlock.cli.approvals.approval_prompt import decided, elsewhere

    show_result(CardReading(approval, up_to_you=up_to_you).all_rows())
    seen.add([approval.id])
    if approval.state == "pending" and not up_to_you:
        say(f"a vote is taken back with: interlock withdraw {approval.id}" if approval.votes else
            "another person answers it", "dim")
    else:
        say(elsewhere(approval) if approval.state == "pending" else decided(approval), "dim")


def _show_approvals(found: list[Approval], seen: SeenApprovals, nothing: str, others: frozenset[str]) -> None:
    if not found:
        say(nothing, "dim")
        return
    found.sort(key=lambda one: (one.state != "pending", one.id in others))
    print_table([[one.id, ANOTHER if one.id in others else _state(one.state), one.agent_id, one.tool_name or one.door,
                  title_of_approval(one),
                  until(one.expires_at) if one.state == "pending" else one.decided_by or ""] for one in found],
                ("APPROVAL", "STATE", "AGENT", "TOOL", "WHAT", "TIME LEFT / BY"),
                DECIDED if any(one.state != "pending" for one in found) else SHARED if others else APPROVALS)
    seen.add(one.id for one in found if one.state == "pending")
    if any(one.state == "pending" for one in found):
        say("see one with: interlock approvals ID  ·  answer: interlock approve ID, interlock deny ID", "dim")


async def _of_session(link: GatewayLink, filters: dict[str, str]) -> dict[str, str]:
    """Return the filters with the complete id of the session that they name. Raises Trouble."""
    session = await short_ids.full_id(link, short_ids.SESSION, filters.get("session"))
    return filters if session is None else {**filters, "session": session}


def _given(**filters: str | None) -> dict[str, str]:
    return {name: value for name, value in filters.items() if value is not None}


def _show_sessions(found: list[Session], limit: int, nothing: str, others: frozenset[str]) -> None:
    if not found:
        say(nothing, "dim")
        return
    found.sort(key=lambda one: (one.state not in WAITING, one.session_id in others))
    write(sys.stdout, session_table(found, terminal_width(), others) + "\n", safe=True)
    if len(found) == limit:
        say(f"the {limit} that changed last; more with: interlock sessions --limit {2 * limit}", "dim")


def _print_members(members: dict[str, Any]) -> None:
    """Print a resource member by member; nested values are printed as JSON."""
    width = max((len(key) for key in members), default=0)
    for key, value in members.items():
        text = value if isinstance(value, str) else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
        lines = printable(text).split("\n")
        result(f"{key:<{width}}  {lines[0]}")
        for line in lines[1:]:
            result(f"{'':<{width}}  {line}")


def _state(state: str) -> str:
    return YOU if state in WAITING else SHOWN_STATES.get(state, state.replace("_", " "))


def _check_limit(limit: int) -> None:
    if limit < 1:
        raise usage(f"--limit {limit} shows nothing.", "Give a number from 1.")


def _check_state(state: str | None, known: tuple[str, ...]) -> None:
    if state is not None and state not in known:
        raise usage(f"There is no state {state!r}.", f"Known: {', '.join(known)}.")
