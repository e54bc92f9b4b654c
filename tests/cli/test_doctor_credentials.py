"""`interlock doctor` names keys that are set here and not passed on to an agent (Y-12)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.agents.model_hosts import PROVIDERS
from interlock.cli.doctor import credentials
from interlock.ports.agent import AgentSpec


def test_a_key_that_is_set_and_not_passed_on_is_named_with_the_line_that_passes_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [key for provider in PROVIDERS for key in provider.keys]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sesame")
    goose = str(tmp_path / "goose")
    (left,) = credentials("goose", AgentSpec(adapter="acp", command=goose))
    assert (left.check, left.ok) == ("credentials of goose", True)  # It may be logged in by a file.
    assert left.found == ("OPENAI_API_KEY is set here, not passed on; if it needs it, write in [agents.goose]: "
                          'env_pass = ["OPENAI_API_KEY"].')
    assert list(credentials("goose", AgentSpec(adapter="acp", command=goose, env_pass=["OPENAI_API_KEY"]))) == []
    monkeypatch.delenv("OPENAI_API_KEY")
    (missing,) = credentials("goose", AgentSpec(adapter="acp", command=goose, env_pass=["OPENAI_API_KEY"]))
    assert missing.found.startswith("OPENAI_API_KEY is to be passed on, and is not set here")
