"""Parts of a stack start with bytecode that was compiled once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from proof.processes import interpreter


def test_without_written_bytecode_components_share_a_bytecode_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(interpreter.WRITES_NONE, "1")
    environment = interpreter.environment()
    assert interpreter.WRITES_NONE not in environment
    subprocess.run([sys.executable, "-c", "import json.tool"], env=environment, check=True)
    assert list(Path(environment["PYTHONPYCACHEPREFIX"]).rglob("tool.*.pyc"))
    assert interpreter.environment() == environment


def test_otherwise_components_get_the_unchanged_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(interpreter.WRITES_NONE, raising=False)
    monkeypatch.setenv("A_VARIABLE", "kept")
    environment = interpreter.environment()
    assert environment["A_VARIABLE"] == "kept"
    monkeypatch.setenv("A_VARIABLE", "set after the first part was started")
    assert interpreter.environment()["A_VARIABLE"] == "set after the first part was started"
    assert "PYTHONPYCACHEPREFIX" not in environment or environment["PYTHONPYCACHEPREFIX"]
