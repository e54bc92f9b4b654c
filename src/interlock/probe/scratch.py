"""The HOME of a checked agent: the settings that decide what it asks about, and no login.

A JSON or TOML file is copied without its MCP servers; of a YAML file the single values at its top level are copied. The
stand-in's settings are merged over them.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, cast

import json5
import msgspec

from interlock.agents.evidence import settings_digest
from interlock.agents.workspace_files import ignoring_env
from interlock.ports.agent import AgentSpec
from interlock.probe.model_endpoint import NOT_A_KEY, Pointing, pointing_of
from interlock.runner.process.environment import environment

MAX_SETTINGS_BYTES = 1_000_000
"""A larger settings file is not copied."""
_SERVERS = frozenset({"mcp", "mcpServers", "mcp_servers"})
"""Programs of the user that an agent would start; the check does not try their tools."""
_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?)$", re.IGNORECASE)
_HOMES = frozenset({"HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "QWEN_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME"})
"""Variables that would lead the agent out of the scratch HOME, to its user's logins."""
_YAML_VALUE = re.compile(r"^(\w+):[ \t]+([^\s#].*)$", re.MULTILINE)
_YAML_KEY = re.compile(r"^(\w+):", re.MULTILINE)
_CLOSED = "http://127.0.0.1:9"
"""A proxy that does not exist: connections that are not to loopback fail at once."""


def settings_of(pointing: Pointing, home: Path) -> dict[str, bytes]:
    """Return the user's settings files by their path below HOME; absent and too large ones are omitted."""
    found: dict[str, bytes] = {}
    for name in pointing.settings:
        try:
            if (home / name).stat().st_size <= MAX_SETTINGS_BYTES:
                found[name] = (home / name).read_bytes()
        except OSError:
            continue
    return found


def digest_of(spec: AgentSpec, base: Mapping[str, str]) -> str:
    """Return the digest that a check made now would have; `base` is the runner's own environment."""
    return settings_digest(spec, base, settings_of(pointing_of(spec.adapter, spec.command), home_of(spec, base)))


def home_of(spec: AgentSpec, base: Mapping[str, str]) -> Path:
    """Return the HOME that the agent has when the runner starts it."""
    return Path(spec.env.get("HOME") or base.get("HOME") or "/nonexistent")


def furnish(home: Path, settings: Mapping[str, bytes], files: Mapping[str, str]) -> None:
    """Write the scratch HOME: `settings` without their secrets, `files` merged over them."""
    for name in {**settings, **files}:
        text = _merged(name, settings.get(name, b""), files.get(name, ""))
        place = home / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")


def surroundings(spec: AgentSpec, pointing: Pointing, url: str, *, home: Path, workspace: Path, session_id: str,
                 base: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of the checked agent: as in the runner (A-1), but with HOME and the XDG directories
    in the scratch HOME, no secret, and no access to the network."""
    configured = {name: NOT_A_KEY if _SECRET.search(name) else value
                  for name, value in {**ignoring_env(spec), **spec.env}.items() if name not in _HOMES}
    made = environment(base, session_id=session_id, workspace=workspace, runner_id="check", extra=configured)
    made = {name: value for name, value in made.items() if not name.startswith("XDG_")}
    closed = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _CLOSED)
    loopback = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
    return made | closed | loopback | dict(pointing.env(url)) | {"HOME": str(home)}


def _merged(name: str, own: bytes, ours: str) -> str:
    text = own.decode("utf-8", "replace")
    if name.endswith((".json", ".jsonc")):
        return msgspec.json.encode(_deep(_without_servers(_json(text)), _json(ours))).decode()
    if name.endswith(".toml"):
        return _toml_values(text, ours) + ours
    taken = set(_YAML_KEY.findall(ours))
    kept = [f"{key}: {value}\n" for key, value in _YAML_VALUE.findall(text)
            if key not in taken and not _SECRET.search(key)]
    return "".join(kept) + ours


def _json(text: str) -> dict[str, Any]:
    try:
        found: Any = json5.loads(text) if text.strip() else {}
    except ValueError:
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}


def _without_servers(own: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in own.items() if key not in _SERVERS and not _SECRET.search(key)}


def _deep(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    made = dict(under)
    for key, value in over.items():
        below = made.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            made[key] = _deep(cast(dict[str, Any], below), cast(dict[str, Any], value))
        else:
            made[key] = value
    return made


def _toml_values(own: str, ours: str) -> str:
    try:
        values = tomllib.loads(own)
    except ValueError:
        return ""
    taken = tomllib.loads(ours)
    return "".join(f"{member}\n" for member in _members(values, _SERVERS | taken.keys()))


def _members(table: Mapping[str, Any], left_out: AbstractSet[str] = frozenset()) -> list[str]:
    """Return the members of a TOML table, one text each, without secrets and values that cannot be written here."""
    kept = {key: _value(value) for key, value in table.items() if key not in left_out and not _SECRET.search(key)}
    return [f"{msgspec.json.encode(key).decode()} = {value}" for key, value in kept.items() if value is not None]


def _value(value: object) -> str | None:
    """Return a TOML value on one line, tables inline; None for dates and times."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case str() | int() | float():
            return msgspec.json.encode(value).decode()
        case list():
            inner = [_value(one) for one in cast(list[object], value)]
            return f"[{', '.join(one for one in inner if one is not None)}]"
        case dict():
            return f"{{ {', '.join(_members(cast(dict[str, Any], value)))} }}"
        case _:
            return None
