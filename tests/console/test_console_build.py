"""The console in the package, whose install is in test_console_installs.py: within its budget, and with one way to make
markup (J-1, J-2, J-16)."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from interlock.gateway.rest.console_pages import ASSETS, CONTENT_SECURITY_POLICY

ROOT = Path(__file__).parents[2]
FIRST_LOAD_BYTES = 120_000
APPROVAL_BYTES = 40_000
ALL_BYTES = 900_000
SOURCE = ROOT / "console/src"
HASH = re.compile(r"-.{6}\.(?:js|css)$")
IMPORT = re.compile(r"(?:from|import) '(\.[^']+)'")
LATE = re.compile(r"import\('(\.[^']+)'\)")
ELSEWHERE = {"Dialogs": "opened by a key", "VoteOptions": "opened by the reader",
             "VoteSigning": "on what has to be signed", "korean": "for those who read it: added on its own"}
"""What is loaded late, and not by the page of an approval that is only opened and read, with when it is loaded."""


def loaded_late() -> set[str]:
    """The names of what the page of an approval loads by itself, after what the page names: by its sources, without the
    other views."""
    found: set[str] = set()
    seen: set[Path] = set()
    left = [SOURCE / "main.ts"]
    while left:
        one = left.pop()
        if one in seen or one.name == "views.ts":
            continue
        seen.add(one)
        text = one.read_text("utf-8")
        found |= {Path(name).stem for name in LATE.findall(text)}
        named = [one.parent / name for name in IMPORT.findall(text)]
        left += [path.resolve() for name in named for path in (name, name.with_name(f"{name.name}.ts"))
                 if path.suffix in {".ts", ".svelte"} and path.is_file()]
    assert SOURCE / "Approval.svelte" in seen
    assert set(ELSEWHERE) <= found
    return found - set(ELSEWHERE)


def with_imported(name: str, assets: dict[str, bytes]) -> set[str]:
    """A script of the console with the style of its name and the scripts that it imports, but for those of the page."""
    found: set[str] = set()
    left = [name]
    while left:
        one = left.pop()
        if one in found:
            continue
        found.add(one)
        found |= {each for each in assets if each.endswith(".css") and HASH.sub("", each) == HASH.sub("", one)}
        left += [f"assets/{each}" for each in re.findall(r"""from\s*["'`]\./([^"'`]+)""", assets[one].decode())]
    return found


def zipped(names: set[str], assets: dict[str, bytes]) -> int:
    return sum(len(gzip.compress(assets[name])) for name in names)


@pytest.mark.needs("console")
@pytest.mark.req("J-2")
def test_the_console_is_within_its_budget() -> None:
    assets = {path.relative_to(ASSETS).as_posix(): path.read_bytes() for path in ASSETS.rglob("*") if path.is_file()}
    first = {name for name in assets if name == "index.html" or f"/console/{name}".encode() in assets["index.html"]}
    # What the page names is both the first load and the page of an approval; other views are loaded late.
    assert any(name.startswith("assets/index-") for name in first)
    assert zipped(first, assets) <= FIRST_LOAD_BYTES
    scripts = {HASH.sub("", name): name for name in assets if name.endswith(".js")}
    late = {name for stem in loaded_late() for name in with_imported(scripts[f"assets/{stem}"], assets)}
    korean = with_imported(scripts["assets/korean"], assets)
    assert zipped(first | late | korean | {"icon.svg"}, assets) <= APPROVAL_BYTES
    assert scripts["assets/markup"] not in first
    assert sum(map(len, assets.values())) <= ALL_BYTES
    assert b"<script>" not in assets["index.html"]
    assert b"style=" not in assets["index.html"]


@pytest.mark.req("J-1")
def test_the_lock_file_names_no_registry() -> None:
    assert '"resolved"' not in (ROOT / "console/package-lock.json").read_text("utf-8")


@pytest.mark.req("J-16")
def test_only_one_module_creates_markup_from_text() -> None:
    """And that one by nodes: no part of the page puts text in as HTML."""
    sinks = ("{@html", "innerHTML", "outerHTML", "insertAdjacentHTML", "createContextualFragment", "parseFromString",
             "setHTML", "srcdoc", "document.write", "eval(", "new Function", "javascript:")
    sources = {path.relative_to(ROOT / "console/src").as_posix(): path.read_text("utf-8")
               for path in (ROOT / "console/src").rglob("*.*") if path.name != "api.generated.ts"}
    assert {name: word for name, text in sources.items() for word in sinks if word in text} == {}
    maker = re.compile(r"(?:from|import)\s*\(?\s*['\"](?:dompurify|marked)['\"]|createHTML\b")
    assert [name for name, text in sources.items() if maker.search(text)] == ["markup.ts"]


@pytest.mark.req("J-16")
def test_each_trusted_types_policy_has_its_own_name_that_pages_allow() -> None:
    allowed = re.search(r"trusted-types ([^;]*)", CONTENT_SECURITY_POLICY)
    assert allowed is not None
    assert allowed[1].split() == ["interlock", "interlock-markup", "svelte-trusted-html"]
    markup, scripts = ((ROOT / "console/src" / name).read_text("utf-8")
                       for name in ("markup.ts", "scripts.ts"))
    assert "const POLICY = 'interlock-markup';" in markup
    assert "createPolicy('interlock', {createScriptURL" in scripts
