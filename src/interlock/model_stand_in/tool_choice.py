"""Find the offered tool for an action (write, edit, fetch), and its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .conversation import NAMESPACE_END, OfferedTool
from .shell_tool import EMPTY, shell_call

DEEDS: Mapping[str, tuple[str, ...]] = {
    "write": ("write", "write_file", "writefile", "create", "create_file"),
    "edit": ("edit", "edit_file", "replace", "strreplacefile", "str_replace", "search_replace", "patch"),
    "fetch": ("webfetch", "web_fetch", "fetch", "fetchurl", "fetch_url"),
    "mark": ("leave_mark",),
}
"""Names in order of preference; compared with the last part of a name such as `developer__write`, in lower case."""
_OF_SERVERS = frozenset({"mark"})
"""Tools of MCP servers: agents add the server's name as a prefix, each in its own way."""
_DEFERRED = "tool_call"
"""The tool by which qwen calls one that it does not offer directly."""
_BEHIND: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "fetch": ("web_fetch", ("url",)), "mark": ("mcp__interlock_check__leave_mark", ("name",)),
}
"""Maps an action without an offered tool to the tool called through `_DEFERRED`, and which of its values it takes. The
prompt of a fetch is filled in."""
OUTSIDE = "outside"
"""The action of running {command} outside the agent's own sandbox."""
_ESCALATION = "sandbox_permissions"
DELEGATES = ("task", "agent", "delegate", "delegate_task", "spawn_agent", "invoke_agent", "subagent")
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "path": ("path", "file_path", "filepath", "filename", "absolute_path"),
    "content": ("content", "file_text", "contents", "text"),
    "old": ("old_string", "oldstring", "old_str", "oldtext", "before", "old", "search"),
    "new": ("new_string", "newstring", "new_str", "newtext", "after", "new", "replace"),
    "url": ("url", "uri", "prompt"),
    "prompt": ("prompt", "instructions", "task", "goal", "message"),
    "name": ("name",),
}


def action_call(
    action: str, tools: Iterable[OfferedTool], values: Mapping[str, str]
) -> tuple[str, dict[str, Any]] | None:
    """Return the name and arguments of the tool that does `action` with {path, content, old, new, url, name}; None if
    none is offered."""
    if action == OUTSIDE:
        return _outside(tools, values)
    tools = tuple(tools)
    found = (_ending if action in _OF_SERVERS else _find)(DEEDS.get(action, ()), tools)
    if found is not None:
        return found.name, _fill(found.schema, values)
    return _patched(action, tools, values) or _deferred(action, tools, values)


def _patched(action: str, tools: Iterable[OfferedTool], values: Mapping[str, str]) -> tuple[str, dict[str, Any]] | None:
    """Return a file change as the patch that Codex accepts in a command, for a model without a tool for it."""
    path, lines = values.get("path", ""), list[str]()
    match action:
        case "write":
            lines = [f"*** Add File: {path}", *(f"+{line}" for line in values.get("content", "").splitlines())]
        case "edit":
            lines = [f"*** Update File: {path}", "@@", f"-{values.get('old', '')}", f"+{values.get('new', '')}"]
        case _:
            return None
    patch = "\n".join(["apply_patch <<'EOF'", "*** Begin Patch", *lines, "*** End Patch", "EOF", ""])
    return shell_call(_sandboxed(tools), patch)


def _deferred(
    action: str, tools: Iterable[OfferedTool], values: Mapping[str, str]
) -> tuple[str, dict[str, Any]] | None:
    if action not in _BEHIND or _find((_DEFERRED,), tools) is None:
        return None
    name, members = _BEHIND[action]
    arguments = {member: values.get(member, "") for member in members}
    return _DEFERRED, {"name": name, "arguments": arguments | ({"prompt": "say it"} if action == "fetch" else {})}


def _outside(tools: Iterable[OfferedTool], values: Mapping[str, str]) -> tuple[str, dict[str, Any]] | None:
    """Return a shell command that asks to leave the agent's own sandbox (Codex)."""
    found = shell_call(_sandboxed(tools), values.get("command", "true"))
    return None if found is None else (found[0], {**found[1], _ESCALATION: "require_escalated",
                                                  "justification": "it writes a file"})


def _sandboxed(tools: Iterable[OfferedTool]) -> list[OfferedTool]:
    return [tool for tool in tools if _ESCALATION in (tool.schema.get("properties") or {})]


def delegate_call(tools: Iterable[OfferedTool], prompt: str) -> tuple[str, dict[str, Any]] | None:
    """Return the name and arguments that start a sub-agent with `prompt`; None if the agent offers none."""
    found = _find(DELEGATES, tools)
    if found is None:
        return None
    arguments = _fill(found.schema, {"prompt": prompt})
    properties: dict[str, Any] = found.schema.get("properties") or {}
    if "description" in properties:
        arguments["description"] = "run it"
    if "agent_name" in properties:  # Gemini CLI
        arguments["agent_name"] = "generalist"
    # Kimi's kinds have other names, and one is its default.
    if "subagent_type" in properties and (found.name != "Agent" or "subagent_type" in found.schema.get("required", [])):
        kinds: list[str] = properties["subagent_type"].get("enum") or [
            "general" if found.name == "task" else "general-purpose"]
        arguments["subagent_type"] = kinds[0]
    return found.name, arguments


def _find(names: tuple[str, ...], tools: Iterable[OfferedTool]) -> OfferedTool | None:
    by_name = {tool.name.rpartition(NAMESPACE_END)[-1].rsplit("__", 1)[-1].lower(): tool for tool in tools}
    return next((by_name[name] for name in names if name in by_name), None)


def _ending(names: tuple[str, ...], tools: Iterable[OfferedTool]) -> OfferedTool | None:
    return next((tool for tool in tools if tool.name.lower().endswith(names)), None)


def _fill(schema: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, Any]:
    """Put each value into the property with its name, and a placeholder into other required ones."""
    properties: dict[str, Any] = schema.get("properties") or {}
    spelled = {name.lower(): name for name in properties}
    arguments: dict[str, Any] = {}
    for what, value in values.items():
        name = next((spelled[one] for one in _FIELDS[what] if one in spelled), None)
        if name is not None:
            arguments.setdefault(name, value)
    required: list[str] = schema.get("required") or []
    for name in required:
        wanted: dict[str, Any] = properties.get(name) or {}
        if name in arguments:
            continue
        items: dict[str, Any] = wanted.get("items") or {}
        choices: list[Any] = wanted.get("enum") or []
        if wanted.get("type") == "array" and items.get("properties"):
            arguments[name] = [_fill(items, values)]
        else:
            arguments[name] = choices[0] if choices else EMPTY.get(str(wanted.get("type")), "run")
    return arguments
