"""The verb that `interlock up` suggests next, and for which state directory (G-3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.cli.host.up_gateway import first_verb


@pytest.mark.req("G-3")
def test_up_first_suggests_a_task_for_an_agent_that_can_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_STATE", str(tmp_path))
    lacking, goose = {"agent_id": "shell", "unavailable": "it has no command"}, {"agent_id": "goose"}
    assert first_verb([goose, {"agent_id": "shell"}], tmp_path) == 'interlock run shell "ls -l"'
    assert first_verb([lacking, goose], tmp_path) == 'interlock run goose "What is in this directory?"'
    assert first_verb([lacking], tmp_path) == "interlock agents"
    assert first_verb([lacking], Path("/a b")) == "interlock agents --state '/a b'"
