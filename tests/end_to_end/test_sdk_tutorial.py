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
def test_the_tutorial_does_what_it_says(
    stack: Stack, workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INTERLOCK_URL", stack.url)
    monkeypatch.setenv("INTERLOCK_KEY", stack.headers["Authorization"].removeprefix("Bearer "))
    monkeypatch.chdir(workspace)
    names: dict[str, object] = {}
    for block in BLOCK.findall(PAGE.read_text("utf-8")):
        exec(compile(block, PAGE.name, "exec"), names)
    said = capsys.readouterr().out
    assert "owner may act as" in said
    assert "asked:" in said
    assert "now succeeded" in said
    assert "from python" in said
    assert "ended: succeeded" in said
    assert "0 waiting; 1 runners" in said
    assert (workspace / "audit.ndjson").read_bytes().count(b"\n") > 5
