"""The effective config, written as TOML without its secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from interlock.config.notices import NOTICE_TABLES
from interlock.config.sections import Config
from interlock.config.toml_writer import value_toml

_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH)", re.IGNORECASE)

_PASSWORD = re.compile(r"(//[^:/@?,]*:)[^/?,]*@")
"""In the address of a database or a bus: from the colon after a user's name to the last @ before the path."""
_TOKEN = re.compile(r"((?:nats|tls)://)[^:/@?,]+@")
"""In the address of a bus: what precedes the @ without a colon is a token."""
_PASSWORD_PARAMETER = re.compile(r"([?&](?:ssl)?password=)[^&]*")


def show(config: Config) -> str:
    """Return the effective config as TOML, without values of secret-looking environment variables."""
    data = cast("dict[str, Any]", msgspec.to_builtins(config))
    lines: list[str] = []
    policy = cast("dict[str, Any]", data.pop("policy"))
    rules = cast("list[dict[str, Any]]", policy["rules"])
    agents = cast("dict[str, dict[str, Any]]", data.pop("agents"))
    budgets = cast("list[dict[str, Any]]", data.pop("budgets"))
    redactions = cast("list[dict[str, Any]]", data.pop("redaction")["rules"])
    webhooks = cast("dict[str, dict[str, Any]]", data.pop("webhooks"))
    notices = {table: cast("dict[str, dict[str, Any]]", data.pop(table)) for table in NOTICE_TABLES}
    oidc = cast("dict[str, dict[str, Any]]", data.pop("oidc"))
    bindings = cast("list[dict[str, Any]]", data.pop("bindings"))
    system = {table: cast("dict[str, dict[str, Any]]", data.pop(table)) for table in ("hooks", "cron")}
    hook = cast("dict[str, Any] | None", data["compaction"]["beforeCompact"])
    if hook is not None:
        hook["url"] = _host_alone(str(hook["url"]))
    shared = cast("dict[str, str | None]", data["cluster"])
    data["cluster"] = {key: None if value is None else _address(value) for key, value in shared.items()}
    for name, section in cast("dict[str, dict[str, Any] | None]", data).items():
        if section is None:
            continue
        lines += ["", f"[{name}]", *_entries(section)]
    if policy["use"]:
        lines += ["", "[policy]", f"use = {value_toml(policy['use'])}"]
    for rule in rules:
        lines += ["", "[[policy.rules]]", *_entries(rule)]
    for budget in budgets:
        lines += ["", "[[budgets]]", *_entries(budget)]
    for rule in redactions:
        lines += ["", "[[redaction.rules]]", *_entries(rule)]
    for binding in bindings:
        lines += ["", "[[bindings]]", *_entries(binding)]
    for table, members in system.items():
        for name, member in members.items():
            lines += ["", f"[{table}.{name}]", *_entries(member)]
    for name, issuer in oidc.items():
        lines += ["", f"[oidc.{name}]", *_entries(issuer)]
    for name, webhook in webhooks.items():
        webhook["url"] = _host_alone(str(webhook["url"]))
        lines += ["", f"[webhooks.{name}]", *_entries(webhook)]
    for table, members in notices.items():
        for name, member in members.items():
            if "url" in member:
                member["url"] = _host_alone(str(member["url"]))
            lines += ["", f"[{table}.{name}]", *_entries(member)]
    for name, agent in agents.items():
        servers = cast("dict[str, dict[str, Any]]", agent.pop("mcp"))
        lines += ["", f"[agents.{name}]", *_entries(_without_secrets(agent))]
        for server, one in servers.items():
            lines += ["", f"[agents.{name}.mcp.{server}]", *_entries(_without_secrets(one))]
    return "\n".join(lines[1:]) + "\n"


def _without_secrets(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table without the values of headers, and of variables whose names look secret."""
    return {key: {name: "(redacted)" if key == "headers" or _SECRET.search(name) else one
                  for name, one in value.items()}
            if key in ("env", "headers") else value for key, value in table.items()}


def _address(value: str) -> str:
    """Return the address of a database or a bus without its credentials."""
    shown = _PASSWORD.sub(r"\1(redacted)@", _TOKEN.sub(r"\1(redacted)@", value))
    return _PASSWORD_PARAMETER.sub(r"\1(redacted)", shown)


def _host_alone(url: str) -> str:
    """Return the scheme and host of a URL: its other parts may be secrets, since many receivers put their token
    there."""
    return re.sub(r"(https?://)(?:[^/?#]*@)?([^/?#]*).*", r"\1\2/(redacted)", url)


def _entries(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {value_toml(value)}" for key, value in table.items() if value is not None]
