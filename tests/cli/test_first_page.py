"""`interlock --help` is written without the parser, and is the parser's page (Y-18)."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys

import pytest

from interlock.cli import first_page
from interlock.cli.verbs import build

pytestmark = pytest.mark.req("Y-18")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("cells", [first_page.WIDTH_LEAST, 40, 57, 80, 97, 200])
def test_the_first_page_equals_the_parsers(cells: int) -> None:
    from rich.console import Console

    printed = io.StringIO()
    build()(["--help"], console=Console(file=printed, width=cells))
    parsers = [line.rstrip() for line in printed.getvalue().splitlines()]
    assert [line.rstrip() for line in first_page.page(cells, coloured=False)] == parsers
    coloured = list(first_page.page(cells, coloured=True))
    assert [COLOUR.sub("", line).rstrip() for line in coloured] == parsers
    assert all(len(COLOUR.sub("", line)) <= cells for line in coloured)


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("help",)])
def test_each_form_of_the_help_option_loads_no_parser(words: tuple[str, ...]) -> None:
    program = ("import sys; from interlock.cli.dispatch import dispatch; status = dispatch(sys.argv[1:]); "
               "print('cyclopts' in sys.modules, status)")
    shown = subprocess.run([sys.executable, "-c", program, *words], check=True, capture_output=True, text=True,
                           env={**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"})
    assert shown.stdout.splitlines()[-1] == "False 0"
    assert "Usage: interlock COMMAND" in shown.stdout


@pytest.mark.parametrize(("name", "value"), [("COLUMNS", "20"), ("TERM", "dumb"), ("PYTHONIOENCODING", "ascii")])
def test_forms_without_frames_are_left_to_the_parser(name: str, value: str) -> None:
    program = "import sys; from interlock.cli import first_page; print(first_page.width())"
    shown = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True,
                           env={**os.environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8", name: value})
    assert shown.stdout == "None\n"
