"""What a prompt asks for, and the sentences that tell how it went. Pure: text in, text out."""

from __future__ import annotations

import signal as signals

MAX_COMMANDS = 1_000
"""A prompt with more commands than this is refused before any of them runs."""
SHOWN_COMMAND_CHARS = 200
"""A command is cut to this length where a sentence quotes it; the tool call's title and input hold it whole."""


class ScriptRefused(Exception):
    """The prompt cannot be run; the text is one sentence for the user, and nothing of the prompt has run."""


def parse(text: str) -> list[str]:
    """The commands of a prompt, in order: its lines, without the empty ones and those that begin with `#`.

    A line that ends in an odd number of backslashes goes on in the next one; as in a shell, the backslash and the line
    break vanish, so that what is asked for is one line and is exactly what runs.
    Raises ScriptRefused where there is no command, a NUL character, or more than MAX_COMMANDS.
    """
    commands: list[str] = []
    pending = ""
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.removesuffix("\r")
        if "\0" in line:
            raise ScriptRefused(f"Line {number} of the prompt holds a NUL character, which no command can: remove it.")
        if not pending and line.lstrip().startswith("#"):
            continue
        if _goes_on(line):
            pending += line[:-1]
            continue
        commands.append((pending + line).lstrip())
        pending = ""
    commands = [command for command in [*commands, pending.lstrip()] if command.strip()]
    if not commands:
        raise ScriptRefused("The prompt holds no command: write at least one line to run, each as in a shell.")
    if len(commands) > MAX_COMMANDS:
        raise ScriptRefused(
            f"The prompt holds {len(commands)} commands, more than {MAX_COMMANDS}: split it, or call a script."
        )
    return commands


def _goes_on(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def shown(command: str) -> str:
    """The command as a sentence quotes it, at most SHOWN_COMMAND_CHARS characters."""
    return command if len(command) <= SHOWN_COMMAND_CHARS else command[: SHOWN_COMMAND_CHARS - 1] + "…"


def ending(exit_code: int | None, signal: int | None) -> str:
    """How a command ended, in words that fit "command 2 of 3 …": exactly one argument is set."""
    if signal is not None:
        return f"was ended by signal {signal} ({_signal_name(signal)})"
    return "succeeded" if exit_code == 0 else f"failed with exit status {exit_code}"


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"real-time signal {number}"


def stopped(number: int, total: int, ended: str, command: str) -> str:
    """The sentence for the command that stopped the prompt, and for what was therefore not run."""
    rest = total - number
    unrun = f", and {rest} more {'was' if rest == 1 else 'were'} not run" if rest else ""
    return f"command {number} of {total} {ended}{unrun}: {shown(command)}"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
