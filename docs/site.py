"""`python docs/site.py [--into DIRECTORY]`: the pages as a static site with a search, which asks no other host (Y-16).

MkDocs with the theme Material builds it (`pip install '.[docs]'`). Pages stay as they read in the repository: they are
staged in their own places, with every file that they link to, and a link that leads nowhere fails the build.
"""

from __future__ import annotations

import argparse
import logging
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "benchmarks/README.md",
           "clients/typescript/README.md")
SECTIONS = {"How to": "docs/how-to", "How it holds": "docs/explanation", "Reference": "docs/reference",
            "Decisions": "docs/decisions"}
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\[[^\]]*\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
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


def build(pages: Path, navigation: list[Any], into: Path) -> None:
    """Build the site of staged pages. Raises Broken for whatever MkDocs warns of."""
    from mkdocs.commands.build import build as build_pages
    from mkdocs.config import load_config
    from mkdocs.exceptions import MkDocsException

    warned = _Warnings()
    logging.getLogger("mkdocs").addHandler(warned)
    try:
        config = load_config(
            config_file=_config_file(pages.parent), docs_dir=str(pages), site_dir=str(into), nav=navigation,
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


def _config_file(place: Path) -> str:
    """Write what is fixed: without fonts and icons of another host."""
    path = place / "mkdocs.yml"
    path.write_text("site_name: Interlock\nuse_directory_urls: false\nplugins: [search]\n"
                    "theme:\n  name: material\n  font: false\n  features: [navigation.indexes, navigation.tabs,"
                    " search.highlight, search.suggest, content.code.copy, toc.follow]\n  palette:\n"
                    "    - {media: '(prefers-color-scheme: light)', scheme: default}\n"
                    "    - {media: '(prefers-color-scheme: dark)', scheme: slate}\nextra: {generator: false}\n")
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
    into = parser.parse_args().into.absolute()
    try:
        with tempfile.TemporaryDirectory(prefix="interlock-site-") as place:
            pages = Path(place, "pages")
            build(pages, stage(REPOSITORY, pages), into)
    except ModuleNotFoundError as error:
        print(f"What builds the site is not installed ({error.name}). Install it: pip install '.[docs]'",
              file=sys.stderr)
        return 1
    except Broken as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{into / 'index.html'}; read it with: python -m http.server --bind 127.0.0.1 --directory {into}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
