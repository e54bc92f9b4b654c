"""The console in the package: built by the build hook within its budget, and left out if asked for (J-1, J-2)."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from interlock.gateway.rest.console_pages import CONTENT_SECURITY_POLICY

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
    late = [name for name in assets if name.startswith("assets/markup-")]
    assert len(late) == 1
    assert late[0].encode() not in assets["index.html"]
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
def test_one_module_alone_makes_markup_of_text() -> None:
    """And that one by nodes: no part of the page puts text in as HTML."""
    sinks = ("{@html", "innerHTML", "outerHTML", "insertAdjacentHTML", "createContextualFragment", "parseFromString",
             "setHTML", "srcdoc", "document.write", "eval(", "new Function", "javascript:")
    sources = {path.relative_to(ROOT / "console/src").as_posix(): path.read_text("utf-8")
               for path in (ROOT / "console/src").rglob("*.*") if path.name != "api.generated.ts"}
    assert {name: word for name, text in sources.items() for word in sinks if word in text} == {}
    maker = re.compile(r"(?:from|import)\s*\(?\s*['\"](?:dompurify|marked)['\"]|createHTML\b")
    assert [name for name, text in sources.items() if maker.search(text)] == ["markup.ts"]


@pytest.mark.req("J-16")
def test_each_policy_has_a_name_of_its_own_that_pages_allow() -> None:
    allowed = re.search(r"trusted-types ([^;]*)", CONTENT_SECURITY_POLICY)
    assert allowed is not None
    assert allowed[1].split() == ["interlock", "interlock-markup", "svelte-trusted-html"]
    markup, scripts = ((ROOT / "console/src" / name).read_text("utf-8")
                       for name in ("markup.ts", "scripts.ts"))
    assert "const POLICY = 'interlock-markup';" in markup
    assert "createPolicy('interlock', {createScriptURL" in scripts
