"""The agents of `python -m proof door`: as `interlock agents` prints each, pointed at the model stand-in, with an MCP
server of the proof's own in its user's settings."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from interlock.cli.agents.known_agents import KNOWN, KnownAgent
from interlock.ports.agent import AgentSpec
from interlock.probe import mcp_server
from interlock.probe.model_endpoint import pointing_of
from proof import REPOSITORY

AGENTS = ("opencode", "codex-acp", "gemini", "qwen", "copilot", "kimi", "vibe", "hermes", "pi", "kilo", "goose",
          "claude-acp", "claude")
LAB_VARIABLE = "INTERLOCK_TEST_LAB"
"""A directory whose `bin` is looked into before PATH."""
CI_PROGRAMS = REPOSITORY / ".ci" / "node_modules" / ".bin"
NAME = mcp_server.SERVER_NAME
CLOSED_PROXY = "http://127.0.0.1:9"
SANDBOXED = frozenset({"codex-acp"})
"""Agents with a sandbox of their own, which a command may ask to leave."""
OPEN_MODES: Mapping[str, str] = {
    "claude": "bypassPermissions", "claude-acp": "bypassPermissions", "codex-acp": "agent-full-access",
    "copilot": "https://agentclientprotocol.com/protocol/session-modes#autopilot", "gemini": "yolo", "goose": "auto",
    "hermes": "dont_ask", "kilo": "orchestrator", "kimi": "yolo", "opencode": "build", "qwen": "yolo",
    "vibe": "auto-approve", "pi": "auto",
}
"""The mode of each agent that lets most run, by the agent's own word for it."""
PROMPTS: Mapping[str, str] = {"copilot": "/allow-all on", "goose": "/mode auto", "qwen": "/approval-mode yolo"}
"""The prompt that would end the asking; `/yolo` for the others."""


READS_FIRST: Mapping[str, tuple[str, str]] = {"qwen": ("read_file", "file_path")}
"""Agents that edit no file, and ask about none, which their model has not read: the tool, and what it names a path."""


def _no_files(_run: list[str]) -> Mapping[str, str]:
    return {}


def _no_arguments(_run: list[str]) -> tuple[str, ...]:
    return ()


class Servers(NamedTuple):
    """How an agent's user adds an MCP server: files below HOME, and words behind the arguments."""

    files: Callable[[list[str]], Mapping[str, str]] = _no_files
    args: Callable[[list[str]], tuple[str, ...]] = _no_arguments


class Absent(Exception):
    """An agent that is not installed; the text is the reason, one sentence."""


def search_path() -> str:
    """The directories that are searched for agents."""
    lab = os.environ.get(LAB_VARIABLE)
    places = [*([f"{lab}/bin"] if lab else []), str(CI_PROGRAMS), os.environ.get("PATH", os.defpath)]
    return os.pathsep.join(places)


def known(name: str) -> KnownAgent:
    """The line of the table of known agents."""
    return next(one for one in KNOWN if one.agent_id == name)


def configured(name: str, home: Path, workspace: Path, url: str) -> AgentSpec:
    """The agent as its user has it, in a HOME of its own. Raises Absent."""
    one = known(name)
    command = _program(one)
    pointing, servers = pointing_of(one.adapter, one.program), SERVERS.get(name, Servers())
    run = [sys.executable, "-I", str(Path(mcp_server.__file__)), str(workspace)]
    for place, text in [*servers.files(run).items(), *pointing.files(url).items()]:
        _put(home / place, text)
    env = {"HOME": str(home), "PATH": search_path(), **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), CLOSED_PROXY),
           "NO_PROXY": "127.0.0.1,localhost", **pointing.env(url), **one.env}
    more: dict[str, Any] = {"mode": one.mode} if one.mode else {}
    return AgentSpec(adapter=one.adapter, command=command, args=[*one.args, *pointing.args, *servers.args(run)],
                     env=env, asks=one.asks, **more)


def section(name: str, spec: AgentSpec) -> str:
    """`[agents.NAME]` of the config."""
    def text(value: object) -> str:
        return msgspec.json.encode(value).decode()  # A JSON string or array of strings is one of TOML, too.

    lines = [f"[agents.{name}]", f"adapter = {text(spec.adapter)}"]
    lines += [f"{word} = {text(value)}" for word, value in
              (("command", spec.command), ("args", spec.args), ("mode", spec.mode)) if value]
    if not spec.asks:
        lines.append("asks = false")
    lines.append("env = { " + ", ".join(f"{key} = {text(value)}" for key, value in spec.env.items()) + " }")
    return "\n".join(lines) + "\n"


def _program(one: KnownAgent) -> str:
    if one.adapter == "claude":
        if importlib.util.find_spec("claude_agent_sdk") is None:
            raise Absent("the Claude Agent SDK is not installed")
        return ""
    command = shutil.which(one.program, path=search_path())
    if command is None and one.program == "goose":
        found = sorted(CI_PROGRAMS.parent.glob("@aaif/goose-binary-*/bin/goose"))
        command = str(found[0]) if found else None
    if command is None:
        raise Absent(f"{one.program} is not on PATH, nor in {LAB_VARIABLE}/bin")
    return command


def _put(place: Path, text: str) -> None:
    """Write a file, merged with what the servers put there."""
    place.parent.mkdir(parents=True, exist_ok=True)
    before = place.read_text("utf-8") if place.exists() else ""
    if before and place.suffix == ".json":
        text = json.dumps({**json.loads(before), **json.loads(text)})
    elif before:
        text = f"{text}{before}"
    place.write_text(text, "utf-8")


def _json(place: str, content: Callable[[dict[str, Any]], object]) -> Servers:
    def files(run: list[str]) -> dict[str, str]:
        return {place: json.dumps(content({"command": run[0], "args": run[1:]}))}

    return Servers(files)


def _standard(place: str, **more: Any) -> Servers:
    return _json(place, lambda server: {"mcpServers": {NAME: {**server, **more}}})


def _open_code(place: str) -> Servers:
    return _json(place, lambda server: {"mcp": {NAME: {"type": "local", "enabled": True,
                                                       "command": [server["command"], *server["args"]]}}})


def _toml(place: str, head: str) -> Servers:
    def files(run: list[str]) -> dict[str, str]:
        return {place: f"\n{head}command = {json.dumps(run[0])}\nargs = {json.dumps(run[1:])}\n"}

    return Servers(files)


def _claude(run: list[str]) -> tuple[str, ...]:
    servers = {"mcpServers": {NAME: {"type": "stdio", "command": run[0], "args": run[1:]}}}
    return ("--mcp-config=" + json.dumps(servers),)


def _goose(run: list[str]) -> dict[str, str]:
    return {".config/goose/config.yaml": (
        f"extensions:\n  {NAME}:\n    enabled: true\n    type: stdio\n    name: {NAME}\n    timeout: 60\n"
        f"    cmd: {json.dumps(run[0])}\n    args: {json.dumps(run[1:])}\n")}


SERVERS: Mapping[str, Servers] = {
    "claude": Servers(args=_claude),
    "claude-acp": _standard(".claude.json", type="stdio"),
    "codex-acp": _toml(".codex/config.toml", f"[mcp_servers.{NAME}]\n"),
    "copilot": _standard(".copilot/mcp-config.json", type="local", tools=["*"]),
    "gemini": _standard(".gemini/settings.json"),
    "goose": Servers(_goose),
    "kilo": _open_code(".config/kilo/kilo.json"),
    "kimi": _standard(".kimi-code/mcp.json"),
    "opencode": _open_code(".config/opencode/opencode.json"),
    "qwen": _standard(".qwen/settings.json"),
    "vibe": _toml(".vibe/config.toml", f'[[mcp_servers]]\nname = "{NAME}"\ntransport = "stdio"\n'),
}
