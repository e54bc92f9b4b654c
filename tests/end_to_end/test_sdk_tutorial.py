"""The tutorial of the Python library, block by block, against a gateway and a runner of real processes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proof import REPOSITORY
from proof.processes.stack import Stack

PAGE = REPOSITORY / "docs/sdk-tutorial.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.req("F-2", "G-7")
def test_the_tutorial_does_what_it_describes(
    stack: Stack, workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INTERLOCK_URL", stack.url)
    monkeypatch.setenv("INTERLOCK_KEY", stack.headers["Authorization"].removeprefix("Bearer "))
    monkeypatch.chdir(workspace)
    names: dict[str, object] = {}
    for block in BLOCK.findall(PAGE.read_text("utf-8")):
        exec(compile(block, PAGE.name, "exec"), names)
    printed = capsys.readouterr().out
    assert "owner may act as" in printed
    assert "asked:" in printed
    assert "now succeeded" in printed
    assert "from python" in printed
    assert "ended: succeeded" in printed
    assert "0 waiting; 1 runners" in printed
    assert (workspace / "audit.ndjson").read_bytes().count(b"\n") > 5
