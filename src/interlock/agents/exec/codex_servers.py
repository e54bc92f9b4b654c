"""MCP servers for `codex exec`, as words of its command line that add them to its own config (Y-13). Pure.

Tried with codex 0.169.0. Every user of the host can read a program's arguments, so each value of a variable or a header
is passed in codex's environment, from which it takes them by name. `codex exec` never asks and so runs no tool that
needs a yes; the whole task was allowed before it started, and these servers are the config's, so their tools may run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from interlock.ports.agent import AgentStartFailed, McpServer

HEADER_VALUE = "MCP_HEADER_VALUE_"


def server_words(servers: Iterable[McpServer], environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the words that go before all others, and the variables that codex gets as well. `environment` is its own.
    Raises AgentStartFailed for a variable that cannot have one value for all that read it."""
    words, variables = list[str](), dict[str, str]()
    headers = 0
    for one in servers:
        for name, value in one.env.items():
            if {**environment, **variables}.get(name, value) != value:
                raise AgentStartFailed(f"The MCP server {one.name} sets {name}, which codex itself or another of its "
                                       "servers has with another value, and codex passes variables on by their name; "
                                       "leave it out, or set it in a script that starts the server.")
            variables[name] = value
        named = dict[str, str]()
        for header, value in one.headers.items():
            named[header] = f"{HEADER_VALUE}{headers}"
            variables[named[header]] = value
            headers += 1
        settings = {"url": _text(one.url), "env_http_headers": _table(named)} if one.url else {
            "command": _text(one.command), "args": _text(list(one.args)), "env_vars": _text(list(one.env))}
        for setting, value in {**settings, "default_tools_approval_mode": _text("approve")}.items():
            words += ["-c", f"mcp_servers.{one.name}.{setting}={value}"]
    return words, variables


def _text(value: str | list[str]) -> str:
    return msgspec.json.encode(value).decode()  # A JSON string or array of strings is one of TOML, too.


def _table(values: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{_text(name)} = {_text(value)}" for name, value in values.items()) + "}"
