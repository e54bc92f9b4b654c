"""What `interlock diff` prints: a diff in colours, of which nothing reaches the terminal raw (J-4, Y-2)."""

from __future__ import annotations

import re

import pytest

from interlock.cli.sessions.git_changes import coloured

pytestmark = pytest.mark.req("J-4", "Y-2")
DIFF = """diff --git a/a.txt b/a.txt
index 7898192..ce354f7 100644
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 same
--- a comment of SQL
-old
+++ new
+\x1b[2Jred
\\ No newline at end of file"""


def test_added_and_removed_lines_are_coloured_and_others_are_not() -> None:
    rows = coloured(DIFF).split("\n")
    assert [row for row in rows if "\x1b[" not in row] == [*DIFF.split("\n")[:6], "\\ No newline at end of file"]
    red, green = ([row for row in rows if row.startswith(f"\x1b[1;{code}m")] for code in ("31", "32"))
    assert [len(red), len(green)] == [2, 2]


def test_the_text_is_unchanged_except_for_control_characters() -> None:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured(DIFF))
    assert plain == DIFF.replace("\x1b", "\\x1b")
