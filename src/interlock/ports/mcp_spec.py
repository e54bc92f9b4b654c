"""An MCP server as declared in the config, and the environment variables that a config may pass on. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_CREDENTIAL = re.compile(r"(?:^|_)(?:API)?(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_ID|_?[0-9]+)?$",
                         re.IGNORECASE)
"""How the name of a credential ends."""


_SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
MAX_SERVERS = 32
"""MCP servers of one agent."""


def check_passed(names: Sequence[str], env: Mapping[str, str]) -> None:
    """Raise ValueError for a name that does not denote a credential. Any other variable could change how an agent asks,
    so its value must be in the config, which the evidence of a check covers (H-10)."""
    for name in names:
        if _VARIABLE.fullmatch(name) is None or name.startswith(("INTERLOCK_", "RAWP_")):
            raise ValueError(f"env_pass: {name!r} is not the name of a variable that an agent may get")
        if _CREDENTIAL.search(name) is None:
            raise ValueError(f"env_pass: {name} is not named like a credential (…_KEY, …_TOKEN, …_SECRET, …_PASSWORD); "
                             "write it with its value in `env`")
        if name in env:
            raise ValueError(f"env_pass: {name} is in `env`, too; leave one of the two out")


class McpSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[agents.<id>.mcp.<name>]`: an MCP server that the agent gets in each conversation (Y-13), as a program that it
    starts, or over HTTP."""

    command: str = ""
    """A program on PATH, or an absolute path."""
    args: list[str] = []
    env: dict[str, str] = {}
    env_pass: list[str] = []
    """Names of variables with credentials in the runner's environment that the program also receives."""
    url: str = ""
    headers: dict[str, str] = {}
    header_env: dict[str, str] = {}
    """For each header, the variable of the runner's environment that holds its value."""

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError("command: an MCP server has either `command`, a program, or `url`")
        if self.url and (self.args or self.env or self.env_pass):
            raise ValueError("url: `args`, `env` and `env_pass` are for a program; write `headers` or `header_env`")
        if self.command and (self.headers or self.header_env):
            raise ValueError("command: `headers` and `header_env` are for a `url`; write `env` or `env_pass`")
        if "/" in self.command and not self.command.startswith("/"):
            raise ValueError(f"command: {self.command!r} would depend on the directory, which may be anybody's "
                             "repository; write it from / on, or as a name on PATH")
        if self.url:
            self._check_url()
        check_passed(self.env_pass, self.env)
        check_passed(list(self.header_env.values()), {})

    def _check_url(self) -> None:
        try:
            parts = urlsplit(self.url)
        except ValueError:
            raise ValueError(f"url: {self.url!r} is not a URL") from None
        if parts.scheme not in ("https", "http") or not parts.hostname or parts.username or parts.password:
            raise ValueError("url: the address of an MCP server begins with https:// or http://, and has no name and "
                             "password in it")
        if self.header_env and parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "::1", "localhost"):
            raise ValueError("url: secrets of `header_env` go over https, or to this host alone")


def check_servers(names: Iterable[str]) -> None:
    """Raise ValueError for an invalid server name, or for too many servers."""
    listed = list(names)
    for name in listed:
        if _SERVER_NAME.fullmatch(name) is None:
            raise ValueError(f"mcp: {name!r} is not a name; letters, digits, - and _, at most 64")
    if len(listed) > MAX_SERVERS:
        raise ValueError(f"mcp: at most {MAX_SERVERS} servers")
