"""Read the effect of a permission request of Gemini CLI 0.61.0, which sends no input at all (H-2). Pure.

| tool | read from |
|---|---|
| an edit | its diff, with the whole new text |
| a command | the title; the content has the directory, the model's description, and whether it runs in the background |
| a fetch | the title, which contains the prompt with its addresses, unless it was cut at 100 characters |
| an MCP tool | the content, which is the arguments as JSON up to 500 characters |
"""

from __future__ import annotations

import re
from typing import Any

from interlock.agents.acp.effects import (
    Effect,
    RequestRead,
    content_of,
    diff_path,
    json_object,
    paths_of,
    with_input,
)
from interlock.agents.acp.wire import text_of

_PROMPT = ('Processing URLs and instructions from prompt: "', '"')
_ADDRESS = "Fetching content from: "
MAX_PROMPT_UNITS = 100
"""UTF-16 units of a prompt in a title; a longer one is cut to this length, with dots at its end."""
_DOTS = "..."
_BACKGROUND = " [background]"
_SERVER = " MCP Server)"


def gemini_effect(request: RequestRead) -> Effect | None:
    """Return the effect; None if the request does not contain all of it."""
    own = request.own
    content = content_of(own)
    match own.kind:
        case "edit":
            paths = paths_of(own)
            one_file = len(content) == 1 and len(paths) == 1 and diff_path(content[0]) == paths[0]
            return Effect(own, whole=True) if one_file else None
        case "execute":
            found = _command(own.title or "", text_of(content), request.workspace)
        case "fetch":
            found = _fetched(own.title or "")
        case "other":
            found = _arguments(own.title or "", text_of(content))
        case _:
            return None
    return None if found is None else Effect(with_input(own, found))


def _command(title: str, details: str, workspace: str) -> dict[str, Any] | None:
    """Return a command with its context. The text after the directory is the model's own: if it could be mistaken for
    another directory, or for the background mark, nothing is read."""
    if not title:
        return None
    here = f"[current working directory {workspace}]"
    if details.startswith(here):
        return _with_words({"command": title}, details.removeprefix(here))
    found = re.fullmatch(r"\[in ([^][]+)\]((?: \((?:(?!\] \().)*\))?)", details)
    return None if found is None else _with_words({"command": title, "dir_path": found[1]}, found[2])


def _with_words(command: dict[str, Any], rest: str) -> dict[str, Any] | None:
    if rest.endswith(_BACKGROUND):
        rest = rest.removesuffix(_BACKGROUND)
        command = {**command, "is_background": True}
    if not rest:
        return command
    return {**command, "description": rest[2:-1]} if rest.startswith(" (") and rest.endswith(")") else None


def _fetched(title: str) -> dict[str, Any] | None:
    """Return the fetched prompt, and the addresses in it as the tool finds them: by blanks."""
    if title.startswith(_ADDRESS):
        return {"url": title.removeprefix(_ADDRESS)}
    start, end = _PROMPT
    if not title.startswith(start) or not title.endswith(end) or len(title) < len(start) + len(end):
        return None
    prompt = title[len(start):-len(end)]
    if prompt.endswith(_DOTS) and len(prompt.encode("utf-16-le")) // 2 >= MAX_PROMPT_UNITS:
        return None
    return {"prompt": prompt, "urls": [word for word in prompt.split() if "://" in word]}


def _arguments(title: str, text: str) -> dict[str, Any] | None:
    """Return an MCP tool and its arguments. One with a command has the command as its title and does not name the tool.
    """
    arguments = json_object(text) if title.endswith(_SERVER) else None
    if arguments is None or isinstance(arguments.get("command"), str):
        return None
    return {"tool": title, "arguments": arguments}
