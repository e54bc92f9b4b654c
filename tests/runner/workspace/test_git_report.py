"""What git printed, read within bounds (J-4)."""

from __future__ import annotations

import msgspec
import pytest

from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.runner.workspace.git_report import (
    MAX_FILE_DIFF_BYTES,
    MAX_FILES,
    SUBJECT_CHARS,
    GitReport,
    read_commits,
    read_listing,
    read_report,
    unquoted,
)

pytestmark = pytest.mark.req("J-4")
A, B = "1" * 40, "2" * 40


def raw(change: str, name: str) -> str:
    return f":100644 100644 {A} {B} {change}\t{name}"


def printed(*lines: str) -> bytes:
    return "\n".join([*lines, ""]).encode()


def reported(output: bytes, *, whole: bool = True) -> GitReport:
    return read_report(read_listing(output, whole=whole), output, set(), whole=whole)


def test_files_have_their_counts_and_their_part_of_the_patch() -> None:
    report = reported(printed(
        raw("M", "a"), raw("T", "l"), raw("D", "gone"), "1\t1\ta", "1\t0\tl", "0\t1\tl", "-\t-\tgone", "",
        "diff --git a/a b/a", "@@ -1 +1 @@", "-one", "+diff --git a/x b/x", "diff --git a/l b/l", "-x",
        "diff --git a/l b/l", "+y", "diff --git a/gone b/gone", "Binary files differ"))
    assert [(one.path, one.change, one.added, one.removed) for one in report.files] == [
        ("a", "modified", 1, 1), ("l", "retyped", 1, 1), ("gone", "deleted", None, None)]
    assert report.files[0].diff == "diff --git a/a b/a\n@@ -1 +1 @@\n-one\n+diff --git a/x b/x"
    assert report.files[1].diff == "diff --git a/l b/l\n-x\ndiff --git a/l b/l\n+y"
    assert (report.total, report.cut) == (3, False)


def test_a_rename_replaces_both_paths_and_keeps_its_own_counts() -> None:
    listed = printed(raw("M", "a => b"), raw("D", "a"), raw("A", "b"), raw("D", "c"))
    compared = printed(
        raw("M", "a => b"), raw("R090", "a\tb"), raw("D", "c"), "1\t0\ta => b", "9\t9\ta => b", "0\t1\tc", "",
        "diff --git a/a => b b/a => b", "@@ -1 +1,2 @@", " x", "+y", "diff --git a/a b/b", "similarity index 90%",
        "rename from a", "rename to b", "@@ -1,2 +1 @@", "-old", " same", "@@ -9 +8,2 @@", " same", "++new",
        "diff --git a/c b/c", "@@ -1 +0,0 @@", "-c")
    report = read_report(read_listing(listed, whole=True), compared, set(), whole=True)
    assert [(one.path, one.old_path, one.change, one.added, one.removed) for one in report.files] == [
        ("a => b", None, "modified", 1, 0), ("b", "a", "renamed", 1, 1), ("c", None, "deleted", 0, 1)]
    assert (report.total, report.cut) == (3, False)


@pytest.mark.parametrize(("written", "path"), [
    ("plain name", b"plain name"), (r'"new\nline\tand \"quotes\" \\ \033[31m"', b'new\nline\tand "quotes" \\ \x1b[31m'),
    (r'"\303\251"', "é".encode()), ('"', b'"'),
])
def test_a_name_is_read_as_git_writes_it(written: str, path: bytes) -> None:
    assert unquoted(written.encode()) == path


def test_an_unmerged_path_leaves_no_ambiguous_diff() -> None:
    report = reported(printed(raw("U", "a"), raw("M", "b"), "", "* Unmerged path a", "diff --git a/b b/b", "+x"))
    assert [(one.path, one.change, one.diff, one.cut) for one in report.files] == [
        ("a", "unmerged", "", True), ("b", "modified", "", True)]


def test_truncated_output_loses_its_last_line_and_is_reported() -> None:
    report = reported(printed(raw("M", "a"), raw("M", "b"), "", "diff --git a/a b/a", "+one", "+tw")[:-1], whole=False)
    assert [(one.diff, one.cut) for one in report.files] == [("diff --git a/a b/a\n+one", False), ("", True)]
    assert report.cut


def test_the_largest_git_output_fits_in_a_frame() -> None:
    names = [f'"{number}{chr(92)}001{"x" * 4000}"' for number in range(3 * MAX_FILES)]
    patch = [line for name in names for line in (f"diff --git {name} {name}", *["+" + "\x01" * 100] * 300)]
    report = reported(printed(*(raw("A", name) for name in names), "", *patch))
    assert report.cut
    assert report.total == 3 * MAX_FILES
    assert 0 < len(report.files) <= MAX_FILES
    assert all(len(msgspec.json.encode(one.diff)) <= MAX_FILE_DIFF_BYTES + 2 for one in report.files)
    encode(Frame(type="x-interlock.workspace.changes", message_id="m", timestamp="", payload=p.WorkspaceChanges(
        request_id="r", session_id="s", count=report.total, files=report.files)))


def test_commits_are_read_and_what_is_none_is_left_out() -> None:
    long_id = "2" * 64
    late = f"{long_id}\n99999999999999\n\n{'x' * 999}"
    log = "\0".join((f"{A}\n1700000000\nAnn\nfix it", late, "nothing", "x\n1\na\nb", ""))
    first, second = read_commits(log.encode())
    assert (first.commit, first.at, first.author, first.subject) == (A, "2023-11-14T22:13:20.000Z", "Ann", "fix it")
    assert (second.commit, second.at, second.author, len(second.subject)) == (long_id, None, "", SUBJECT_CHARS)
    assert read_commits(b"\xff" + A.encode()) == []
