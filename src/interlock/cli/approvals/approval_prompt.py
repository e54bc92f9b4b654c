"""An approval at the terminal: the complete question, and the answer of the person there (section 3)."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, Protocol

import msgspec

from interlock.cli.approvals.approval_card import CardReading, CardRow, show, show_json
from interlock.cli.approvals.seen_approvals import SeenApprovals
from interlock.cli.display.bell import ring
from interlock.cli.display.terminal import OpenQuestion, is_terminal, one_line, say
from interlock.cli.display.values import rule_line, seconds_from_now, until
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.verb_error import Trouble
from interlock.command.card.permission_request import not_of_its_digest, title_of_approval
from interlock.command.card.votes import waits_for_another
from interlock.protocol.access import Whoami
from interlock.protocol.api.access import WHOAMI
from interlock.protocol.api.approvals import ANSWER_QUESTION, PROPOSE_RULE, VOTE
from interlock.protocol.api.operation import APPROVERS
from interlock.protocol.api.policy import LIST_REMEMBERED_RULES
from interlock.protocol.resources import Approval, Decision
from interlock.sdk.requests.base import read

Answering = Literal["ask", "yes", "elsewhere"]
"""How approvals are answered: asked at the terminal, granted by `--yes`, or left to another surface."""
LINE_BYTES = 4_096
QUIET_S = 0.3
REASON_MARGIN_S = 5.0
"""A no is sent this long before its approval expires, without the reason that its person is asked for."""
UNREAD = "unread"
_CHOICES = {False: "y = yes, n = no, ? = as JSON",
            True: "y = yes, s = always in this session, a = always, n = no, ? = as JSON"}


_WIDTHS = {"exact": "exactly this", "program": "this program and first word", "below": "this tool below this directory",
           "described": "every call of this kind in this session, although the agent does not send what it does"}


class Answers(Protocol):
    """The source of a person's answers."""

    async def line(self, question: str = "") -> str | None:
        """Ask, and wait for one line, without its end; None at the end of the input. A cancelled wait loses nothing."""
        ...


class TerminalAnswers:
    """Reads lines from a terminal without a thread, so that a question decided elsewhere can be withdrawn."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""

    async def line(self, question: str = "") -> str | None:
        """Write the question, and wait for a line. The question's row ends, also without a line.

        Input typed before the question is discarded: it does not answer what its person had not seen (Y-3).

        If other output is written meanwhile, such as a notice or the output of another tool, the question is written
        again below it once there was none for `QUIET_S`.
        """
        if not question:
            return await self._line()
        loop = asyncio.get_running_loop()
        again: asyncio.TimerHandle | None = None

        def interrupted() -> None:
            nonlocal again
            if again is not None:
                again.cancel()
            again = loop.call_later(QUIET_S, open_question.ask_again)

        self._discard_typed()
        open_question = OpenQuestion(question, interrupted)
        open_question.ask()
        line = None
        try:
            line = await self._line()
        finally:
            if again is not None:
                again.cancel()
            open_question.close(answered=line is not None)
        return line

    def _discard_typed(self) -> None:
        with suppress(termios.error):  # Input from a pipe is never typed too early.
            termios.tcflush(self._descriptor, termios.TCIFLUSH)
            self._rest = b""

    async def _line(self) -> str | None:
        loop = asyncio.get_running_loop()
        while b"\n" not in self._rest:
            readable = asyncio.Event()
            loop.add_reader(self._descriptor, readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(self._descriptor)
            read = os.read(self._descriptor, LINE_BYTES)
            if not read:
                return None
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", "replace").strip()


@asynccontextmanager
async def terminal_answers() -> AsyncGenerator[Answers | None]:
    """Open the terminal for answers: standard input, or the controlling terminal when the prompt was piped in."""
    if not is_terminal(sys.stderr):
        yield None
    elif is_terminal(sys.stdin):
        yield TerminalAnswers(sys.stdin.fileno())
    else:
        try:
            descriptor = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
        except OSError:
            yield None
            return
        try:
            yield TerminalAnswers(descriptor)
        finally:
            os.close(descriptor)


async def say_remembered(link: GatewayLink, approval: Approval) -> None:
    """Show the rule that a vote created, and how to revoke it (A-9)."""
    if approval.remembered is None:
        return
    answer = await link.ask(read(LIST_REMEMBERED_RULES))
    rule = next((one.rule for one in answer.rules if one.id == approval.remembered), dict[str, Any]())
    say(f"remembered as {approval.remembered}: {rule_line(rule)}; take it back with: interlock policy forget "
        f"{approval.remembered}", "dim")


def elsewhere(approval: Approval) -> str:
    """Return where else an approval can be answered."""
    if approval.kind == "question":
        return f'answer from any terminal: interlock answer {approval.id} "…"  ·  interlock answer {approval.id} --none'
    return f"answer from any terminal: interlock approve {approval.id}  ·  interlock deny {approval.id}"


def decided(approval: Approval) -> str:
    """Return how an approval was decided, and by whom."""
    by = f" by {approval.decided_by}" if approval.decided_by else ""
    if approval.kind == "question" and approval.state in ("granted", "consumed", "denied"):
        outcome = "declined" if approval.answer is None else f"answered{by}: {one_line(approval.answer, 200)}"
        return f"question {approval.id} was {outcome}"
    what = approval.superseded_by or approval.comment
    why = f": {one_line(what)}" if what else ""
    return f"approval {approval.id} was {_DECIDED.get(approval.state, approval.state)}{by}{why}"


def decision_style(approval: Approval) -> tuple[str, str]:
    """Return the colour of a decision, and the word of `decided` that gets it."""
    allowed = approval.state in ("granted", "consumed")
    if approval.kind == "question" and (allowed or approval.state == "denied"):
        return ("green" if allowed else "bold"), ("answered" if approval.answer is not None else "declined")
    return ("green" if allowed else "red"), _DECIDED.get(approval.state, approval.state)


_DECIDED = {"granted": "granted", "consumed": "granted", "denied": "denied", "expired": "not answered in time",
            "void": "withdrawn, since what asked for it is gone", "superseded": "replaced by a changed one"}


async def check_may_vote(link: GatewayLink) -> None:
    """Check before anything is submitted that `--yes` can answer: that this login may vote. Raises Trouble."""
    me = await link.read(WHOAMI.at(), Whoami)
    if APPROVERS.isdisjoint(me.roles):
        raise Trouble("Forbidden", f"{me.principal.id} ({', '.join(me.roles)}) may not approve, and --yes would.",
                      f"Leave --yes out, and somebody with one of the roles {', '.join(sorted(APPROVERS))} "
                      "answers; or use the key of such a person.")


def check_digest(approval: Approval) -> None:
    """Check that what is shown of an approval is what a yes would cover (Y-3). Raises Trouble."""
    why = not_of_its_digest(approval)
    if why is not None:
        raise Trouble("UpstreamError", why, f"Deny it with: interlock deny {approval.id}; then see: "
                      "interlock audit verify")


async def vote(
    link: GatewayLink, approval: Approval, decision: Decision, comment: str | None = None,
    more: dict[str, Any] | None = None,
) -> Approval:
    """Cast a vote on exactly what was shown; `more` are other members of its body (GrantBody). Raises Trouble, for a
    yes to what is not of its digest before it is sent (Y-3); after `Unreachable` the vote may not have counted."""
    if decision == "grant":
        check_digest(approval)
    members: dict[str, Any] = {"decision": decision, "method": "acl", "digest": approval.digest, **(more or {})}
    if comment:
        members["comment"] = comment
    path = VOTE.at(approval.id)
    try:
        return msgspec.json.decode(await link.send(path, members), type=Approval)
    except Trouble as trouble:
        if trouble.code == "Unreachable":
            raise Trouble("Unreachable", f"{trouble.sentence} It is not known whether the vote was counted",
                          f"Look: interlock approvals {approval.id}") from None
        raise


async def answer_question(link: GatewayLink, approval: Approval, text: str | None) -> Approval:
    """Answer an agent's question, or decline with None. Raises Trouble."""
    path = ANSWER_QUESTION.at(approval.id)
    return msgspec.json.decode(await link.send(path, {"text": text}), type=Approval)


def more_to_read(reading: CardReading) -> str:
    """Return the question below a page that is not the last one."""
    return f"{reading.progress}. Enter = next page, n = no, {UNREAD} = allow it without the rest, ? = as JSON: "


def not_read(reading: CardReading) -> str:
    """Return why a yes does not count yet."""
    return f"Not yet: only {reading.progress}. Press Enter for the next page, or type {UNREAD} to allow it."


def unread_comment(reading: CardReading) -> str:
    """Return what the vote records if a person did not read the whole request (H-4)."""
    return f"not read to the end: {reading.progress}"


def _remembering(scope: str, width: str) -> dict[str, Any]:
    return {"scope": scope} if width == "exact" else {"scope": scope, "match": {"width": width}}


class ApprovalPrompt:
    """Answers approvals as they arrive, in the selected way."""

    def __init__(self, link: GatewayLink, how: Answering, answers: Answers | None,
                 seen: SeenApprovals | None = None) -> None:
        self._link = link
        self._seen = seen
        self._how: Answering = "elsewhere" if how == "ask" and answers is None else how
        self._answers = answers

    async def answer(self, approval: Approval) -> bool:
        """Handle a pending approval until it is answered here or left to others; return whether its decision was shown.

        Cancel it once it is decided elsewhere. Raises Trouble for a vote that was refused.
        """
        why = not_of_its_digest(approval) if approval.kind == "permission" and approval.state == "pending" else None
        if why is not None and self._how != "elsewhere":
            say(f"left open; {why} Deny it with: interlock deny {approval.id}", "bold", "left open;")
            return False
        if self._how == "yes" and approval.kind == "permission":
            act = one_line(title_of_approval(approval))
            say(f"--yes allows {approval.id}: {act} · sha256:{approval.digest}", "dim")
            return await self._vote(approval, "grant", "allowed by --yes")
        ring("a question waits for you" if approval.kind == "question" else "an approval waits for you")
        if self._how == "ask" and self._answers is not None:
            ask = self._ask_words if approval.kind == "question" else self._ask
            return await ask(approval, self._answers)
        self._show(CardReading(approval).one_page(), approval)
        say(f"waiting for you; {elsewhere(approval)}", "bold", "waiting for you;")
        return False

    async def _ask(self, approval: Approval, answers: Answers) -> bool:
        reading = CardReading(approval)
        self._show(reading.next_rows(), approval)
        while True:
            match await self._line(self._question(approval, reading), answers):
                case None:
                    say(f"left open; {elsewhere(approval)}", "bold", "left open;")
                    return False
                case "" if not reading.whole:
                    show(reading.next_rows())
                case "y" | "yes" | "s" | "a" if not reading.whole:
                    say(not_read(reading))
                case "y" | "yes":
                    return await self._vote(approval, "grant")
                case "unread" if not reading.whole:
                    return await self._vote(approval, "grant", unread_comment(reading))
                case "n" | "no":
                    return await self._vote(approval, "deny", await self._reason(approval, answers))
                case "s" | "a" as always if self._may_always(approval):
                    scope = "session" if always == "s" else "rule"
                    remembering = await self._agreed(approval, scope, answers)
                    if remembering is not None:
                        return await self._vote(approval, "grant", more={"remember": remembering})
                case "?":
                    show_json(approval)
                case _:
                    say("Please answer y or n.")

    async def _reason(self, approval: Approval, answers: Answers) -> str | None:
        """Ask for the reason of a no while there is time: one that is sent too late is no vote."""
        try:
            async with asyncio.timeout(max(0.0, seconds_from_now(approval.expires_at) - REASON_MARGIN_S)):
                return await self._line("Why not? (Enter for no reason): ", answers, lower=False)
        except TimeoutError:
            say("denied without a reason, since the approval is about to expire")
            return None

    def _question(self, approval: Approval, reading: CardReading) -> str:
        if not reading.whole:
            return more_to_read(reading)
        return f"Allow it this once? {_CHOICES[self._may_always(approval)]}: "

    def _show(self, rows: list[CardRow], approval: Approval) -> None:
        show(rows)
        if self._seen is not None:
            self._seen.add([approval.id])

    def _may_always(self, approval: Approval) -> bool:
        """Return whether an "always" is possible: one person's can replace a plain yes of one person, and nothing else
        (A-9). A yes to files that configure an agent is remembered by itself (H-13)."""
        plain = approval.required == 1 and not approval.groups and not approval.signed and approval.self_approval
        return plain and not approval.require_independent and not approval.dangerous and approval.kind == "permission" \
            and not approval.workspace_files

    async def _agreed(self, approval: Approval, scope: str, answers: Answers) -> dict[str, Any] | None:
        """Show the rule before it is saved, in each width that fits the call; None if the person returns."""
        try:
            shown = await self._link.ask(read(PROPOSE_RULE, approval.id, scope=scope))
        except Trouble as trouble:
            if trouble.code == "Unreachable":
                raise
            say(trouble.sentence)  # It cannot be remembered; the question stays open.
            return None
        if len(shown.widths) < 2:
            width = shown.widths[0].width if shown.widths else "exact"
            covers = f" ({_WIDTHS[width]})" if width == "described" else ""
            say(f"this rule would be kept{covers}: {rule_line(shown.rule)}")
            agreed = await self._line("Allow it, and keep the rule? y = yes, anything else = back: ", answers)
            return _remembering(scope, width) if agreed in ("y", "yes") else None
        say("one of these rules would be kept:")
        for number, offer in enumerate(shown.widths, 1):
            say(f"  {number} = {_WIDTHS.get(offer.width, offer.width)}: {rule_line(offer.rule)}")
        numbers = f"1 to {len(shown.widths)}"
        chosen = await self._line(f"Allow it, and keep which? {numbers}, anything else = back: ", answers)
        if chosen is None or not chosen.isdecimal() or not 1 <= int(chosen) <= len(shown.widths):
            return None
        return _remembering(scope, shown.widths[int(chosen) - 1].width)

    async def _ask_words(self, approval: Approval, answers: Answers) -> bool:
        say("the agent asks you", "bold")
        self._show(CardReading(approval).all_rows(), approval)
        say(elsewhere(approval), "dim")
        text = await self._line("Your answer (Enter for none): ", answers, lower=False)
        if text is None:
            say(f"left open; {elsewhere(approval)}", "bold", "left open;")
            return False
        try:
            after = await answer_question(self._link, approval, text.strip() or None)
        except Trouble as trouble:
            if trouble.code != "Conflict":
                raise
            return False  # Answered elsewhere meanwhile.
        say(decided(after), *decision_style(after))
        return True

    async def _line(self, question: str, answers: Answers, *, lower: bool = True) -> str | None:
        line = await answers.line(question)
        return line.lower() if line is not None and lower else line

    async def _vote(
        self, approval: Approval, decision: Decision, comment: str | None = None, more: dict[str, Any] | None = None
    ) -> bool:
        try:
            after = await vote(self._link, approval, decision, comment, more)
        except Trouble as trouble:
            if trouble.code == "Forbidden":
                say(trouble.line(), "red", trouble.label)
                say(f"waiting for somebody else, {until(approval.expires_at)} left; {elsewhere(approval)}", "bold",
                    "waiting for somebody else,")
            elif trouble.code != "Conflict":
                raise
            return False  # Left to others; or decided elsewhere meanwhile, and the status states by whom.
        if after.state == "pending":
            say(f"your vote counts: {waits_for_another(after)}", "green", "counts:")
            return False
        say(decided(after), *decision_style(after))
        await say_remembered(self._link, after)
        return True
