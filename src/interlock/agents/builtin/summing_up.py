"""Summarise a conversation for its continuation: the agent's part of a compaction (Z-3, Z-4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import Model

from interlock.agents.builtin.cache import Cache, ContextEntry, Message
from interlock.agents.builtin.choice import ModelChoice
from interlock.agents.builtin.messages import parts_of, text_of
from interlock.agents.builtin.model_request import DISCARD, ModelTimeouts, RequestFailed, RequestInput, ask
from interlock.ports.agent import CompactionFailed
from interlock.protocol.payloads import Compacted, Covers, PreservedElements, SessionCompact
from interlock.session.context.compaction_plan import CompactionPlan, size_fault, tokens_after
from interlock.session.context.tokens import text_tokens

TIMEOUT_S = 300.0
"""Limit of a whole compaction; the gateway waits a little longer."""
MAX_RESULT_CHARS = 2_000
"""Characters of one tool's result that a summary is made from."""
MAX_ARGUMENT_CHARS = 1_000
ROOM_SHARE = 0.6
"""Share of the window for the conversation in one request. A longer one needs several, each continuing the last
summary."""
LEAST_SUMMARY = 1_024
UNKNOWN_WINDOW = 128_000

SYSTEM = """\
You sum up conversations between a person and a coding agent, so that another agent can go on with the work. Answer \
with the summary alone: do not go on with the conversation, and do not answer what is asked in it."""
TASK = """\
Create a detailed summary of the conversation above, in this form:

## Goal
What the person wants, with every wish and limit that was named.
## Done
What was done, with the files, names, commands and results that matter.
## Decided
Decisions and why.
## Open
What is in the works, what is to be done next, what failed and is not mended.

Keep exact paths, names and error messages. Leave out what does not matter any more."""
CARRY_ON = """\
The summary of what came before the conversation above is in <previous-summary>. Create a detailed summary of the \
conversation together with it, in the same form: keep what still matters, and bring it up to date."""
TURN_HEAD = """\
The conversation above is the beginning of a turn whose end is kept as it is. Create a short summary of the \
conversation above: what was asked, what was done so far, and what the end cannot be understood without."""
SPLIT = "\n\n---\n\n**Beginning of the turn that continues below:**\n\n"


class SummaryModel(NamedTuple):
    """The model that writes a summary."""

    model: Model
    choice: ModelChoice
    timeouts: ModelTimeouts
    window: int | None
    spent: Callable[[ModelResponse], object]
    """Counts each answer: the usage of a summary costs money as well (P-7)."""


class SummedUp(NamedTuple):
    """The result of a plan: the report, and the conversation from now on."""

    report: Compacted
    entries: tuple[ContextEntry, ...]


async def sum_up(asker: SummaryModel, request: SessionCompact, cache: Cache) -> SummedUp:
    """Carry out a plan. Raises CompactionFailed with one sentence."""
    plan, count = _plan(request)
    parts = _parts(plan, count, cache)
    planned = (request.plan or {}).get("summary")
    # A hook's summary is used as it is: no model is asked (Z-6).
    summary = planned if isinstance(planned, str) else await _made(asker, plan, parts, request.instructions)
    fault = size_fault(summary)
    if fault is not None:
        raise CompactionFailed(f"{fault[0].upper()}{fault[1:]}.")
    preserved: PreservedElements = {"files_modified": plan.modified_files} if plan.modified_files else {}
    report = Compacted(
        summary=summary, previous_token_count=plan.tokens_before,
        current_token_count=tokens_after(plan.tokens_before, plan.tokens_kept, plan.tokens_summarised,
                                         text_tokens(summary)), preserved_elements=preserved, trigger="requested",
        request_id=request.request_id, covers=Covers(plan.first_kept, count))
    entry: Message = {"role": "compactionSummary", "summary": summary, "tokensBefore": plan.tokens_before}
    return SummedUp(report, (ContextEntry("", entry), *parts.kept))


def check_goes_on(entries: Sequence[ContextEntry], live: Sequence[Message]) -> None:
    """Check that in mid-turn the kept entries end at the turn's position: with its last result, or its prompt. Raises
    CompactionFailed: else a tool would be called again."""
    last, there = live[-1], entries[-1].message
    same = there.get("role") == last.get("role") and there.get("toolCallId") == last.get("toolCallId")
    if not same:
        raise CompactionFailed("The plan's context does not end at the turn's position.")


async def _made(asker: SummaryModel, plan: CompactionPlan, parts: _Parts, instructions: str | None) -> str:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            summary = await _summary(asker, plan, parts, instructions)
    except TimeoutError:
        raise CompactionFailed(f"{asker.choice.name} did not write the summary in {TIMEOUT_S:.0f} s.") from None
    except RequestFailed as failed:
        raise CompactionFailed(str(failed)) from None
    if not summary.strip():
        raise CompactionFailed(f"{asker.choice.name} returned an empty summary.")
    return summary + _files("read-files", plan.read_files) + _files("modified-files", plan.modified_files)


class _Parts(NamedTuple):
    """The parts into which a plan divides the conversation."""

    before: list[Message]
    """The messages to be summarised, without the head of a turn that is split."""
    head: list[Message]
    kept: list[ContextEntry]


def _plan(request: SessionCompact) -> tuple[CompactionPlan, int]:
    try:
        plan = msgspec.convert(request.plan or {}, CompactionPlan)
    except msgspec.ValidationError as error:
        raise CompactionFailed(f"The plan cannot be read: {error}.") from None
    count = (request.plan or {}).get("entries")
    return plan, count if isinstance(count, int) else len(plan.entry_ids)


def _parts(plan: CompactionPlan, count: int, cache: Cache) -> _Parts:
    at = cache.up_to(plan.first_kept)
    if at is None:
        raise CompactionFailed(f"The plan keeps the entries from {plan.first_kept} on, which is not here.")
    gone, kept = cache.entries[: at - 1], list(cache.entries[at - 1 :])
    wanted = set(plan.entry_ids) or {entry.id for entry in gone if entry.message.get("role") != "compactionSummary"}
    summarised = [entry for entry in gone if entry.id in wanted]
    if len(summarised) != count:
        raise CompactionFailed(f"The plan names {count} entries, of which {len(summarised)} are here.")
    head = set(plan.turn_head)
    return _Parts([entry.message for entry in summarised if entry.id not in head],
                  [entry.message for entry in summarised if entry.id in head], kept)


async def _summary(asker: SummaryModel, plan: CompactionPlan, parts: _Parts, instructions: str | None) -> str:
    most = max(plan.max_summary_tokens, LEAST_SUMMARY)
    summary = plan.previous_summary or ""
    if parts.before:
        for piece in _pieces(parts.before, asker.window):
            summary = await _asked(asker, piece, CARRY_ON if summary else TASK, summary, instructions, most)
    if parts.head:
        # The head replaces the removed part of a turn that is kept: it is summarised separately (Z-3).
        head = ""
        for piece in _pieces(parts.head, asker.window):
            head = await _asked(asker, piece, TURN_HEAD, head, instructions, max(most // 2, LEAST_SUMMARY))
        summary = f"{summary}{SPLIT}{head}" if summary else head
    return summary


def _pieces(messages: Sequence[Message], window: int | None) -> Iterable[str]:
    """Yield the conversation as text, in pieces that fit in a request."""
    room = int((window or UNKNOWN_WINDOW) * ROOM_SHARE)
    piece, size = list[str](), 0
    for message in messages:
        text = _as_text(message)
        tokens = text_tokens(text)
        if tokens > room:  # A single message: its beginning and its end.
            chars = max(len(text) * room // tokens // 2, 1)
            text, tokens = f"{text[:chars]}\n…\n{text[-chars:]}", room
        if piece and size + tokens > room:
            yield "\n\n".join(piece)
            piece, size = [], 0
        piece.append(text)
        size += tokens
    if piece:
        yield "\n\n".join(piece)


def _as_text(message: Mapping[str, Any]) -> str:
    """Render a message as text, not as a message: the model must not mistake the conversation for its own."""
    copied = dict(message)
    match message.get("role"):
        case "assistant":
            calls = [f"[Agent calls] {part.get('name')} {_short(part.get('arguments'))}" for part in parts_of(copied)
                     if part.get("type") == "toolCall"]
            text = "\n".join(str(part.get("text")) for part in parts_of(copied) if part.get("type") == "text")
            return "\n".join([*([f"[Agent] {text}"] if text.strip() else []), *calls])
        case "toolResult":
            text = text_of(copied)
            cut = f"{text[:MAX_RESULT_CHARS]}…" if len(text) > MAX_RESULT_CHARS else text
            return f"[Result of {message.get('toolName')}{' (failed)' if message.get('isError') else ''}] {cut}"
        case "branchSummary" | "compactionSummary":
            return f"[Summary] {message.get('summary')}"
        case "bashExecution":
            return f"[Person ran] {message.get('command')}\n{str(message.get('output'))[:MAX_RESULT_CHARS]}"
        case _:
            pictures = sum(part.get("type") == "image" for part in parts_of(copied))
            return f"[Person] {text_of(copied)}" + (f" [{pictures} pictures]" if pictures else "")


def _short(arguments: Any) -> str:
    try:
        text = msgspec.json.encode(arguments).decode()
    except RecursionError:
        text = "(nested too deep)"
    return f"{text[:MAX_ARGUMENT_CHARS]}…" if len(text) > MAX_ARGUMENT_CHARS else text


async def _asked(asker: SummaryModel, conversation: str, task: str, previous: str, instructions: str | None,
                 most: int) -> str:
    parts = [f"<conversation>\n{conversation}\n</conversation>"]
    if previous:
        parts.append(f"<previous-summary>\n{previous}\n</previous-summary>")
    parts.append(task)
    if instructions:
        parts.append(f"What matters most to who asked for it: {instructions}")
    wanted = RequestInput([ModelRequest(parts=[UserPromptPart("\n\n".join(parts))])], SYSTEM, max_tokens=most)
    response = await ask(asker.model, asker.choice, wanted, DISCARD, asker.timeouts)
    asker.spent(response)
    if response.finish_reason != "stop":
        # Half a summary would replace the conversation permanently (Z-4).
        why = "was cut at the limit of its length" if response.finish_reason == "length" \
            else f"ended with {(response.provider_details or {}).get('finish_reason') or response.finish_reason}"
        raise CompactionFailed(f"The summary by {asker.choice.name} {why}, so it is not complete.")
    return _text(response)


def _text(response: ModelResponse) -> str:
    return "".join(part.content for part in response.parts if isinstance(part, TextPart)).strip()


def _files(name: str, paths: Sequence[str]) -> str:
    return f"\n\n<{name}>\n" + "\n".join(paths) + f"\n</{name}>" if paths else ""
