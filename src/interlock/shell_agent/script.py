"""Parse a prompt into commands, and write the sentences about their outcome. Pure."""

from __future__ import annotations

import signal as signals

MAX_COMMANDS = 1_000
"""A prompt with more commands than this is refused before any of them runs."""
SHOWN_COMMAND_CHARS = 200
"""Length of a command in a sentence; the tool call's title and input have it whole."""


class ScriptRefused(Exception):
    """The prompt cannot be run; the text is one sentence for the user, and no command of it has run."""


def parse(text: str) -> list[str]:
    """Return the commands of a prompt, in order: its lines, without empty ones and those that begin with `#`.

    A line that ends in an odd number of backslashes continues in the next one; as in a shell, the backslash and the
    line break are removed, so that the approved command is one line and is exactly what runs. Raises ScriptRefused if
    there is no command, a NUL character, or more than MAX_COMMANDS.
    """
    commands: list[str] = []
    pending = ""
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.removesuffix("\r")
        if "\0" in line:
            raise ScriptRefused(f"Line {number} of the prompt contains a NUL character: remove it.")
        if not pending and line.lstrip().startswith("#"):
            continue
        if _goes_on(line):
            pending += line[:-1]
            continue
        commands.append((pending + line).lstrip())
        pending = ""
    commands = [command for command in [*commands, pending.lstrip()] if command.strip()]
    if not commands:
        raise ScriptRefused("The prompt contains no command: write at least one line to run, each as in a shell.")
    if len(commands) > MAX_COMMANDS:
        raise ScriptRefused(
            f"The prompt contains {len(commands)} commands, more than {MAX_COMMANDS}: split it, or call a script."
        )
    return commands


def _goes_on(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def shown(command: str) -> str:
    """Return the command for a sentence, at most SHOWN_COMMAND_CHARS characters."""
    return command if len(command) <= SHOWN_COMMAND_CHARS else command[: SHOWN_COMMAND_CHARS - 1] + "…"


def ending(exit_code: int | None, signal: int | None) -> str:
    """Return how a command ended, to follow "command 2 of 3 …": exactly one argument is set."""
    if signal is not None:
        return f"was ended by signal {signal} ({_signal_name(signal)})"
    return "succeeded" if exit_code == 0 else f"failed with exit status {exit_code}"


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"real-time signal {number}"


def stopped(number: int, total: int, ended: str, command: str) -> str:
    """Return the sentence for the command that stopped the prompt, and the commands that therefore did not run."""
    rest = total - number
    unrun = f", and {rest} more {'was' if rest == 1 else 'were'} not run" if rest else ""
    return f"command {number} of {total} {ended}{unrun}: {shown(command)}"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
