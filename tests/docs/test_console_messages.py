"""The console's statements about the config file are true of the config file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = re.compile(r"\[\[?[a-z][\w.]*\]?\]")
HEADING = re.compile(r"^##+ (\[.+\])$", re.MULTILINE)


@pytest.mark.req("J-8")
def test_each_table_named_by_the_console_exists_in_the_config_file() -> None:
    there = set(HEADING.findall((ROOT / "docs/reference/config.md").read_text("utf-8")))
    named = {(found, path.parent.name) for path in (ROOT / "console/src").rglob("messages.ts")
             for line in path.read_text("utf-8").splitlines() if re.match(r"\s*\w+: ['`]", line)
             for found in TABLE.findall(line)}
    assert ("[webhooks.NAME]", "settings") in named
    assert {one for one in named if one[0] not in there} == set()
