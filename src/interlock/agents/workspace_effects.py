"""Describe the effects of a file that configures an agent, one line per program, server and permission (H-13). Pure.

Only well-known formats are read (JSON with comments, TOML, rules of codex). Anything else is reported as not
understood: a person is asked about the file in any case, so an empty list never means that it is harmless.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, cast

import msgspec

MAX_LINES = 20
"""Lines about one file."""
MAX_LINE_CHARS = 300
MAX_DEPTH = 12
MAX_JSON5_BYTES = 64 * 1024
"""A larger file with comments is not read: its parser is slow."""
_SERVERS = frozenset({"mcpServers", "mcp_servers", "mcp", "servers"})
_HELPERS = frozenset({"apiKeyHelper", "awsAuthRefresh", "awsCredentialExport", "otelHeadersHelper", "statusLine",
                      "notify", "discoveryCommand", "callCommand"})
_ADDRESSES = frozenset({"baseURL", "base_url", "baseUrl", "api_base", "apiBase", "endpoint"})
_ALLOWS = frozenset({"allow", "allowed", "allowedTools", "coreTools", "trust", "enableAllProjectMcpServers", "yolo",
                     "autoAccept", "enabledMcpjsonServers", "allowedMcpServers", "alwaysAllow"})
_MODES = frozenset({"defaultMode", "approvalMode", "approval_mode", "approval_policy", "sandbox_mode", "permissionMode",
                    "default_agent", "mode"})
_PLUGINS = frozenset({"plugin", "plugins", "extensions", "packages"})
_COMMANDS = frozenset({"command", "bash", "powershell", "cmd"})
_CODE = frozenset({".js", ".ts", ".mjs", ".cjs", ".py", ".sh", ".wasm"})
_RULE = re.compile(r"^[^#\n]*decision\s*=\s*[\"']allow[\"'][^\n]*$", re.MULTILINE)
_INLINE = re.compile(r"!`([^`\n]+)`")
_SETTING = re.compile(r"^[ \t-]*(?:command|args|url|base_url|mode|approvals|plugins|allow)[ \t]*:[^\n]*$", re.MULTILINE)
"""A line of YAML that a person should see."""
_GRANT = re.compile(r"^\s*(?:allowed-tools|tools|permissionMode|permission|bash|edit|write|\"?\*\"?)\s*:.*$",
                    re.MULTILINE)


def effects(path: str, content: bytes) -> list[str]:
    """Return the effects of the file, at most MAX_LINES lines."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _CODE:
        return ["is code that the agent, or a hook, runs"]
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return ["is not a text file"]
    if suffix == ".rules":
        return _cut(f"rule: {line.strip()}" for line in _RULE.findall(text))
    if suffix == ".md":
        return _cut(_prose(text))
    if PurePosixPath(path).name == ".env":
        return _cut(f"sets {line.strip()}" for line in text.splitlines() if "=" in line and not line.startswith("#"))
    if suffix in (".yaml", ".yml"):
        return _yaml(text)
    if suffix not in (".json", ".jsonc", ".toml"):
        return []
    read = _read(suffix, text, len(content))
    if read is None:
        return ["could not be read as its name says"]
    return _cut(_walk(read, (), 0))


def _yaml(text: str) -> list[str]:
    """Return the effects of a YAML file: by its keys if it is JSON, a subset of YAML, else by its lines that name a
    program, an address or a mode."""
    try:
        found: Any = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return _cut(f"sets {line.strip()}" for line in _SETTING.findall(text)) or [
            "is YAML, whose settings are not listed here"]
    return _cut(_walk(cast("Mapping[str, Any]", found), (), 0)) if isinstance(found, dict) else []


def _read(suffix: str, text: str, size: int) -> Mapping[str, Any] | None:
    try:
        found: Any = tomllib.loads(text) if suffix == ".toml" else _json(text, size)
    except (ValueError, RecursionError):
        return None
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else None


def _json(text: str, size: int) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        if size > MAX_JSON5_BYTES:
            raise ValueError("too large to be read with comments") from None
    import json5

    return json5.loads(text)


def _walk(found: Any, at: tuple[str, ...], depth: int) -> Iterator[str]:
    """Walk through all members; a known value is reported as a whole, other ones are searched."""
    if depth > MAX_DEPTH:
        yield "holds more than is shown"
        return
    if isinstance(found, list):
        for one in cast("list[Any]", found):
            yield from _walk(one, at, depth + 1)
        return
    if not isinstance(found, dict):
        return
    for name, value in cast("dict[str, Any]", found).items():
        yield from _member(name, value, at, depth)


def _member(name: str, value: Any, at: tuple[str, ...], depth: int) -> Iterator[str]:
    if name == "hooks" and isinstance(value, dict):
        yield from _hooks(cast("dict[str, Any]", value))
    elif name in _SERVERS and isinstance(value, dict | list):
        yield from _servers(value)
    elif name in _HELPERS and value:
        yield f"{name} runs: {_text(value)}"
    elif name in ("env", "environment") and isinstance(value, dict):
        yield from (f"sets {key}={_text(one)}" for key, one in cast("dict[str, Any]", value).items())
    elif name == "permission":
        yield f"permission: {_text(value)}"
    elif name in _ALLOWS and value:
        yield f"{'.'.join((*at, name))}: {_text(value)}"
    elif name in _MODES and isinstance(value, str):
        yield f"{'.'.join((*at, name))}: {value}"
    elif name in _PLUGINS and value:
        yield f"loads {name}: {_text(value)}"
    elif name in _ADDRESSES and isinstance(value, str):
        yield f"sends requests to {value} ({'.'.join((*at, name))})"
    elif name in _COMMANDS and value and isinstance(value, str | list):
        yield f"{'.'.join((*at, name))} runs: {_text(value)}"
    else:
        yield from _walk(value, (*at, name), depth + 1)


def _hooks(events: Mapping[str, Any]) -> Iterator[str]:
    for event, hooks in events.items():
        for command in dict.fromkeys(_commands(hooks, 0)):
            yield f"at {event} runs: {command}"


def _commands(found: Any, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        return
    if isinstance(found, list):
        for one in cast("list[Any]", found):
            yield from _commands(one, depth + 1)
    elif isinstance(found, dict):
        for name, value in cast("dict[str, Any]", found).items():
            if name in (*_COMMANDS, "url", "prompt") and isinstance(value, str | list):
                yield _text(value)
            else:
                yield from _commands(value, depth + 1)


def _servers(found: Any) -> Iterator[str]:
    for name, server in _named_servers(found):
        command, args = server.get("command"), server.get("args")
        if command is not None:
            words = [*_list(command), *_list(args)]
            yield f"starts the MCP server {name}: {shlex.join(words) if len(words) > 1 else words[0]}"
        else:
            yield f"connects to the MCP server {name}: {_text(server.get('url') or server.get('httpUrl') or server)}"
        if server.get("env"):
            yield f"with {_text(server['env'])}"
        if server.get("trust"):
            yield f"allows the tools of {name} without asking"


def _named_servers(found: Any) -> list[tuple[str, dict[str, Any]]]:
    """Yield servers by name: an object's members, or a list's by their `name`."""
    if isinstance(found, dict):
        return [(name, cast("dict[str, Any]", one)) for name, one in cast("dict[str, Any]", found).items()
                if isinstance(one, dict)]
    servers = [cast("dict[str, Any]", one) for one in cast("list[Any]", found) if isinstance(one, dict)]
    return [(str(one.get("name", number)), one) for number, one in enumerate(servers)]


def _prose(text: str) -> Iterator[str]:
    """Yield the effects of instructions: programs that run as they are loaded, and permissions in their header."""
    yield from (f"runs: {command}" for command in _INLINE.findall(text))
    head = text.split("---", 2)[1] if text.startswith("---") and text.count("---") > 1 else ""
    yield from (f"says {line.strip()}" for line in _GRANT.findall(head))


def _list(found: Any) -> list[str]:
    if isinstance(found, list):
        return [str(one) for one in cast("list[Any]", found)] or [""]
    return [] if found is None else [str(found)]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    words = _list(cast("list[Any] | str", value)) if isinstance(value, list) else []
    if words and words == value:
        return " ".join(words)
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        return f"{value}"


def _cut(lines: Iterator[str]) -> list[str]:
    shown: list[str] = []
    for line in lines:
        if len(shown) == MAX_LINES:
            return [*shown[:-1], "and more that is not shown: read the file"]
        shown.append(line if len(line) <= MAX_LINE_CHARS else f"{line[:MAX_LINE_CHARS - 1]}…")
    return shown
