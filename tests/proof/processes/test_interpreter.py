"""Parts of a stack start with bytecode that was compiled once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from proof.processes import interpreter


def test_where_no_bytecode_is_written_parts_share_a_directory_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(interpreter.WRITES_NONE, "1")
    environment = interpreter.environment()
    assert interpreter.WRITES_NONE not in environment
    subprocess.run([sys.executable, "-c", "import json.tool"], env=environment, check=True)
    assert list(Path(environment["PYTHONPYCACHEPREFIX"]).rglob("tool.*.pyc"))
    assert interpreter.environment() == environment


def test_else_they_have_the_environment_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(interpreter.WRITES_NONE, raising=False)
    monkeypatch.setenv("A_VARIABLE", "kept")
    environment = interpreter.environment()
    assert environment["A_VARIABLE"] == "kept"
    monkeypatch.setenv("A_VARIABLE", "set after the first part was started")
    assert interpreter.environment()["A_VARIABLE"] == "set after the first part was started"
    assert "PYTHONPYCACHEPREFIX" not in environment or environment["PYTHONPYCACHEPREFIX"]
