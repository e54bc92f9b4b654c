"""Read the effect of a permission request of Kimi Code 2.1.0, which names a tool and shortens its arguments (H-2).

The arguments are in the announcement, as the model wrote them. They are used only if the request is for the announced
tool and its words match them. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from interlock.agents.acp.effects import Effect, RequestRead, content_of, json_object, with_input
from interlock.agents.acp.wire import text_of

_ASKS = "Requesting approval to "
_CUT = "…"
_COMMAND_UNITS = 50
"""UTF-16 code units of a command that a request shows; a longer one is cut there. No other argument is."""
_MCP = "mcp__"


class _Words(NamedTuple):
    """How a request names one act: the words before the value of an argument."""

    act: str
    member: str


class _Tool(NamedTuple):
    words: tuple[_Words, ...]
    kind: str | None = None
    """Its kind, if the announcement has `other`."""


# No other tool of this version asks: a request for one, such as FetchURL, Skill or Agent, counts as described only.
_TOOLS: Mapping[str, _Tool] = {
    "Bash": _Tool((_Words("Running: ", "command"), _Words("Starting background: ", "command")), "execute"),
    "Write": _Tool((_Words("Writing ", "path"),), "edit"),
    "Edit": _Tool((_Words("Editing ", "path"),), "edit"),
    "TaskStop": _Tool((_Words("Stopping task ", "task_id"),)),
    "CronCreate": _Tool((_Words("Scheduling cron ", "cron"), _Words("Scheduling one-shot ", "cron"))),
    "CronDelete": _Tool((_Words("Deleting cron ", "id"),)),
}


def kimi_effect(request: RequestRead) -> Effect | None:
    """Return the announced arguments; None if the request does not match them, or is for an untested tool."""
    own, announced = request.own, request.announced
    words = text_of(content_of(own))
    arguments = json_object(text_of(announced.content))
    if arguments is None or not own.title or own.title != announced.title or not words.startswith(_ASKS):
        return None
    request_words = words.removeprefix(_ASKS)
    if own.title.startswith(_MCP):
        return Effect(with_input(own, arguments)) if request_words == f"Approve {own.title}" else None
    tool = _TOOLS.get(own.title)
    if tool is None or not any(_named(one, request_words, arguments) for one in tool.words):
        return None
    return Effect(with_input(own, arguments, tool.kind))


def _named(words: _Words, request_words: str, arguments: dict[str, Any]) -> bool:
    value = arguments.get(words.member)
    if not isinstance(value, str) or not request_words.startswith(words.act):
        return False
    shown = request_words.removeprefix(words.act)
    if words.member == "cron":  # It is shown with single blanks.
        value = " ".join(value.split())
    return shown in _shortened(value) if words.member == "command" else shown == value


def _shortened(command: str) -> tuple[str, ...]:
    """Return how a request may show a command. The cut may halve a character, whose half is shown or missing."""
    units = command.encode("utf-16-le", "surrogatepass")
    if len(units) <= 2 * _COMMAND_UNITS:
        return (command,)
    beginning = units[:2 * _COMMAND_UNITS]
    return tuple(beginning.decode("utf-16-le", errors) + _CUT for errors in ("replace", "ignore"))
