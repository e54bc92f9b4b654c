"""MCP servers of the config, and what an agent may get of the runner's environment (Y-12, Y-13)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.ports.mcp_spec import MAX_SERVERS, McpSpec, check_passed, check_servers

pytestmark = pytest.mark.req("Y-12", "Y-13")


@pytest.mark.parametrize("name", ["API_KEY", "GITHUB_TOKEN", "X_APIKEY", "KEY", "AWS_ACCESS_KEY_ID", "my_secret",
                                  "DB_PASSWD", "A_CREDENTIALS", "TOKEN_1"])
def test_a_credential_is_recognised_by_its_name(name: str) -> None:
    check_passed([name], {})


@pytest.mark.parametrize("name", [
    "", "PATH", "NODE_OPTIONS", "KEYBOARD", "TOKENIZER", "INTERLOCK_KEY", "RAWP_TOKEN", "A-KEY", "1_KEY",
                                  "A_KEY\n", "X" * 200 + "_KEY", "MONKEY"])
def test_any_other_variable_could_change_an_agents_permission_requests(name: str) -> None:
    with pytest.raises(ValueError, match="env_pass: "):
        check_passed([name], {})


@pytest.mark.parametrize("table", [
    {"command": "srv", "args": ["-x"], "env": {"A": "1"}, "env_pass": ["A_TOKEN"]}, {"command": "/opt/srv"},
    {"url": "https://mcp.example/x", "headers": {"A": "1"}, "header_env": {"Authorization": "A_TOKEN"}},
    {"url": "http://127.0.0.1:1", "header_env": {"A": "A_KEY"}}, {"url": "http://mcp.example"},
])
def test_a_server_is_a_program_or_a_url(table: dict[str, Any]) -> None:
    msgspec.convert(table, McpSpec)


@pytest.mark.parametrize(("table", "sentence"), [
    ({}, "command: an MCP server has either"), ({"command": "a", "url": "https://b"},
    "command: an MCP server has either"),
    ({"url": "https://b", "args": ["x"]}, "url: `args`"), ({"command": "a", "headers": {"A": "1"}},
    "command: `headers`"),
    ({"command": "bin/srv"}, "would depend on the directory"), ({"command": "./srv"}, "would depend on the directory"),
    ({"url": "ftp://b"}, "url: the address"), ({"url": "https://u:p@b"}, "url: the address"), ({"url": "https://"},
    "url: the address"),
    ({"url": "https://[::1"}, "is not a URL"), ({"url": "http://b", "header_env": {"A": "A_KEY"}},
    "url: secrets of `header_env`"),
    ({"command": "a", "env_pass": ["PATH"]}, "env_pass: PATH"), ({"url": "https://b", "header_env": {"A": "PATH"}},
    "env_pass: PATH"),
])
def test_an_error_is_a_sentence_that_begins_with_its_key(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert(table, McpSpec)


def test_servers_have_plain_names_and_a_bounded_number() -> None:
    check_servers(f"s{number}" for number in range(MAX_SERVERS))
    with pytest.raises(ValueError, match="at most 32"):
        check_servers(f"s{number}" for number in range(MAX_SERVERS + 1))
    for name in ("", "-a", "a b", "a" * 65, "a\n", "a.b"):
        with pytest.raises(ValueError, match="is not a name"):
            check_servers([name])
