"""`python docs/site.py [--into DIRECTORY] [--pictures] [--version VERSION]`: the pages as a static site with a search,
which asks no other host (Y-16).

MkDocs with the theme Material builds it (`pip install '.[docs]'`). Pages stay as they read in the repository: they are
staged in their own places, with every file that they link to, and a link that leads nowhere fails the build. Pictures
are made while it is built, by this version at work, and none is kept in the repository. With a version the site goes
into a directory of its own beside those of other versions, and each page has a menu of them.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "benchmarks/README.md",
           "clients/typescript/README.md")
SECTIONS = {"How to": "docs/how-to", "Explanation": "docs/explanation", "Reference": "docs/reference",
            "Decisions": "docs/decisions"}
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\[[^\]]*\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
VERSION = re.compile(r"\d+(?:\.\d+){1,3}(?:[a-z]+\d+)?")
VERSIONS = "versions.json"
"""What the theme's menu of versions reads: a list that is kept beside the versions."""
PICTURES, PICTURES_PAGE = "docs/pictures", "docs/pictures.md"
TERMINAL_COLUMNS = 80
CAPTIONS = {
    "help": "The verbs", "status": "What waits, runs and is connected", "run": "A tool call that you allow",
    "deny": "A no with its reason", "tasks": "Tasks", "approvals": "Approvals, with what became of each",
    "sessions": "Sessions", "policy": "The rules in force", "audit": "The audit log", "doctor": "What must be right",
    "agents": "Agents, and how each is held", "error": "An error, and what to do",
}
"""Recordings of the terminal that the page of pictures shows, in this order."""
CONSOLE_PICTURES, CONSOLE_PAGE = "docs/console-pictures", "docs/console-pictures.md"
CONSOLE_CAPTIONS = {
    "inbox": "What waits for you", "edit": "One approval: an edit", "waiting": "One approval: a command",
    "sessions": "Sessions", "spoken": "What an agent wrote", "ran": "What a tool printed", "begin": "A new session",
    "command": "A task, step by step", "decided": "What was decided", "runners": "Runners", "usage": "Usage",
    "policy": "Policy", "audit": "The audit log", "access": "Keys and devices",
}
"""Screens of the console that its page of pictures shows, in this order: as a phone has them, and as a desk has."""
WIDTHS = {"360": "on a phone", "1440": "on a desk"}
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


class Broken(Exception):
    """The pages do not make a site; the text names each reason."""


def stage(repository: Path, into: Path) -> list[tuple[str, str | list[tuple[str, str]]]]:
    """Copy the pages, and all that they link to, to the same places below `into`; returns the navigation: titles with a
    page each, or with a section's titles and pages. Raises Broken for a link that leads out of the repository."""
    waiting = [repository / name for name in ("README.md", *PROJECT)] + list((repository / "docs").rglob("*.md"))
    seen = set[Path]()
    while waiting:
        path = waiting.pop().resolve()
        if path in seen:
            continue
        seen.add(path)
        if not path.is_relative_to(repository):
            raise Broken(f"{path} is linked, and is not in the repository.")
        target = into / path.relative_to(repository)
        if path.is_dir():
            target = target / "index.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            waiting += sorted(one for one in path.iterdir() if one.is_file())
            target.write_text(_list_of(path), "utf-8")
        elif path.suffix == ".md":
            text = path.read_text("utf-8")
            waiting += [found for found in _linked(path, text) if found.exists()]
            target.write_text(_page(path, text), "utf-8")
        else:
            shutil.copyfile(path, target)
    return _navigation(repository, into)


def add_pictures(repository: Path, pages: Path, navigation: list[Any]) -> None:
    """Record the terminal of this version at work, and add a page of the recordings. Raises Broken."""
    place = pages / PICTURES
    words = [sys.executable, "-m", "proof.terminal.recorder", str(place), "--columns", str(TERMINAL_COLUMNS)]
    done = subprocess.run(words, cwd=repository, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Broken(f"No pictures could be made: {done.stderr.strip()}")
    add_page_of_pictures(pages, navigation)
    words = [sys.executable, "-m", "tests.console.pictures", str(pages / CONSOLE_PICTURES), "--scheme", "light",
             "--width", *WIDTHS, "--only", *CONSOLE_CAPTIONS]
    done = subprocess.run(words, cwd=repository, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(pages / CONSOLE_PICTURES, ignore_errors=True)
        print(f"The site has no pictures of the console: {done.stderr.strip()}", file=sys.stderr)
    else:
        add_page_of_console(pages, navigation)


def add_page_of_console(pages: Path, navigation: list[Any]) -> None:
    """Add the page of the console's pictures that are staged, behind those of the terminal. Raises Broken if one is not
    there."""
    lines = ["# Pictures of the console", "", "Made when this site was built, in a browser. What each screen is for: "
             "[How to use the console](how-to/console.md)."]
    for name, caption in CONSOLE_CAPTIONS.items():
        lines += ["", f"## {caption}"]
        for width, where in WIDTHS.items():
            picture = f"{name}-{width}-light.png"
            if not (pages / CONSOLE_PICTURES / picture).is_file():
                raise Broken(f"There is no picture {picture}.")
            lines += ["", f"![{caption}, {where}]({Path(CONSOLE_PICTURES).name}/{picture})"]
    (pages / CONSOLE_PAGE).write_text("\n".join(lines) + "\n", "utf-8")
    navigation.insert(4, {"The console": CONSOLE_PAGE})


def add_page_of_pictures(pages: Path, navigation: list[Any]) -> None:
    """Add the page of the pictures that are staged, behind the tutorials. Raises Broken if one is not there."""
    lines = ["# Pictures of the terminal", "",
             f"Made when this site was built, at {TERMINAL_COLUMNS} columns: what each verb printed."]
    for name, caption in CAPTIONS.items():
        picture = f"{name}-{TERMINAL_COLUMNS}.svg"
        if not (pages / PICTURES / picture).is_file():
            raise Broken(f"There is no picture {picture}.")
        lines += ["", f"## {caption}", "", f"![{caption}]({Path(PICTURES).name}/{picture})"]
    (pages / PICTURES_PAGE).write_text("\n".join(lines) + "\n", "utf-8")
    for text in (pages / PICTURES).glob("*.txt"):
        text.unlink()
    navigation.insert(3, {"Pictures": PICTURES_PAGE})


def place_of_version(root: Path, version: str) -> Path:
    """Return the directory of a version's site below `root`. Raises Broken if it is none."""
    if not VERSION.fullmatch(version):
        raise Broken(f"{version!r} is not a version such as 0.1.0.")
    return root / version


def add_version(root: Path, version: str) -> None:
    """List the version among those that are at `root`, and lead from there to the newest one."""
    built = (one.parent.name for one in root.glob("*/index.html"))
    there = sorted(filter(VERSION.fullmatch, built), key=_order, reverse=True)
    assert version in there
    listed = [{"version": one, "title": one, "aliases": ["latest"] if one == there[0] else []} for one in there]
    (root / VERSIONS).write_text(json.dumps(listed, indent=2) + "\n", "utf-8")
    (root / "index.html").write_text(
        f'<!doctype html><meta charset="utf-8"><title>Interlock</title><meta http-equiv="refresh" content="0; '
        f'url={there[0]}/index.html"><a href="{there[0]}/index.html">Interlock {there[0]}</a>\n', "utf-8")


def _order(version: str) -> tuple[list[int], bool, str]:
    """Numbers count as numbers, and a version comes behind its own release candidates."""
    numbers, _, rest = re.sub(r"([a-z])", r" \1", version, count=1).partition(" ")
    return [int(one) for one in numbers.split(".")], not rest, rest


def build(pages: Path, navigation: list[Any], into: Path, *, versioned: bool = False) -> None:
    """Build the site of staged pages. Raises Broken for whatever MkDocs warns of."""
    from mkdocs.commands.build import build as build_pages
    from mkdocs.config import load_config
    from mkdocs.exceptions import MkDocsException

    warned = _Warnings()
    logging.getLogger("mkdocs").addHandler(warned)
    try:
        config = load_config(
            config_file=_config_file(pages.parent, versioned=versioned), docs_dir=str(pages), site_dir=str(into),
            nav=navigation,
            markdown_extensions=["admonition", "tables", "attr_list", "pymdownx.superfences", "pymdownx.highlight",
                                 {"toc": {"slugify": anchor, "permalink": True}}],
            validation={"nav": {"omitted_files": "ignore"},
                        "links": {"not_found": "warn", "anchors": "warn", "absolute_links": "warn",
                                  "unrecognized_links": "warn"}})
        build_pages(config)
    except MkDocsException as error:
        raise Broken(str(error)) from None
    finally:
        logging.getLogger("mkdocs").removeHandler(warned)
    if warned.sentences:
        raise Broken("\n".join(warned.sentences))


def anchor(heading: str, _separator: str = "-") -> str:
    """Return the anchor of a heading as it is in the repository: lower case, no punctuation, hyphens for spaces."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


class _Warnings(logging.Handler):
    """Keeps what is warned of, since a broken link is no more than a warning."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.sentences: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a warning."""
        self.sentences.append(record.getMessage())


def _config_file(place: Path, *, versioned: bool) -> str:
    """Write what is fixed: without fonts and icons of another host. The menu of versions is read from beside them."""
    extra = "{generator: false, version: {provider: mike}}" if versioned else "{generator: false}"
    path = place / "mkdocs.yml"
    path.write_text("site_name: Interlock\nuse_directory_urls: false\nplugins: [search]\n"
                    "theme:\n  name: material\n  font: false\n  features: [navigation.indexes, navigation.tabs,"
                    " search.highlight, search.suggest, content.code.copy, toc.follow]\n  palette:\n"
                    "    - {media: '(prefers-color-scheme: light)', scheme: default}\n"
                    "    - {media: '(prefers-color-scheme: dark)', scheme: slate}\n"
                    f"extra: {extra}\n")
    return str(path)


def _linked(path: Path, text: str) -> Iterator[Path]:
    for _, target, _ in LINK.findall(FENCE.sub("", text)):
        if "://" not in target and not target.startswith("mailto:"):
            yield path.parent / target


def _page(path: Path, text: str) -> str:
    """A page as MkDocs reads it: a link to a directory names its list, and what is in a numbered step is set in by
    four spaces."""
    def named(link: re.Match[str]) -> str:
        before, target, after = link.groups()
        is_directory = "://" not in target and (path.parent / target).is_dir()
        return f"{before}{target.rstrip('/')}/index.md{after}" if is_directory else link[0]

    lines, is_fenced = [], False
    for line in text.split("\n"):
        if line.startswith("```"):
            is_fenced = not is_fenced
        is_set_in = not is_fenced and line.startswith("   ") and not line.startswith("    ")
        lines.append(" " + line if is_set_in else line if is_fenced else LINK.sub(named, line))
    return "\n".join(lines)


def _list_of(directory: Path) -> str:
    """The page of a directory: its pages by title, its other files by name."""
    names = sorted(one for one in directory.iterdir() if one.is_file())
    lines = [f"- [{_title(one) if one.suffix == '.md' else f'`{one.name}`'}]({one.name})" for one in names]
    return f"# {directory.name.replace('-', ' ').capitalize()}\n\n" + "\n".join(lines) + "\n"


def _title(page: Path) -> str:
    found = TITLE.search(page.read_text("utf-8"))
    return found[1].replace("`", "") if found else page.stem


def _navigation(repository: Path, into: Path) -> list[Any]:
    """Titles and pages, in the order of the list of pages."""
    def entry(name: str) -> dict[str, str]:
        return {_title(repository / name): name}

    listed = [str(found.resolve().relative_to(repository)) for found in
              _linked(repository / "docs/README.md", (repository / "docs/README.md").read_text("utf-8"))]
    navigation: list[Any] = [{"Interlock": "README.md"}, {"Pages": "docs/README.md"},
                             {"Tutorials": [entry("docs/tutorial.md"), entry("docs/sdk-tutorial.md")]}]
    for title, place in SECTIONS.items():
        pages = sorted((f"{place}/{path.name}" for path in (repository / place).glob("*.md")),
                       key=lambda name: (listed.index(name) if name in listed else len(listed), name))
        index = [f"{place}/index.md"] if (into / place / "index.md").exists() else []
        navigation.append({title: [*index, *map(entry, pages)]})
    return [*navigation, {"Project": [entry(name) for name in PROJECT]}]


def main() -> int:
    """Build the site."""
    parser = argparse.ArgumentParser(prog="python docs/site.py", description=__doc__)
    parser.add_argument("--into", type=Path, default=REPOSITORY / "build/site", metavar="DIRECTORY",
                        help="where the site is written; what was there is replaced (default: build/site)")
    parser.add_argument("--pictures", action="store_true",
                        help="add pages of pictures of the terminal and of the console, which are made now, by "
                        "`interlock up` at work and in Chromium")
    parser.add_argument("--version", metavar="VERSION",
                        help="write into DIRECTORY/VERSION, beside other versions, with a menu of them on each page")
    asked = parser.parse_args()
    root = asked.into.absolute()
    try:
        into = place_of_version(root, asked.version) if asked.version else root
        with tempfile.TemporaryDirectory(prefix="interlock-site-") as place:
            pages = Path(place, "pages")
            navigation = stage(REPOSITORY, pages)
            if asked.pictures:
                add_pictures(REPOSITORY, pages, navigation)
            build(pages, navigation, into, versioned=asked.version is not None)
        if asked.version:
            add_version(root, asked.version)
    except ModuleNotFoundError as error:
        print(f"What builds the site is not installed ({error.name}). Install it: pip install '.[docs]'",
              file=sys.stderr)
        return 1
    except Broken as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{root / 'index.html'}; read it with: python -m http.server --bind 127.0.0.1 --directory {root}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
