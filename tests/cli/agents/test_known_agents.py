"""Agents that are found by name: each one's table is valid config, and the agent asks or is marked as not asking."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from interlock.agents.registry import ADAPTERS
from interlock.cli.agents.known_agents import KNOWN, KnownAgent, found_on_path, snippet


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.agent_id)
def test_each_known_agents_table_is_toml_with_an_existing_adapter(known: KnownAgent) -> None:
    table = tomllib.loads(snippet(known))["agents"][known.agent_id]

    assert (table["adapter"], table["command"]) == (known.adapter, known.program)
    assert table.get("args", []) == list(known.args)
    assert table.get("env", {}) == dict(known.env)
    assert table.get("mode", "") == known.mode
    assert known.adapter in ADAPTERS
    assert table.get("asks", True) is (known.asks or known.adapter == "exec")


def test_no_two_known_agents_share_an_id() -> None:
    assert len({known.agent_id for known in KNOWN}) == len(KNOWN)


def test_only_programs_on_the_path_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found_on_path() == []
    (tmp_path / "goose").touch(mode=0o755)
    (tmp_path / "codex").touch(mode=0o644)  # Not a program.

    assert [(known.agent_id, path) for known, path in found_on_path()] == [("goose", os.fspath(tmp_path / "goose"))]
