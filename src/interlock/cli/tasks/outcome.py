"""The last line of a followed command, and its exit status."""

from __future__ import annotations

from interlock.cli.display.terminal import notice, one_line
from interlock.cli.display.values import between, count
from interlock.cli.exit_status import ExitStatus, of_command
from interlock.protocol.codes import MEANINGS, Code
from interlock.protocol.denial_text import MAX_REASON_CHARS, No
from interlock.protocol.resources import Command

_STYLE = {"succeeded": "green", "canceled": "bold"}
GOES_ON = "the work continues"
NOT_RUN = "✗ not run:"
SENTENCE_CHARS = MAX_REASON_CHARS + 200
"""A reason that a person wrote is shown in full, with their name."""
SHOWN_DENIALS = 5
"""Maximum number of denied calls that the last lines name; they count the others."""


def exit_of(command: Command) -> ExitStatus:
    """Return the exit status for the outcome of a command."""
    return of_command(command.state, command.error.code if command.error else None)


def close_line(command: Command, *, shown: bool = True) -> None:
    """Print in one line how a command ended; if it failed, as an error with its remedy. A line for each denied call
    precedes it, with the person or rule that denied it, and why (Y-5). `shown` means that the agent's text is above
    it."""
    for line in denied_lines(command):
        notice(NOT_RUN, line.removeprefix(NOT_RUN).lstrip(), "red")
    if command.error is not None and command.state != "succeeded":
        notice(f"error[{command.error.code}]:", f"{_sentence(command)} {remedy(command, shown=shown)}".rstrip(), "red")
        return
    # Green would mean success, and yellow is illegible on a light background.
    ended = _ended(command)
    style = "bold" if command.denials and command.state == "succeeded" else _STYLE.get(command.state, "red")
    notice(ended, _facts(command).removeprefix(ended).lstrip(), style)


def denied_lines(command: Command) -> list[str]:
    """Return a line for each call of a command that did not run because it was denied."""
    lines = [f"{NOT_RUN} {one_line(denial.title)} · "
             f"{one_line(No(denial.by, denial.reason).sentence(), SENTENCE_CHARS)}"
             for denial in command.denials[:SHOWN_DENIALS]]
    left = len(command.denials) - SHOWN_DENIALS
    return [*lines, f"{NOT_RUN} {count(left, 'more call')}"] if left > 0 else lines


def interrupted_line(command_id: str) -> str:
    """Return the sentence that the work continues, and how to follow it again."""
    return f"{GOES_ON}; come back with: interlock attach {command_id}  ·  end it with: interlock cancel " \
           f"{command_id}"


def remedy(command: Command, *, shown: bool = True) -> str:
    """Return the remedy for a command that ended without its result."""
    code = command.error.code if command.error else ""
    if code in _AGENT_ENDED:
        return _remedy_of_exit(command, shown=shown)
    if code in Code.__members__:
        return MEANINGS[Code(code)].remedy
    return _REMEDIES.get(code) or _BY_STATE.get(command.state, "")


_AGENT_ENDED = {Code.PROCESS_EXIT, Code.SIGNAL_EXIT, "AgentExited"}
"""Codes whose cause is in the last output of the agent."""


def _remedy_of_exit(command: Command, *, shown: bool) -> str:
    """Return the remedy for an agent that ended: its last lines name the cause, otherwise its output, if it has any."""
    if not shown:
        return f"See the agent's last lines with: interlock attach {command.id} --from-start"
    if command.error is not None and _last_lines(command.error.message):
        return "Correct what they name, and run it again."
    output = command.result.output if command.result is not None else None
    if output is not None and (output.output or output.tool_calls):
        return "Correct what its output names, and run it again."
    return "It wrote no reason: run it again, or start the agent by hand in that workspace to see why."


_REMEDIES = {
    "LedgerRestored": "Look at its workspace; `interlock status` shows what the ledger lacks.",
    "AgentLost": "The runner no longer knows of it; see `interlock doctor`, and run it again.",
    "PromptRefused": "Change the prompt, and run it again.",
}
_BY_STATE = {
    "timed_out": "Give it longer with --timeout.",
    "expired": "Run it again, and answer within the time.",
    "rejected": "Ask the person who decided, or change what it does.",
    "canceled": "Run it again if it is still wanted.",
}


def _ended(command: Command) -> str:
    denied = f", but {count(len(command.denials), 'call')} denied" if command.denials else ""
    return command.state.replace("_", " ") + denied


def _facts(command: Command) -> str:
    parts = [_ended(command), between(command.started_at, command.ended_at)]
    if command.result is not None:
        output = command.result.output
        if output.tool_calls:
            parts.append(count(len(output.tool_calls), "tool call"))
        if output.usage is not None and output.usage.totalTokens:
            parts.append(f"{output.usage.totalTokens} tokens")
        if output.awaiting_input:
            parts.append("it waits for your answer: interlock run … --continue")
    parts.append(command.id)
    return " · ".join(part for part in parts if part)


def _sentence(command: Command) -> str:
    """Return the message of a command that failed, with its id; after it, what the agent wrote to standard error."""
    assert command.error is not None
    reason, lines = one_line(command.error.message.partition("\n")[0], SENTENCE_CHARS), \
        _last_lines(command.error.message)
    state = command.state.replace("_", " ")
    ended = "" if state == "failed" or state in reason else f"{state}, "
    sentence = f"{reason.rstrip('.')} ({ended}{command.id})."
    return f"{sentence} Its last lines: {lines.rstrip('.')}." if lines else sentence


def _last_lines(message: str) -> str:
    """Return what the message of an error quotes of the agent's standard error, on one line; "" if nothing."""
    return one_line(message.partition("\n")[2], SENTENCE_CHARS)
