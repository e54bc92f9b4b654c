"""What `git log` printed, read within bounds (J-4)."""

from __future__ import annotations

import pytest

from interlock.runner.workspace.git_log import SUBJECT_CHARS, read_commits

pytestmark = pytest.mark.req("J-4")
A, B = "1" * 40, "2" * 64


def test_commits_are_read_and_what_is_none_is_left_out() -> None:
    late = f"{B}\n99999999999999\n\n{'x' * 999}"
    printed = "\0".join((f"{A}\n1700000000\nAnn\nfix it", late, "nothing", "x\n1\na\nb", ""))
    first, second = read_commits(printed.encode())
    assert (first.commit, first.at, first.author, first.subject) == (A, "2023-11-14T22:13:20.000Z", "Ann", "fix it")
    assert (second.commit, second.at, second.author, len(second.subject)) == (B, None, "", SUBJECT_CHARS)
    assert read_commits(b"\xff" + A.encode()) == []
