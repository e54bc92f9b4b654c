"""`python -m tests.console.pictures DIRECTORY`: a picture of every screen of the console, at the width of a phone, a
tablet and a desk, light and dark."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.console.pages import ARGUMENTS, origin, page_of
from tests.console.screens import SCHEMES, SIZES, config, fill
from tests.installed import find_chromium

from proof.processes.stack import Stack


def main() -> None:
    """Make the pictures, and name each."""
    parser = argparse.ArgumentParser(prog="python -m tests.console.pictures", description=__doc__)
    parser.add_argument("directory", type=Path, help="where the pictures go; it is made")
    parser.add_argument("--only", nargs="*", default=(), metavar="SCREEN", help="screens, if not all of them")
    parser.add_argument("--width", type=int, nargs="*", choices=[one["width"] for one in SIZES], metavar="PIXELS",
                        default=[one["width"] for one in SIZES], help="widths, if not all of them")
    parser.add_argument("--scheme", nargs="*", choices=SCHEMES, default=SCHEMES, help="light, dark, or both")
    parser.add_argument("--language", choices=("en", "ko"), default="en", help="(default: %(default)s)")
    asked = parser.parse_args()
    asked.directory.mkdir(parents=True, exist_ok=True)
    for path in _made(asked):
        print(path)


def _made(asked: argparse.Namespace) -> Iterator[Path]:
    from playwright.sync_api import sync_playwright

    program = find_chromium()
    if program is None:
        raise SystemExit("There is no Chromium: .ci/install-agents, or Debian: apt install chromium")
    with tempfile.TemporaryDirectory() as place:
        stack = Stack(Path(place), config())
        try:
            stack.up()
            screens = fill(stack)
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=str(program), args=ARGUMENTS)
                with page_of(browser, stack) as page:
                    page.evaluate("language => localStorage.setItem('interlock.language', language)", asked.language)
                    for name, (path, complete) in screens.items():
                        if not asked.only or name in asked.only:
                            yield from _pictures(page, f"{origin(stack)}{path}", complete, asked, name)
                browser.close()
        finally:
            stack.down()


def _pictures(page: Any, address: str, complete: str, asked: argparse.Namespace, name: str) -> Iterator[Path]:
    for size in (one for one in SIZES if one["width"] in asked.width):
        page.set_viewport_size(size)
        page.goto(address)
        page.locator(complete).first.wait_for()
        page.wait_for_load_state("networkidle")
        for scheme in asked.scheme:
            page.emulate_media(color_scheme=scheme)
            target = asked.directory / f"{name}-{size['width']}-{scheme}.png"
            page.screenshot(path=target, full_page=True)
            yield target


if __name__ == "__main__":
    main()
