"""Questions of an agent to its user, and the replies to its requests (A-5, C-8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol, cast

import msgspec

from interlock.agents.acp import wire
from interlock.agents.acp.forms import CUSTOM, Field, FormOption, fields_of_questions, fields_of_schema, fill
from interlock.ports.agent import AgentQuestion, TurnWriter

CANCELLED: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}
"""The reply that denies a permission if the agent offers no option for that (A-9)."""
_ASKS_ITS_USER = frozenset({"askuserquestion", "askuser"})
"""Tools, without their underscores and in lower case, whose permission is the question itself."""


class InquiryReply(NamedTuple):
    """The result for the agent's request; `denied` if a permission was denied: `why` is by whom and why, `call` is the
    title of the call that did not run."""

    result: dict[str, Any]
    denied: bool = False
    why: str | None = None
    call: str = ""


class Inquiry(Protocol):
    """One request of the agent that a person, or a rule, answers."""

    async def reply(self) -> InquiryReply:
        """Ask, and wait without a limit."""
        ...


class PermissionInquiry(NamedTuple):
    """The question whether a tool may run."""

    question: AgentQuestion
    turn_writer: TurnWriter

    async def reply(self) -> InquiryReply:
        """Ask, and choose one of the agent's once-options."""
        answer = await self.turn_writer.ask(self.question)
        result = CANCELLED if answer.option_id is None else _selected(answer.option_id)
        if answer.allow:
            return InquiryReply(result)
        return InquiryReply({**result, **_why(answer.message)}, denied=True, why=answer.message,
                            call=self.question.title or self.question.tool_name)


class LateInquiry(NamedTuple):
    """A permission whose call is not reported completely yet. `complete` waits for that; it returns None if the turn
    ends first."""

    complete: Callable[[], Awaitable[Inquiry | None]]

    async def reply(self) -> InquiryReply:
        """Wait for the complete call, then ask."""
        found = await self.complete()
        return InquiryReply(CANCELLED) if found is None else await found.reply()


class FormInquiry(NamedTuple):
    """Fields to be filled in, each a question in words. `about` is the call that asks them."""

    fields: list[Field]
    about: AgentQuestion
    turn_writer: TurnWriter
    over: Callable[[], bool]
    """Whether the turn was cancelled or has ended: then no further field is asked."""

    async def content(self) -> dict[str, Any] | None:
        """Ask for each field; None if there is no answer."""
        return await fill(self.fields, self._ask)

    async def _ask(self, shown: dict[str, Any]) -> str | None:
        if self.over():
            return None
        question = self.about._replace(title=str(shown["question"]), input_json=msgspec.json.encode(shown), options=[],
                                    interaction_type="QUESTION")
        return (await self.turn_writer.ask(question)).text

    async def reply(self) -> InquiryReply:
        """Return the answer to `elicitation/create`."""
        content = await self.content()
        if content is not None:
            return InquiryReply({"action": "accept", "content": content})
        return InquiryReply({"action": "cancel" if self.over() else "decline"})


class AnsweredPermission(NamedTuple):
    """A permission that represents questions: its yes carries the answers (qwen)."""

    form: FormInquiry
    yes: str
    no: str | None

    async def reply(self) -> InquiryReply:
        """Return the answers as texts by the number of their question, beside the option that submits them."""
        content = await self.form.content()
        if content is None:
            return InquiryReply(_selected(self.no) if self.no is not None else CANCELLED, denied=True)
        answers = {field.key: text for field in self.form.fields if (text := _joined(field, content))}
        return InquiryReply({**_selected(self.yes), "answers": answers})


class ChosenPermission(NamedTuple):
    """A permission whose options are the answers to one question (kimi)."""

    form: FormInquiry
    no: str | None

    async def reply(self) -> InquiryReply:
        """Return the option that the words name."""
        content = await self.form.content()
        if content is None:
            return InquiryReply(_selected(self.no) if self.no is not None else CANCELLED, denied=True)
        return InquiryReply(_selected(content[self.form.fields[0].key]))


def inquiry_of(permission: wire.Permission, question: AgentQuestion, turn_writer: TurnWriter,
               over: Callable[[], bool]) -> Inquiry:
    """Return the inquiry behind a `session/request_permission`. `question` is the request as a permission."""
    meta = permission.tool_call.meta or {}
    yes = [option for option in permission.options if option.kind == "allow_once"]
    no = next((option.option_id for option in permission.options if option.kind == "reject_once"), None)
    if meta.get("qwenInteractionKind") == "user_question" and yes:
        fields = fields_of_questions(meta.get("qwenQuestions"))
        if fields is not None:
            return AnsweredPermission(FormInquiry(fields, question, turn_writer, over), yes[0].option_id, no)
    names = {name.replace("_", "").casefold() for name in (question.tool_name, permission.tool_call.title or "")}
    if names & _ASKS_ITS_USER and len(yes) > 1:
        choices = tuple(FormOption(option.option_id, option.name or option.option_id) for option in yes)
        field = Field("option", wire.text_of(permission.tool_call.content) or question.title, "", "choice", choices)
        return ChosenPermission(FormInquiry([field], question, turn_writer, over), no)
    return PermissionInquiry(question, turn_writer)


def elicited(elicitation: wire.Elicitation, about: AgentQuestion, turn_writer: TurnWriter, over: Callable[[], bool]
             ) -> FormInquiry | None:
    """Return the form of an `elicitation/create`; None if words cannot fill it in."""
    fields = fields_of_schema(elicitation.message, elicitation.requested_schema) if elicitation.mode == "form" else None
    return None if fields is None else FormInquiry(fields, about, turn_writer, over)


def _why(message: str | None) -> dict[str, Any]:
    """Return who denied it and why, as ACP's `_meta`: its outcome has no field for that (Y-5). See also `denied_calls`.
    """
    return {"_meta": {"interlock": {"denied": message}}} if message else {}


def _selected(option_id: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option_id}}


def _joined(field: Field, content: dict[str, Any]) -> str:
    value: Any = content.get(field.key, [])
    own: Any = content.get(field.key + CUSTOM)
    texts = cast("list[Any]", value) if isinstance(value, list) else [value]
    return ", ".join(str(text) for text in [*texts, *([own] if own else [])])
