"""The console in the package: built by the build hook within its budget, and left out if asked for (J-1, J-2)."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIRST_LOAD_BYTES = 120_000
APPROVAL_BYTES = 40_000
ALL_BYTES = 900_000
PREFIX = "interlock/console_assets/"


def wheel(target: Path, console: str) -> zipfile.ZipFile:
    """Build the wheel from the files that are kept in the repository."""
    source = target / "source"
    source.mkdir()
    kept = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["xargs", "-0", "cp", "--parents", "-t", str(source)], input=kept, cwd=ROOT, check=True)
    run = subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(target), str(source)],
                         capture_output=True, text=True, env={**os.environ, "CONSOLE": console}, check=False)
    assert run.returncode == 0, run.stderr
    return zipfile.ZipFile(next(target.glob("*.whl")))


@pytest.mark.needs("node")
@pytest.mark.req("J-1", "J-2")
def test_a_wheel_has_the_console_within_its_budget(tmp_path: Path) -> None:
    with wheel(tmp_path, "1") as package:
        assets = {name.removeprefix(PREFIX): package.read(name) for name in package.namelist()
                  if name.startswith(PREFIX)}
        assert not any("node_modules" in name for name in package.namelist())
    assert "index.html" in assets
    first = sum(len(gzip.compress(content)) for name, content in assets.items()
                if name == "index.html" or f"/console/{name}".encode() in assets["index.html"])
    # What the page names is both the first load and the page of an approval; other views are loaded late.
    assert b"assets/index-" in assets["index.html"]
    assert first <= min(FIRST_LOAD_BYTES, APPROVAL_BYTES)
    assert sum(map(len, assets.values())) <= ALL_BYTES
    assert b"<script>" not in assets["index.html"]
    assert b"style=" not in assets["index.html"]


@pytest.mark.needs("node")
@pytest.mark.req("J-1")
def test_a_wheel_without_the_console_is_whole_but_for_it(tmp_path: Path) -> None:
    with wheel(tmp_path, "0") as package:
        assert not any(name.startswith(PREFIX) for name in package.namelist())
        assert "interlock/cli/console.py" in package.namelist()


@pytest.mark.req("J-1")
def test_the_lock_file_names_no_registry() -> None:
    assert '"resolved"' not in (ROOT / "console/package-lock.json").read_text("utf-8")


@pytest.mark.req("J-16")
def test_no_part_of_the_page_makes_html_of_text() -> None:
    for path in (ROOT / "console/src").rglob("*.*"):
        if path.name != "api.generated.ts":
            text = path.read_text("utf-8")
            assert not any(word in text for word in ("{@html", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval("))
