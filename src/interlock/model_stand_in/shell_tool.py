"""Find the offered tool that runs a shell command, and its arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .conversation import OfferedTool

# In order of preference; compared with the last part of a name such as `developer__shell`, in lower case.
_NAMES = (
    "bash",
    "shell",
    "run_shell_command",
    "shell_command",
    "exec_command",
    "execute_command",
    "execute",
    "terminal",
)
_COMMAND_FIELDS = ("command", "cmd", "script")
EMPTY: dict[str, Any] = {"string": "run", "integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}


def shell_call(tools: Iterable[OfferedTool], command: str) -> tuple[str, dict[str, Any]] | None:
    """Return the name and arguments that run `command`, or None if no offered tool is a shell."""
    by_name = {tool.name.rsplit("__", 1)[-1].lower(): tool for tool in tools}
    found = next((by_name[name] for name in _NAMES if name in by_name), None)
    return None if found is None else (found.name, _arguments(found.schema, command))


def _arguments(schema: dict[str, Any], command: str) -> dict[str, Any]:
    properties: dict[str, Any] = schema.get("properties") or {}
    field = next((name for name in _COMMAND_FIELDS if name in properties), _COMMAND_FIELDS[0])
    takes_words = properties.get(field, {}).get("type") == "array"
    arguments: dict[str, Any] = {field: ["bash", "-c", command] if takes_words else command}
    required: list[str] = schema.get("required") or []
    for name in required:
        arguments.setdefault(name, EMPTY.get(str(properties.get(name, {}).get("type")), "run"))
    return arguments
