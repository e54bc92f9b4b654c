"""The demonstration's agent, its prompt, and the config that both processes read."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import msgspec

from interlock.cli.agents.known_agents import KNOWN
from interlock.cli.verb_error import usage
from interlock.config import FILE_NAME, ConfigError, load, state_directory
from interlock.demo import files
from interlock.ports.agent import AgentSpec

SHELL = "shell"
COMMAND_RULE = "the demonstration asks before a command starts"
TOOL_RULE = "names and checksums may be read"
PROMPT = """\
Look at the files in the current directory with one shell command, `ls *.txt`, and nothing else.

Then say in three short sentences what they might be about. Change nothing.
"""


class Chosen(NamedTuple):
    """An agent with its prompt. `spec` is None for our own `shell`."""

    agent_id: str
    spec: AgentSpec | None
    prompt: str


def choose(name: str | None) -> Chosen:
    """Find the agent: our own, else the config of the user's state directory, else a known one on PATH.

    Raises Trouble.
    """
    if name in (None, SHELL):
        return Chosen(SHELL, None, "\n".join(files.COMMANDS))
    try:
        configured = load(state_directory() / FILE_NAME).agents
    except ConfigError as error:
        raise usage(error.sentences[0]) from None
    if name in configured:
        return Chosen(str(name), configured[name], PROMPT)
    known = next((one for one in KNOWN if one.agent_id == name), None)
    if known is None:
        raise usage(f"There is no agent {name!r}.", f"Write [agents.{name}] into {FILE_NAME}, or see: interlock agents")
    path = shutil.which(known.program)
    if path is None:
        raise usage(f"{known.program} is not on PATH.", "Install it, or see: interlock agents")
    env = {"GOOSE_MODE": "approve"} if known.agent_id == "goose" else {}
    spec = AgentSpec(adapter=known.adapter, command=path, args=list(known.args), env=env)
    return Chosen(known.agent_id, spec, PROMPT)


def config_text(chosen: Chosen) -> str:
    """Write the demonstration's `interlock.toml`."""
    text = f"""\
[gateway]
port = 0

[[policy.rules]]
name = {_toml(COMMAND_RULE)}
effect = "ask"
door = "command"
type = "execute"
"""
    if chosen.spec is None:
        return text + f"""
[[policy.rules]]
name = {_toml(TOOL_RULE)}
effect = "allow"
door = "tool"
agent = "{SHELL}"
command = {_toml(files.FREE)}
"""
    spec = chosen.spec
    return text + f"""
[agents.{chosen.agent_id}]
adapter = {_toml(spec.adapter)}
command = {_toml(spec.command)}
args = [{", ".join(map(_toml, spec.args))}]
env = {{ {", ".join(f"{_toml(name)} = {_toml(value)}" for name, value in spec.env.items())} }}
"""


def write_config(chosen: Chosen, state: Path) -> None:
    """Write the config into the state directory, for its owner only: an agent's environment may contain secrets."""
    path = state / FILE_NAME
    path.touch(mode=0o600)
    path.write_text(config_text(chosen), "utf-8")


def _toml(text: str) -> str:
    """Write a basic string: JSON's escapes are TOML's, except for DEL, which TOML escapes."""
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
