"""A job's summary in Markdown (O-10). Text from others is in code spans and fences that it cannot close, so it is never
read as a row, a link, an image or HTML of ours. There are lists and no tables, since a bar inside a code span would end
a cell. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from interlock.command.audit.audit_report import plural
from interlock.command.card.permission_request import request_of_approval, title_of_approval
from interlock.command.card.text import one_line, visible
from interlock.doors.ci.evidence import TaskEvidence
from interlock.protocol.answers import StagedChanges
from interlock.protocol.box import LANDING
from interlock.protocol.clock import parse_iso
from interlock.protocol.resources import Approval, Command, Session

PROMPT_CHARS = 2_000
ANSWER_CHARS = 20_000
"""Characters of the end of the agent's text that are shown."""
TITLE_CHARS = 300
APPROVALS_SHOWN = 50
RECORDS_SHOWN = 100
FILES_SHOWN = 50
MAX_SUMMARY_BYTES = 512 * 1024
"""GitHub drops a step's summary above 1 MiB."""
_TICKS = re.compile("`+")
_STATES = {"consumed": "granted (used)", "void": "void: the task ended first"}
_SIGNS = {"succeeded": "✅", "canceled": "⏹️"}


class JobFacts(NamedTuple):
    """The data of a summary. `evidence` is None if the log was not read, for the reason in `not_proven`; `overdue` is
    the approval that exceeded the limit, if any."""

    command: Command
    approvals: Sequence[Approval]
    link: str
    prompt: str
    host: str
    answer: str = ""
    session: Session | None = None
    changes: StagedChanges | None = None
    evidence: TaskEvidence | None = None
    not_proven: str = ""
    overdue: str | None = None


def summary(facts: JobFacts) -> str:
    """Write the summary."""
    text = "\n".join([*_head(facts), *_facts(facts), *_approvals(facts), *_changes(facts), *_audit(facts),
                      *_answer(facts)]) + "\n"
    return text if len(text.encode()) <= MAX_SUMMARY_BYTES else "\n".join([*_head(facts), *_facts(facts)]) + "\n"


def span(text: str, limit: int = TITLE_CHARS) -> str:
    """Return text from others as one code span that it cannot close."""
    line = one_line(text, limit) or " "
    ticks = "`" * (1 + max((len(run) for run in _TICKS.findall(line)), default=0))
    pad = " " if line[0] in "` " or line[-1] in "` " else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def fenced(text: str) -> str:
    """Return text from others as a block that it cannot close."""
    shown = visible(text.replace("\r\n", "\n")).strip("\n")
    ticks = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(shown)), default=0))
    return f"{ticks}text\n{shown}\n{ticks}"


def _head(facts: JobFacts) -> Iterator[str]:
    command = facts.command
    sign = _SIGNS.get(command.state, "❌")
    yield f"## {sign} Interlock: {command.state.replace('_', ' ')}"
    yield ""
    if facts.overdue is not None:
        yield f"{span(facts.overdue)} was not decided within the pipeline's limit."
        yield ""
    if command.error is not None and command.state != "succeeded":
        yield f"{span(command.error.code)}: {span(command.error.message, 1_000)}"
        yield ""


def _facts(facts: JobFacts) -> Iterator[str]:
    command = facts.command
    yield f"- Agent: {span(command.target.agent_id or '?')} on {span(facts.host)}"
    yield f"- Task: {span(command.id)} in session {span(command.target.session_id or '?')}"
    yield f"- Workspace: {span(command.target.workspace or '?')}"
    yield f"- Sent by: {span(command.actor.id)}"
    if command.started_at and command.ended_at:
        yield f"- Duration: {(parse_iso(command.ended_at) - parse_iso(command.started_at)) / 1000:.1f} s"
    yield from _cost(facts)
    yield ""
    yield "Prompt:"
    yield ""
    yield fenced(_cut(facts.prompt, PROMPT_CHARS))
    yield ""


def _cost(facts: JobFacts) -> Iterator[str]:
    result, session = facts.command.result, facts.session
    count = result.output.usage if result is not None else None
    if session is not None and session.total_tokens:
        yield f"- Tokens: {session.total_tokens} ({session.input_tokens} in, {session.output_tokens} out)"
    elif count is not None and count.totalTokens:
        yield f"- Tokens: {count.totalTokens} ({count.promptTokens} in, {count.completionTokens} out)"
    if session is not None and session.cost_usd:
        yield f"- Cost: {session.cost_usd:.4f} USD, as the agent reports it"


def _approvals(facts: JobFacts) -> Iterator[str]:
    yield "### Approvals"
    yield ""
    if not facts.approvals:
        yield "None was asked for."
    for approval in facts.approvals[:APPROVALS_SHOWN]:
        yield (f"- **{_STATES.get(approval.state, approval.state)}**: {span(title_of_approval(approval))} · "
               f"[{approval.id}]({facts.link}/a/{approval.id})")
        if approval.decided_by:
            yield f"  - decided by {span(approval.decided_by)} at {span(approval.decided_at or '?')}"
        for vote in approval.votes:
            withdrawn = ", withdrawn" if vote.withdrawn_at else ""
            yield f"  - vote: {vote.decision} by {span(vote.by)} at {span(vote.at)}{withdrawn}"
        yield f"  - rule {span(approval.rule)}, digest {span(approval.digest)}"
    if (left := len(facts.approvals) - APPROVALS_SHOWN) > 0:
        yield f"- and {left} more"
    for denial in facts.command.denials:
        reason = f": {span(denial.reason)}" if denial.reason else ""
        yield f"- not run: {span(denial.title)}, denied by {span(denial.by)}{reason}"
    yield ""


def _changes(facts: JobFacts) -> Iterator[str]:
    landed = [name for approval in facts.approvals
              if approval.tool_name == LANDING and approval.state in ("granted", "consumed")
              for name in _files(approval)]
    staged = facts.changes
    if not landed and (staged is None or not staged.count):
        return
    yield "### Changes"
    yield ""
    for name in landed[:FILES_SHOWN]:
        yield f"- landed: {name}"
    if (left := len(landed) - FILES_SHOWN) > 0:
        yield f"- and {left} more"
    if staged is not None and staged.count:
        for file in staged.files[:FILES_SHOWN]:
            yield f"- staged, not landed: {span(file.change, 20)} {span(file.path)}"
        if (left := staged.count - min(FILES_SHOWN, len(staged.files))) > 0:
            yield f"- and {left} more"
        yield f"- digest of what is staged: {span(staged.digest)}"
    yield ""


class _Landed(msgspec.Struct):
    path: str
    change: str = "changed"


class _Landing(msgspec.Struct):
    files: list[_Landed] = []


def _files(approval: Approval) -> Iterator[str]:
    try:
        landing = msgspec.json.decode(request_of_approval(approval).input, type=_Landing)
    except msgspec.MsgspecError:
        return
    for file in landing.files:
        yield f"{span(file.change, 20)} {span(file.path)}"


def _audit(facts: JobFacts) -> Iterator[str]:
    yield "### Audit"
    yield ""
    proof = facts.evidence
    if proof is None:
        yield f"Not proven: {span(facts.not_proven, 1_000)}"
        yield ""
        return
    yield (f"{plural(len(proof.rows), 'record')} of this task are proven to be in the log {span(proof.origin)}, which "
           f"was signed at {plural(proof.size, 'record')}.")
    yield ""
    yield f"- root of the Merkle tree: {span(proof.root)}"
    yield f"- SHA-256 of the key that signs: {span(proof.key_sha256)}"
    last = proof.rows[-1]
    yield f"- hash of its last record, {last.seq}: {span(last.hash)}"
    yield "- check the proof file with: `interlock audit verify --proof FILE --key gateway.pub`"
    yield ""
    yield f"<details><summary>Records {proof.rows[0].seq} to {last.seq}</summary>"
    yield ""
    for row in proof.rows[:RECORDS_SHOWN]:
        yield f"- {row.seq} · {span(row.at, 40)} · {span(row.who.get('id', '?'))} · {span(row.action, 40)} · " \
              f"{span(row.hash, 64)}"
    if (left := len(proof.rows) - RECORDS_SHOWN) > 0:
        yield f"- and {left} more"
    yield ""
    yield "</details>"
    yield ""


def _answer(facts: JobFacts) -> Iterator[str]:
    if not facts.answer.strip():
        return
    yield "<details><summary>What the agent wrote</summary>"
    yield ""
    shown = facts.answer[-ANSWER_CHARS:]
    yield fenced(shown if shown == facts.answer else "…" + shown)
    yield ""
    yield "</details>"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit - 1] + "…"
