"""A policy's words against a value (P-1, H-6): one of several, a glob, a path's glob."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.command.policy.globs import any_glob, fits_glob, is_one_of, path_glob, path_globs

pytestmark = pytest.mark.req("P-1", "H-6")


@pytest.mark.parametrize(("wanted", "value", "holds"), [
    (None, None, True), (None, "x", True), ("x", "x", True), ("x", "X", False), ("x", None, False),
    (["a", "x"], "x", True), (["a"], "x", False), ([], "x", False), ("ax", "a", False),
])
def test_a_value_matches_one_name_or_one_of_several(wanted: Any, value: str | None, holds: bool) -> None:
    assert is_one_of(wanted, value) is holds


@pytest.mark.parametrize(("wanted", "value", "holds"), [
    (None, None, True), ("*", None, False), ("*", "", True), ("mcp__*", "mcp__a__b", True), ("Bash", "bash", False),
    (["a*", "b?"], "b1", True), (["a*", "b?"], "b12", False), ([], "x", False), ("*", "a\nb", True), ("[ab]", "b",
    True),
])
def test_a_glob_matches_the_whole_value(wanted: Any, value: str | None, holds: bool) -> None:
    assert fits_glob(wanted, value) is holds
    if wanted is not None and value is not None:
        assert (any_glob(wanted).match(value) is not None) is holds


@pytest.mark.parametrize(("glob", "path", "holds"), [
    ("src/*", "src/a.py", True), ("src/*", "src/a/b.py", False), ("src/**", "src/a/b.py", True), ("src/**", "src",
    False),
    ("**/x", "x", True), ("**/x", "a/b/x", True), ("**/x", "ax", False), ("a/**/b", "a/b", True),
    ("a/**/b", "a/c/d/b", True), ("?.py", "a.py", True), ("?.py", "/.py", False), ("a.py", "abpy", False),
    ("[a].py", "a.py", False), ("[a].py", "[a].py", True), ("**", "a\nb/c", True), ("*.md", "a\nb.md", True),
    ("SRC/a", "src/a", False), ("x", "a/x", False), ("/etc/*", "/etc/passwd", True),
])
def test_a_path_glob_of_an_allow_rule_is_narrow(glob: str, path: str, holds: bool) -> None:
    assert bool(path_glob(glob, any_depth=False).fullmatch(path)) is holds


@pytest.mark.parametrize(("glob", "path", "holds"), [
    (".env", "a/b/.env", True), (".env", ".ENV", True), (".env", "x.env", False), ("secrets/**", "a/secrets/b", True),
    ("secrets/**", "secrets/a\nb", True), ("/etc/*", "/srv/etc/x", False), ("/etc/*", "/ETC/x", True),
])
def test_a_path_glob_of_an_ask_or_deny_rule_matches_anywhere_in_any_case(glob: str, path: str, holds: bool) -> None:
    assert bool(path_glob(glob, any_depth=True).fullmatch(path)) is holds


def test_several_globs_are_one_expression_that_matches_each_as_a_whole() -> None:
    several = path_globs(("/a", "/b/*"))
    assert [bool(several.fullmatch(path)) for path in ("/a", "/b/c", "/ab/c", "/a/b/c", "/b")] == [
        True, True, False, False, False]
    assert [bool(path_globs(()).fullmatch(path)) for path in ("a", "b/c")] == [False, False]
