"""An agent of the config (G-1, Y-12, Y-13): contradictions are reported in a sentence, and secrets are not printed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.ports.agent import AgentSpec, Secrets, check_roots

pytestmark = pytest.mark.req("G-1")


@pytest.mark.parametrize(("table", "sentence"), [
    ({}, "adapter"), ({"adapter": "acp", "roots": ["src"]}, "roots: 'src' is not an absolute path"),
    ({"adapter": "dps", "mode": "plan"}, "mode: only agents of the adapter acp"),
    ({"adapter": "claude", "modes": ["x"]}, "mode: only agents"), ({"adapter": "exec", "asking_modes": ["x"]},
    "mode: only"),
    ({"adapter": "exec", "mcp": {"a": {"command": "x"}}}, "mcp: only agents of the adapters acp and claude"),
    ({"adapter": "exec", "command": "/opt/codex/run", "mcp": {"a": {"command": "x"}}}, "and codex by exec, take"),
    ({"adapter": "acp", "mcp": {"a b": {"command": "x"}}}, "mcp: 'a b' is not a name"), ({"adapter": "acp",
    "context_window": -1}, "context_w"),
    ({"adapter": "acp", "env_pass": ["PATH"]}, "env_pass: PATH is not named like a credential"),
    ({"adapter": "acp", "env_pass": ["A_KEY"], "env": {"A_KEY": "x"}}, "env_pass: A_KEY is in `env`, too"),
    ({"adapter": "acp", "workspace_files": "read"}, "workspace_files"), ({"adapter": "acp", "evidence": "none"},
    "evidence"),
    ({"adapter": "acp", "comand": "x"}, "unknown field `comand`"),
])
def test_a_contradictory_table_is_refused_in_a_sentence_that_names_its_key(
        table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=sentence):
        msgspec.convert(table, AgentSpec)


def test_by_default_an_agent_asks_and_ignores_its_workspaces_config_files() -> None:
    spec = msgspec.convert({"adapter": "acp", "command": "x"}, AgentSpec)
    assert (spec.asks, spec.workspace_files, spec.evidence, spec.trusted_kinds) == (True, "ignore", "declared", False)


@pytest.mark.req("K-4")
def test_secrets_are_printed_by_name_only() -> None:
    secrets = Secrets({"B": "sesame", "A": "open"})
    assert "sesame" not in f"{secrets!r} {secrets}"
    assert repr(secrets) == "Keys(A, B)"
    assert secrets["B"] == "sesame"


def test_no_root_depends_on_where_the_runner_was_started() -> None:
    check_roots(["/srv", "/"])
    with pytest.raises(ValueError, match="write it from / on"):
        check_roots(["/srv", "./src"])
