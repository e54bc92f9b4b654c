"""The comparison of a policy's fields with a value: one of several, a glob, a path's glob."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from typing import Any

from interlock.command.policy.patterns import compiled

MAX_GLOB_CHARS = 1_000


def is_one_of(wanted: str | Sequence[str] | None, value: str | None) -> bool:
    """Return whether a value is the named one, or one of several; None matches all."""
    if wanted is None:
        return True
    return value == wanted if isinstance(wanted, str) else value in wanted


def fits_glob(wanted: str | Sequence[str] | None, value: str | None) -> bool:
    """Return whether a value matches one of the globs; None matches all, including a missing value."""
    if wanted is None:
        return True
    if value is None:
        return False
    if isinstance(wanted, str):
        return fnmatchcase(value, wanted)
    return any(fnmatchcase(value, pattern) for pattern in wanted)


@lru_cache(maxsize=1_024)
def path_glob(pattern: str, any_depth: bool) -> Any:
    """Return a path's glob as an RE2 expression: `*` and `?` match within one directory, `**` does not. With
    `any_depth`, as ask and deny rules need it, it also matches below any directory, regardless of case."""
    return compiled(_source(pattern, any_depth), ignore_case=any_depth)


@lru_cache(maxsize=256)
def path_globs(patterns: tuple[str, ...]) -> Any:
    """Return one expression for all of the globs, each as `path_glob` reads it for ask and deny rules."""
    return compiled("|".join(f"(?:{_source(pattern, any_depth=True)})" for pattern in patterns), ignore_case=True)


def _source(pattern: str, any_depth: bool) -> str:
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            parts.append("(?:.*/)?")
            at += 3
        elif pattern.startswith("**", at):
            parts.append(".*")
            at += 2
        else:
            char = pattern[at]
            parts.append("[^/]*" if char == "*" else "[^/]" if char == "?" else re.escape(char))
            at += 1
    lead = "(?:.*/)?" if any_depth and not pattern.startswith("/") else ""
    return lead + "".join(parts)


def any_glob(wanted: str | Sequence[str]) -> re.Pattern[str]:
    """Return one expression for all of the globs, as `fits_glob` reads them; it matches nothing if there are none."""
    return re.compile("|".join(translate(one) for one in ([wanted] if isinstance(wanted, str) else wanted)) or "(?!)")
