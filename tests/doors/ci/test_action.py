"""The composite action for GitHub: read as GitHub reads it (O-10)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.req("O-10")
ROOT = Path(__file__).resolve().parents[3]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "actions" / "run" / "action.yml").read_text("utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")


def test_each_input_is_described_and_reaches_a_script_through_the_environment() -> None:
    taken: set[str] = set()
    for step in STEPS:
        for variable, value in step["env"].items():
            found = EXPRESSION.fullmatch(value)
            assert found is not None, f"{variable} is more than one expression"
            assert re.search(rf"\$\{{?{variable}\b", step["run"]) or variable.startswith("INTERLOCK_"), variable
            taken.add(found[1])
    assert taken - {"strategy.job-index"} == {f"inputs.{name}" for name in ACTION["inputs"]}
    assert all(row["description"] and ("default" in row) != row.get("required", False)
               for row in ACTION["inputs"].values())


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["id"])
def test_no_script_has_an_expression_and_each_is_bash(step: dict[str, Any]) -> None:
    assert "${{" not in step["run"]
    assert step["shell"] == "bash"
    checked = subprocess.run(["bash", "-n"], input=step["run"], text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["id"])
def test_each_variable_of_a_script_is_quoted(step: dict[str, Any]) -> None:
    script = re.sub(r"#.*", "", step["run"])
    outside = re.sub(r'"[^"]*"', "", script).replace("case $AGENT in", "")  # Which bash does not split.
    assert "$" not in outside


def test_nothing_else_is_fetched_and_the_version_is_that_of_the_checkout() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert not [step for step in STEPS if "uses" in step]
    assert '"$GITHUB_ACTION_PATH/../.."' in STEPS[0]["run"]
    assert (ROOT / "actions" / "run" / ".." / ".." / "pyproject.toml").is_file()


def test_each_output_belongs_to_an_existing_step() -> None:
    for name, row in ACTION["outputs"].items():
        assert EXPRESSION.fullmatch(row["value"])
        assert row["value"] == f"${{{{ steps.run.outputs.{name} }}}}"
    assert "run" in {step["id"] for step in STEPS}
