"""An approval at the terminal: what is asked, shown whole, and the answer of the person who sits there (section 3)."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Literal, Protocol, cast

import msgspec

from interlock.cli.gateway_link import GatewayLink
from interlock.cli.terminal import is_terminal, one_line, printable, say, write
from interlock.cli.trouble import Trouble
from interlock.cli.values import rule_line, until
from interlock.protocol.resources import Approval, Decision, RememberedRule

Answering = Literal["ask", "yes", "elsewhere"]
"""How approvals are answered here: asked at the terminal, granted by `--yes`, or left to another place."""
CARD_LINES = 60
"""An input of more lines is shown up to here, and in full on request."""
LINE_BYTES = 4_096
_CHOICES = {False: "y = yes, n = no, ? = show all",
            True: "y = yes, s = always in this session, a = always, n = no, ? = show all"}


_WIDTHS = {"exact": "exactly this", "program": "this program and first word", "below": "this tool below this directory"}


class Answers(Protocol):
    """Where a person's answers come from."""

    async def line(self) -> str | None:
        """Wait for one line, without its end; None when no more will come. A wait that is cancelled loses nothing."""
        ...


class TerminalAnswers:
    """Reads lines from a terminal without a thread, so that a question decided elsewhere can be taken back."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""

    async def line(self) -> str | None:
        """Wait for a line."""
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


def card(approval: Approval, *, whole: bool = False) -> str:
    """Write an approval as it is shown wherever it is decided; every text of others is printable."""
    host = approval.runner_id or "a runner"
    asker = f"{approval.requested_by.type} {approval.requested_by.id}" if approval.requested_by else "the agent"
    lines = [
        f"approval {approval.id} · {approval.state}",
        f"  asked by  {one_line(asker)}" + (f" · agent {one_line(approval.agent_id)}" if approval.agent_id else ""),
        *([f"  where     {one_line(host)}:{one_line(approval.workspace or '(its first root)')}"]
          if approval.verb is None or approval.runner_id else []),
        f"  what      {one_line(approval.title)}" + (f" · tool {one_line(approval.tool_name)}"
                                                     if approval.tool_name else ""),
        *(f"    {line}" for line in _input_lines(bytes(approval.input), whole)),
        f"  rule      {one_line(approval.rule)}",
        (f"  votes     {grants(approval)} of {approval.required} needed" + _quorum(approval)
         if approval.kind == "permission" else "  wanted    an answer in words") + _left(approval),
        f"  digest    sha256:{approval.digest}",
    ]
    return "\n".join(lines)


def grants(approval: Approval) -> int:
    """How many yeses count now: those that were taken back do not."""
    return sum(1 for vote in approval.votes if vote.decision == "grant" and vote.withdrawn_at is None)


async def say_remembered(link: GatewayLink, approval: Approval) -> None:
    """Show the rule that a vote left behind, and how it is taken back (A-9)."""
    if approval.remembered is None:
        return
    answer = msgspec.json.decode(await link.get("/v1/policy/rules"), type=_Remembered)
    rule = next((one.rule for one in answer.rules if one.id == approval.remembered), dict[str, Any]())
    say(f"remembered as {approval.remembered}: {rule_line(rule)}; take it back with: interlock policy forget "
        f"{approval.remembered}", "dim")


class _Remembered(msgspec.Struct):
    rules: list[RememberedRule] = []


class _Width(msgspec.Struct):
    width: str
    rule: dict[str, Any]


class _Proposal(msgspec.Struct):
    rule: dict[str, Any] = {}
    widths: list[_Width] = []


def _quorum(approval: Approval) -> str:
    groups = "".join(f", {group.min} of them {group.role}" for group in approval.groups)
    return groups + (", signed" if approval.signed else "")


def elsewhere(approval: Approval) -> str:
    """Say where else an approval can be answered."""
    if approval.kind == "question":
        return f'answer from any terminal: interlock answer {approval.id} "…"  ·  interlock answer {approval.id} --none'
    return f"answer from any terminal: interlock approve {approval.id}  ·  interlock deny {approval.id}"


def decided(approval: Approval) -> str:
    """Say how an approval was decided, and by whom."""
    by = f" by {approval.decided_by}" if approval.decided_by else ""
    if approval.kind == "question" and approval.state in ("granted", "consumed", "denied"):
        said = "declined" if approval.answer is None else f"answered{by}: {one_line(approval.answer, 200)}"
        return f"question {approval.id} was {said}"
    why = f": {one_line(approval.comment)}" if approval.comment else ""
    return f"approval {approval.id} was {_DECIDED.get(approval.state, approval.state)}{by}{why}"


_DECIDED = {"granted": "granted", "consumed": "granted", "denied": "denied", "expired": "not answered in time",
            "void": "withdrawn, since what asked for it is gone", "superseded": "replaced by a new one"}


def _left(approval: Approval) -> str:
    return f" · {until(approval.expires_at)} left" if approval.state == "pending" else ""


def _input_lines(raw: bytes, whole: bool) -> Iterator[str]:
    lines = [part for line in printable(_readable(raw)).split("\n") for part in (textwrap.wrap(
        line, 100, drop_whitespace=False, replace_whitespace=False, expand_tabs=False) or [""])]
    yield from lines if whole else lines[:CARD_LINES]
    if not whole and len(lines) > CARD_LINES:
        yield f"… {len(lines) - CARD_LINES} more lines; answer ? to see all"


def _readable(raw: bytes) -> str:
    """The input as the agent gave it, laid out; a lone command as it would be typed; the digest is of the bytes."""
    try:
        value: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return raw.decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        if members.keys() == {"command"} and isinstance(members["command"], str):
            return f"$ {members['command']}"
        if said := _prompt_of(members) or _question_of(members):
            return said
    return msgspec.json.format(raw, indent=2).decode("utf-8", "replace")


def _prompt_of(payload: dict[str, Any]) -> str | None:
    """The words of an execute's payload, where it is nothing but words."""
    if payload.keys() != {"messages"}:
        return None
    try:
        parts = [part for message in payload["messages"] for part in message["content"]]
        if all(part["contentType"] == "text" for part in parts):
            return "\n".join(str(part["value"]) for part in parts)
    except (KeyError, TypeError):
        return None
    return None


def _question_of(members: dict[str, Any]) -> str | None:
    """A question with its choices numbered, if it is nothing more than that."""
    if not {"question", "options"} <= members.keys() <= _QUESTION:
        return None
    question, header, several = members["question"], members.get("header", ""), members.get("multiSelect", False)
    options = cast("list[Any]", members["options"]) if isinstance(members["options"], list) else []
    shown = [cast("dict[str, Any]", one) for one in options if isinstance(one, dict)]
    texts = [question, header, *(value for one in shown for value in one.values())]
    plain = len(shown) == len(options) > 0 and all({"label"} <= one.keys() <= _CHOICE for one in shown)
    if not plain or not all(isinstance(text, str) for text in texts) or not isinstance(several, bool):
        return None
    lines = [f"{header}: {question}" if header else question]
    lines += [f"  {number} {one['label']}" + (f": {one['description']}" if one.get("description") else "")
              for number, one in enumerate(shown, 1)]
    return "\n".join([*lines, "Answer with several, separated by commas." if several else
                      "Answer with one of them, or its number."])


_QUESTION = {"question", "header", "options", "multiSelect"}
_CHOICE = {"label", "description"}


async def vote(
    link: GatewayLink, approval: Approval, decision: Decision, comment: str | None = None,
    more: dict[str, Any] | None = None,
) -> Approval:
    """Cast a vote on exactly what was shown; `more` are other members of its body (GrantBody). Raises Trouble; after
    `Unreachable` the vote may not have counted."""
    members: dict[str, Any] = {"decision": decision, "method": "acl", "digest": approval.digest, **(more or {})}
    if comment:
        members["comment"] = comment
    path = f"/v1/approvals/{approval.id}/grants"
    try:
        return msgspec.json.decode(await link.send(path, members), type=Approval)
    except Trouble as trouble:
        if trouble.code == "Unreachable":
            raise Trouble("Unreachable", f"{trouble.sentence} It is not known whether the vote was counted",
                          f"Look: interlock approvals {approval.id}") from None
        raise


async def answer_question(link: GatewayLink, asked: Approval, text: str | None) -> Approval:
    """Answer an agent's question, or decline with None. Raises Trouble."""
    path = f"/v1/approvals/{asked.id}/answers"
    return msgspec.json.decode(await link.send(path, {"text": text}), type=Approval)


class Asker:
    """Answers approvals as they come, in the way that was chosen."""

    def __init__(self, link: GatewayLink, how: Answering, answers: Answers | None) -> None:
        self._link = link
        self._how: Answering = "elsewhere" if how == "ask" and answers is None else how
        self._answers = answers

    async def answer(self, approval: Approval) -> bool:
        """Deal with a pending approval until it is answered here, or left to others; whether its decision was said.

        Cancel it once it is decided elsewhere. Raises Trouble for a vote that was refused.
        """
        if self._how == "yes" and approval.kind == "permission":
            say(f"--yes allows {approval.id}: {one_line(approval.title)} · sha256:{approval.digest}", "dim")
            return await self._vote(approval, "grant", "allowed by --yes")
        if self._how == "ask" and self._answers is not None:
            ask = self._ask_words if approval.kind == "question" else self._ask
            return await ask(approval, self._answers)
        say(card(approval), "yellow")
        say(f"waiting for you; {elsewhere(approval)}", "yellow")
        return False

    async def _ask(self, approval: Approval, answers: Answers) -> bool:
        say("waiting for you", "yellow")
        say(card(approval))
        say(elsewhere(approval), "dim")
        while True:
            match await self._line(f"Allow it this once? {_CHOICES[self._may_always(approval)]}: ", answers):
                case None:
                    say(f"left open; {elsewhere(approval)}", "yellow")
                    return False
                case "y" | "yes":
                    return await self._vote(approval, "grant")
                case "n" | "no":
                    why = await self._line("Why not? (Enter for no reason): ", answers, lower=False)
                    return await self._vote(approval, "deny", why)
                case "s" | "a" as always if self._may_always(approval):
                    scope = "session" if always == "s" else "rule"
                    wish = await self._agreed(approval, scope, answers)
                    if wish is not None:
                        return await self._vote(approval, "grant", more={"remember": wish})
                case "?":
                    say(card(approval, whole=True))
                case _:
                    say("Please answer y or n.")

    def _may_always(self, approval: Approval) -> bool:
        """One person's always can stand for a plain yes of one person, and for nothing else (A-9)."""
        plain = approval.required == 1 and not approval.groups and not approval.signed and approval.self_approval
        return plain and approval.kind == "permission"

    async def _agreed(self, approval: Approval, scope: str, answers: Answers) -> dict[str, Any] | None:
        """Show the rule before it is saved, in each width that fits the call; None if the person goes back."""
        shown = await self._link.read(f"/v1/approvals/{approval.id}/rule", _Proposal, {"scope": scope})
        if len(shown.widths) < 2:
            say(f"this rule would be kept: {rule_line(shown.rule)}")
            agreed = await self._line("Allow it, and keep the rule? y = yes, anything else = back: ", answers)
            return {"scope": scope} if agreed in ("y", "yes") else None
        say("one of these rules would be kept:")
        for number, offer in enumerate(shown.widths, 1):
            say(f"  {number} = {_WIDTHS.get(offer.width, offer.width)}: {rule_line(offer.rule)}")
        numbers = f"1 to {len(shown.widths)}"
        chosen = await self._line(f"Allow it, and keep which? {numbers}, anything else = back: ", answers)
        if chosen is None or not chosen.isdecimal() or not 1 <= int(chosen) <= len(shown.widths):
            return None
        width = shown.widths[int(chosen) - 1].width
        return {"scope": scope} if width == "exact" else {"scope": scope, "match": {"width": width}}

    async def _ask_words(self, asked: Approval, answers: Answers) -> bool:
        say("the agent asks you", "yellow")
        say(card(asked))
        say(elsewhere(asked), "dim")
        text = await self._line("Your answer (Enter for none): ", answers, lower=False)
        if text is None:
            say(f"left open; {elsewhere(asked)}", "yellow")
            return False
        try:
            after = await answer_question(self._link, asked, text.strip() or None)
        except Trouble as trouble:
            if trouble.code != "Conflict":
                raise
            return False  # Answered elsewhere meanwhile.
        say(decided(after), "green")
        return True

    async def _line(self, question: str, answers: Answers, *, lower: bool = True) -> str | None:
        write(sys.stderr, question)
        line = None
        try:
            line = await answers.line()
        finally:
            if line is None:  # No more answers, or decided elsewhere: the question's line ends here.
                write(sys.stderr, "\n")
        return line.lower() if line is not None and lower else line

    async def _vote(
        self, approval: Approval, decision: Decision, comment: str | None = None, more: dict[str, Any] | None = None
    ) -> bool:
        try:
            after = await vote(self._link, approval, decision, comment, more)
        except Trouble as trouble:
            if trouble.code != "Conflict":
                raise
            return False  # Decided elsewhere meanwhile: the status says who did.
        if after.state == "pending":
            say(f"your vote counts: {grants(after)} of {after.required} needed", "green")
            return False
        say(decided(after), "green" if decision == "grant" else "yellow")
        await say_remembered(self._link, after)
        return True
