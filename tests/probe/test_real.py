"""A check of real agents: goose, and those of a developer's lab."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from agents.lab import configured
from installed import require
from interlock.agents.evidence import READ_COMMAND
from interlock.ports.agent import AgentSpec
from interlock.probe import check as checking
from interlock.probe.check import check

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.mark.req("H-10", "H-11")
@pytest.mark.needs("goose")
@pytest.mark.parametrize(("own", "configured_mode", "opened_in", "verdict"), [
    ("approve", "", "approve", "asks"), ("auto", "", "approve", "asks"), ("approve", "auto", "auto", "command"),
])
async def test_goose_is_put_into_its_asking_mode_unless_its_config_names_another(
    own: str, configured_mode: str, opened_in: str, verdict: str
) -> None:
    command, path = str(require("goose")), os.environ.get("PATH", os.defpath)
    spec = AgentSpec(adapter="acp", command=command, args=["acp"], env={"PATH": path, "GOOSE_MODE": own},
                     mode=configured_mode)
    found = await check("goose", spec, os.environ, NOW)

    assert (found.mode, found.verdict) == (opened_in, verdict)
    assert found.seconds < 30
    if verdict == "asks":
        assert {one.tool: one.state for one in found.tools}["MCP tool"] == "asked"


@pytest.mark.parametrize("name", ["codex-acp", "gemini", "opencode"])
async def test_a_lab_agent_asks_as_configured(name: str) -> None:
    found = await check(name, configured(name), os.environ, NOW)

    assert (found.verdict, found.seconds < 30) == ("asks", True)


HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "agents.md"


def written(language: str, containing: str) -> str:
    """The one example of this language in the page that contains these words."""
    blocks = [block.partition("```")[0] for block in HOW_TO.read_text("utf-8").split(f"```{language}\n")[1:]]
    (found,) = [block for block in blocks if containing in block]
    return found


def as_the_page_says(name: str, spec: AgentSpec, home: Path) -> AgentSpec:
    """The agent with what docs/how-to/agents.md names to have it ask about reading commands, too."""
    if name == "gemini":
        (home / "ask.toml").write_text(written("", "run_shell_command"))
        return msgspec.structs.replace(spec, args=[*spec.args, "--policy", str(home / "ask.toml")])
    if name == "qwen":
        (home / ".qwen").mkdir()
        (home / ".qwen" / "settings.json").write_text(written("json", "permissions"))
        return msgspec.structs.replace(spec, env={**spec.env, "HOME": str(home)})
    return spec


@pytest.mark.req("H-10")
@pytest.mark.parametrize("name", ["claude-acp", "gemini", "qwen", "vibe"])
async def test_a_lab_agent_can_be_made_to_ask_before_a_reading_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "attacks_on", lambda spec: ())
    found = await check(name, as_the_page_says(name, configured(name), tmp_path), os.environ, NOW)

    assert {one.tool: one.state for one in found.tools}[READ_COMMAND] == "asked"
    assert not found.reads_unasked
