"""The console writes as code points the same characters as a card that the gateway makes (H-4)."""

from __future__ import annotations

import json
import subprocess
import unicodedata
from pathlib import Path

import pytest

from installed import require
from interlock.command.card.text import visible

pytestmark = [pytest.mark.req("H-4"), pytest.mark.needs("node")]
SOURCE = Path(__file__).parents[2] / "console/src/visible.ts"
COMPILER = "typescript/bin/tsc"
LIST = """
const {visible} = await import(process.argv[1]);
const all = Array.from({length: 0x110000}, (_, point) => point);
console.log(JSON.stringify(all.filter((point) => visible(String.fromCodePoint(point)).startsWith("<U+"))));
"""
RESEMBLING = frozenset("\u02b9\u037e\u2044\u2215\u2216\u29f8")
"""Characters that are drawn, but resemble a quote, a semicolon or a solidus. Only a card marks these."""


@pytest.fixture
def packages() -> Path:
    """The directory that holds the compiler."""
    return require("llm-bridge")


def test_no_character_is_hidden_in_the_console_that_a_terminal_card_shows(packages: Path, tmp_path: Path) -> None:
    subprocess.run(["node", packages / COMPILER, SOURCE, "--target", "es2022", "--module", "es2022", "--types", "",
                    "--outDir", tmp_path], check=True, capture_output=True)
    module = (tmp_path / "visible.js").rename(tmp_path / "visible.mjs")
    ran = subprocess.run(["node", "--input-type=module", "-e", LIST, "--", module], check=True, capture_output=True)
    in_console = set(json.loads(ran.stdout))

    for point in range(0x110000):
        one = chr(point)
        category, folded = unicodedata.category(one), unicodedata.normalize("NFKC", one)
        if category == "Cn":
            continue  # The Unicode version of the browser may assign it.
        resembles = one in RESEMBLING or (folded.isascii() and category[0] not in "CZ")
        assert (point in in_console) == (visible(one) == f"<U+{point:04X}>" and not resembles), f"{point:04X}"
