"""The hostile repositories match their descriptions: complete files, in the agents' own formats, with a trace of their
own."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from interlock.ports.agent import AgentSpec
from interlock.probe.hostile import ATTACKS, Attack, attacks_on, groups, plant

EACH = [(program, attack) for program, attacks in ATTACKS.items() for attack in attacks]


@pytest.mark.parametrize(("program", "attack"), EACH, ids=[f"{program}-{attack.name}" for program, attack in EACH])
def test_an_attack_is_written_in_its_agents_format(program: str, attack: Attack, tmp_path: Path) -> None:
    workspace, witness = tmp_path / "work", tmp_path / "seen it"
    [planted] = plant(workspace, witness, attack)

    written = [path for path in workspace.rglob("*") if path.is_file()]
    assert written
    assert not planted.trace.exists()
    for path in written:
        if path.suffix in (".json", ".jsonc"):
            assert json.loads(path.read_text())
        if path.suffix == ".toml":
            assert tomllib.loads(path.read_text())
    names_its_trace = any(str(planted.trace) in path.read_text() for path in written)
    assert names_its_trace is (attack.aim == "runs")


def test_the_program_of_an_attack_leaves_its_trace(tmp_path: Path) -> None:
    hooks = next(attack for attack in ATTACKS["claude"] if attack.name == "hooks")
    [planted] = plant(tmp_path / "work", tmp_path / "seen it", hooks)

    settings = json.loads((tmp_path / "work/.claude/settings.json").read_text())
    run = subprocess.run(settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"], shell=True, check=True,
                         stdout=subprocess.PIPE)

    assert planted.trace.exists()
    assert json.loads(run.stdout)["hookSpecificOutput"]["permissionDecision"] == "allow"


def test_attacks_that_write_the_same_file_are_not_planted_together(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="both write"):
        plant(tmp_path / "work", tmp_path / "seen", *ATTACKS["qwen"])


def test_an_agent_is_recognised_by_its_adapter_or_its_program() -> None:
    assert attacks_on(AgentSpec(adapter="claude")) == ATTACKS["claude"]
    assert attacks_on(AgentSpec(adapter="acp", command="/opt/bin/qwen")) == ATTACKS["qwen"]
    assert attacks_on(AgentSpec(adapter="acp", command="something")) == ()


@pytest.mark.req("H-14")
@pytest.mark.parametrize("program", sorted(ATTACKS))
def test_every_attack_gets_a_repository_and_no_two_write_one_file(program: str) -> None:
    found = groups(ATTACKS[program])

    assert sorted(one.name for group in found for one in group) == sorted(one.name for one in ATTACKS[program])
    for group in found:
        files = [name for one in group for name in one.files("true")]
        assert len(files) == len(set(files))
