"""`interlock approve`, `deny` and `cancel`: decisions, each shown with its outcome."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.access.signing_keys import Signer
from interlock.cli.approvals.approval_card import CardReading, show, show_json
from interlock.cli.approvals.approval_prompt import (
    Answers,
    answer_question,
    check_digest,
    decided,
    more_to_read,
    not_read,
    say_remembered,
    terminal_answers,
    unread_comment,
    vote,
)
from interlock.cli.approvals.seen_approvals import SeenApprovals
from interlock.cli.config.place import NOWHERE, Here, Where
from interlock.cli.display.progress import suspended
from interlock.cli.display.terminal import print_json, print_sentence, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import GatewayLink, decoded
from interlock.cli.link.sse import SseEvent, SseStream
from interlock.cli.verb_error import Trouble, usage
from interlock.command.card.votes import tally, waits_for_another
from interlock.protocol.api.approvals import GET_APPROVAL, WITHDRAW_VOTE
from interlock.protocol.api.commands import GET_COMMAND, GET_STATUS, SUBMIT_COMMAND
from interlock.protocol.problems import full_sentence
from interlock.protocol.resources import Approval, Command, Decision

Always = Annotated[
    Literal["session", "rule"] | None,
    Parameter(help="Remember this decision for the same call: in its session, or as a rule of the tenant."),
]
OnCommand = Annotated[
    str | None, Parameter(name="--command", help="With --always: every command that this regular expression (RE2) "
                                                 "covers.")
]
OnPath = Annotated[str | None, Parameter(name="--path", help="With --always: every path that this glob covers.")]
OnWords = Annotated[
    str | None, Parameter(name="--words", help='With --always: a program and its words, such as "git log **".')
]
OfWidth = Annotated[
    Literal["exact", "program", "below", "described"] | None,
    Parameter(name="--width", help="With --always: this very input, this program and first word, this tool below "
              "this directory, or every described call of this kind in this session."),
]
AnyInput = Annotated[bool, Parameter(name="--any-input", help="With --always, for a denial: every input of the tool.")]
Option = Annotated[str | None, Parameter(
    name="--option", help="One of the agent's own options for this decision; `interlock approvals ID --json` lists "
                          "them.")]
Yes = Annotated[bool, Parameter(name="--yes", negative=(), help="Vote without confirmation, for scripts.")]
Sign = Annotated[bool, Parameter(help="Sign the vote with this state directory's key.")]
LISTED_BY = {"approvals": "interlock approvals", "commands": "interlock tasks"}
T = TypeVar("T")


def approve(
    *ids: str,
    comment: Annotated[str | None, Parameter(name=("--comment", "--reason"), help="A comment, stored with "
                                                                                  "the vote.")] = None,
    always: Always = None,
    command: OnCommand = None,
    path: OnPath = None,
    words: OnWords = None,
    width: OfWidth = None,
    any_input: AnyInput = False,
    change: Annotated[str | None, Parameter(help="Allow it with this input instead, a JSON object.")] = None,
    option: Option = None,
    sign: Sign = False,
    yes: Yes = False,
    json: Annotated[bool, Parameter(help="Print the approvals as one JSON document.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Grant pending approvals.

    Parameters
    ----------
    ids
        Approvals: ids, unique beginnings of them, or @last (the pending one, if this terminal has shown it).
    """
    covers = _covers(command=command, path=path, words=words, width=width, any_input=any_input)
    more = _remembering(always, covers) | _changed(change, always, ids, sign=sign) | _named(option)
    return asyncio.run(decide(_some(ids, "approval"), "grant", comment, where, more, sign=sign, yes=yes, json=json))


def deny(
    *ids: str,
    comment: Annotated[str | None, Parameter(name=("--reason", "--comment"), help="The reason; the requester sees it.")]
    = None,
    always: Always = None,
    command: OnCommand = None,
    path: OnPath = None,
    words: OnWords = None,
    width: OfWidth = None,
    any_input: AnyInput = False,
    option: Option = None,
    sign: Sign = False,
    yes: Yes = False,
    json: Annotated[bool, Parameter(help="Print the approvals as one JSON document.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Deny pending approvals.

    Parameters
    ----------
    ids
        Approvals: ids, unique beginnings of them, or @last (the pending one, if this terminal has shown it).
    """
    covers = _covers(command=command, path=path, words=words, width=width, any_input=any_input)
    more = _remembering(always, covers) | _named(option)
    return asyncio.run(decide(_some(ids, "approval"), "deny", comment, where, more, sign=sign, yes=yes, json=json))


def withdraw(
    *ids: str,
    json: Annotated[bool, Parameter(help="Print the approvals as one JSON document.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Withdraw your vote, until the approval is decided.

    Parameters
    ----------
    ids
        Approvals: ids, unique beginnings of them, or @last (the newest that is pending).
    """
    return asyncio.run(_withdraw(_some(ids, "approval"), where, json=json))


def answer(
    id_: Annotated[str, Parameter(name="ID")],
    /,
    *words: str,
    none: Annotated[bool, Parameter(help="Decline to answer; the agent is sent that there is no answer.")] = False,
    json: Annotated[bool, Parameter(help="Print the question as one JSON document.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Answer what an agent asks in words.

    Parameters
    ----------
    id_
        The question: its id, a unique beginning of it, or @last (the newest that is pending).
    words
        The answer.
    """
    text = " ".join(words).strip()
    if none == bool(text):
        raise usage("An answer is either words or --none.", 'Write: interlock answer @last "the left one"')
    return asyncio.run(_answer(id_, None if none else text, where, json=json))


async def _answer(id_: str, text: str | None, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        approval = await short_ids.approval(link, id_)
        if approval.kind != "question":
            raise Trouble("Conflict", f"{approval.id} asks for a yes or no, not for words.",
                          f"Write: interlock approve {approval.id}, or: interlock deny {approval.id}")
        if approval.state != "pending":
            raise _too_late(approval)
        show(CardReading(approval).all_rows())
        after = await answer_question(link, approval, text)
        if json:
            print_json(msgspec.json.encode(after))
        else:
            print_sentence(decided(after))
    return ExitStatus.DONE


def _too_late(approval: Approval) -> Trouble:
    return Trouble("Conflict", f"It is too late: {decided(approval)}.",
                   f"Look at it with: interlock approvals {approval.id}")


def cancel(
    *ids: str,
    reason: Annotated[str | None, Parameter(help="A comment, stored with the task.")] = None,
    json: Annotated[bool, Parameter(help="Print the cancels as one JSON document.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Cancel tasks.

    Parameters
    ----------
    ids
        Tasks: ids, unique beginnings of them, or @last (the newest that has not ended).
    """
    return asyncio.run(_cancel(_some(ids, "task"), reason, where, json=json))


def _some(ids: tuple[str, ...], noun: str) -> tuple[str, ...]:
    # Nothing is decided or ended that was not named.
    if not ids:
        raise usage(f"No {noun} is named.", f"Name one by its id, or the newest with {short_ids.LAST}: "
                    f"interlock {noun}s lists them.")
    if any(not one.strip() for one in ids):
        raise usage(f"An empty {noun} id names nothing.", f"See: interlock {noun}s")
    return tuple(dict.fromkeys(ids))


def _covers(**fields: str | bool | None) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _remembering(always: str | None, match: dict[str, Any]) -> dict[str, Any]:
    if always is None:
        if match:
            raise usage("--width, --words, --command, --path and --any-input say what --always covers.",
                        "Add --always session or rule.")
        return {}
    return {"remember": {"scope": always, **({"match": match} if match else {})}}


def _changed(change: str | None, always: str | None, ids: tuple[str, ...], *, sign: bool) -> dict[str, Any]:
    if change is None:
        return {}
    if sign:
        raise usage("A signature covers what was asked, not what --change makes of it.",
                    "Change it without --sign; then sign the approval that takes its place.")
    if always is not None or len(ids) > 1:
        raise usage("--change is for one approval, this once.", "Leave --always out, and name one approval.")
    try:
        return {"updated_input": msgspec.json.decode(change, type=dict[str, Any])}
    except msgspec.DecodeError as error:
        raise usage(f"--change is not a JSON object: {error}.", 'Write it as \'{"command": "ls"}\'.') from None


def _named(option: str | None) -> dict[str, Any]:
    return {"option_id": option} if option is not None else {}


async def decide(
    ids: tuple[str, ...], decision: Decision, comment: str | None, where: Where, more: dict[str, Any], *,
    sign: bool, yes: bool, json: bool,
) -> int:
    """Show approvals, ask, and vote on each; `more` are further fields of the vote. Raises Trouble."""
    async with GatewayLink(where) as link, terminal_answers() as person:
        if not yes and person is None:
            verb = "approve" if decision == "grant" else "deny"
            raise usage("There is no terminal to show the request at and ask.",
                        f"Read it with: interlock approvals {shlex.quote(ids[0])}; then write: "
                        f"interlock {verb} {shlex.join(ids)} --yes")
        signer = Signer(where) if sign else None
        seen = SeenApprovals(where.directory())
        # All are found before any is decided: a mistyped id decides nothing.
        found = [await short_ids.approval_to_decide(link, text, seen.printed(), blind=yes) for text in ids]
        async def decided_one(approval: Approval) -> Approval | None:
            if approval.state != "pending":
                raise _too_late(approval)
            if decision == "grant":
                check_digest(approval)
            if "updated_input" in more:
                _check_change(approval)
            seen.add([approval.id])
            question = confirm(approval, decision, more, None if yes else person)
            agreed, unread = await (question if yes else _while_pending(link, approval, question))
            if not agreed:
                say(f"left open: {approval.id}", "bold", "left open:")
                return None
            full_comment = " · ".join(text for text in (comment, unread) if text) or None
            signed = await signer.sign(link, approval, decision) if signer is not None else {}
            try:
                after = await vote(link, approval, decision, full_comment, {**more, **signed})
            except Trouble as trouble:
                if trouble.code != "Conflict":
                    raise
                now = await link.read(GET_APPROVAL.at(approval.id), Approval)
                raise trouble if now.state == "pending" else _too_late(now) from None
            if not json:
                print_sentence(_outcome(after))
                await say_remembered(link, after)
            return after

        return await _each(found, decided_one, "approvals", json=json)


def _check_change(approval: Approval) -> None:
    """Check before a person is asked that the agent accepts a changed input. Raises Trouble."""
    if approval.door == "tool" and approval.kind == "permission" and approval.accepts_change is not False:
        return  # None is of a gateway that does not report it: the vote shows it.
    what = "this is not about a tool's input" if approval.door != "tool" or approval.kind != "permission" else \
        f"agent {approval.agent_id} does not accept a changed input"
    raise Trouble("UnsupportedCapability", f"{approval.id} cannot be changed: {what}.",
                  f"Deny it with the reason instead: interlock deny {approval.id} --reason \"…\"")


async def _while_pending(link: GatewayLink, approval: Approval, question: Coroutine[Any, Any, T]) -> T:
    """Ask a person, and return the answer. Raises Trouble as soon as the approval is decided elsewhere or expires: the
    question is taken back, as an answer to it no longer counts."""
    answering, ended = asyncio.create_task(question), asyncio.create_task(_end_of(link, approval))
    try:
        await asyncio.wait({answering, ended}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            return answering.result()
        raise _too_late(ended.result())
    finally:
        answering.cancel()
        ended.cancel()
        await asyncio.wait({answering, ended})


async def _end_of(link: GatewayLink, approval: Approval) -> Approval:
    """Wait until an approval has ended; return it as it then is. A stream that fails ends nothing: the vote reports
    what is wrong."""
    if approval.command_id is not None:
        with suppress(Trouble):
            async for item in SseStream(link, GET_STATUS.at(approval.command_id)):
                if isinstance(item, SseEvent) and item.data.get("approval_id") == approval.id \
                        and item.data.get("approval_state") != "pending":
                    return await link.read(GET_APPROVAL.at(approval.id), Approval)
    return await asyncio.get_running_loop().create_future()


async def _each(found: Sequence[T], do: Callable[[T], Awaitable[T | None]], noun: str, *, json: bool) -> int:
    """Do it for each, and with `json` print those for which it was done. One that is in no state for it does not hold
    up the others. Raises Trouble, also for those, after the others."""
    done, refused = list[T](), list[Trouble]()
    for one in found:
        try:
            after = await do(one)
        except Trouble as trouble:
            if trouble.code != "Conflict":
                raise
            refused.append(trouble)
            continue
        if after is not None:
            done.append(after)
    if json and (done or not refused):
        print_json(msgspec.json.encode({noun: done}))
    if refused:
        raise _together(refused, noun)
    return ExitStatus.DONE


def _together(refused: list[Trouble], noun: str) -> Trouble:
    first, *others = refused
    return first if not others else Trouble(
        first.code, " ".join(full_sentence(one.sentence) for one in refused), f"Look at them with: {LISTED_BY[noun]}")


async def confirm(
    approval: Approval, decision: Decision, more: dict[str, Any], answers: Answers | None
) -> tuple[bool, str | None]:
    """Show the whole request, and ask; returns the answer, and what the vote records if it was not read whole (H-4)."""
    reading = CardReading(approval)
    if answers is None:
        show(reading.all_rows())
        return True, None
    show(reading.next_rows())
    if "updated_input" in more:
        say(f"with this input instead: {msgspec.json.encode(more['updated_input']).decode()}", "bold",
            "with this input instead:")
    while True:
        with suspended():
            typed = await answers.line(_question(reading, decision))
        match typed:
            case None:
                return False, None
            case "" if not reading.whole:
                show(reading.next_rows())
            case "y" | "Y" | "yes" if reading.whole or decision == "deny":
                return True, None
            case "y" | "Y" | "yes":
                say(not_read(reading))
            case "unread" if not reading.whole and decision == "grant":
                return True, unread_comment(reading)
            case "n" | "N" | "no":
                return False, None
            case "?":
                show_json(approval)
            case _:
                say("Please answer y or n.")


def _question(reading: CardReading, decision: Decision) -> str:
    if decision == "deny":
        return "Deny it? y = deny it, n = leave it open, ? = as JSON: "
    if reading.whole:
        return "Allow it? y = yes, n = leave it open, ? = as JSON: "
    return more_to_read(reading).replace("n = no", "n = leave it open")


async def _withdraw(ids: tuple[str, ...], where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        async def withdrawn(approval: Approval) -> Approval:
            path = WITHDRAW_VOTE.at(approval.id)
            after = decoded(await link.send(path, {}), Approval, path)
            if not json:
                print_sentence(f"approval {approval.id}: your vote is taken back: {tally(after)}")
            return after

        return await _each([await short_ids.approval(link, text) for text in ids], withdrawn, "approvals", json=json)


def _outcome(approval: Approval) -> str:
    if approval.state != "pending":
        return decided(approval)
    return f"approval {approval.id}: your vote counts: {waits_for_another(approval)}"


async def _cancel(ids: tuple[str, ...], reason: str | None, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        async def canceled(command: Command) -> Command:
            target = {"command_id": command.id}
            body = {"type": "cancel", "target": target, **({"reason": reason} if reason else {})}
            after = decoded(await link.send(SUBMIT_COMMAND.at(), body), Command, SUBMIT_COMMAND.at())
            if not json:
                now = await link.read(GET_COMMAND.at(command.id), Command)
                print_sentence(f"{command.id} is {now.state.replace('_', ' ')}")
            return after

        return await _each([await short_ids.live_command(link, text) for text in ids], canceled, "commands", json=json)
