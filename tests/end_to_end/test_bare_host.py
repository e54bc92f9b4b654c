"""Everything on a host with only a shell and the commands that read the demo's files (G-6)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = ("sh", "ls", "cat", "cksum", "sleep")
"""All that the demo's own script calls. Node, git, make, docker and every agent are not among them."""
PATIENCE_S = 60.0


@pytest.mark.req("G-6")
def test_the_demo_needs_no_other_program(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in COMMANDS:
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    ended = subprocess.run([sys.executable, "-m", "interlock", "demo", "--json"], cwd=tmp_path, timeout=PATIENCE_S,
                           env={"HOME": str(tmp_path), "PATH": str(programs)}, capture_output=True, text=True,
                           check=False)
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(ended.stdout)
    assert (figures["command_state"], figures["text_equal"], figures["audit_ok"]) == ("succeeded", True, True)
