"""How a policy's words are compared with a value: one of several, a glob, a path's glob."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from typing import Any

from interlock.command.patterns import compiled

MAX_GLOB_CHARS = 1_000


def is_one_of(wanted: str | Sequence[str] | None, value: str | None) -> bool:
    """Whether a value is the one that is named, or among those that are; None names all."""
    if wanted is None:
        return True
    return value == wanted if isinstance(wanted, str) else value in wanted


def fits_glob(wanted: str | Sequence[str] | None, value: str | None) -> bool:
    """Whether a value fits one of the globs; None fits all, also an absent value."""
    if wanted is None:
        return True
    if value is None:
        return False
    if isinstance(wanted, str):
        return fnmatchcase(value, wanted)
    return any(fnmatchcase(value, pattern) for pattern in wanted)


@lru_cache(maxsize=1_024)
def path_glob(pattern: str, any_depth: bool) -> Any:
    """A path's glob as RE2 matches it: `*` and `?` stay inside one directory, `**` does not. With `any_depth`, as ask
    and deny rules need it, it also fits below any directory, and upper and lower case are the same."""
    return compiled(_source(pattern, any_depth), ignore_case=any_depth)


@lru_cache(maxsize=256)
def path_globs(patterns: tuple[str, ...]) -> Any:
    """One expression for all of the globs, each as `path_glob` reads it for ask and deny rules."""
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
    """One expression for all of the globs, as `fits_glob` reads them; it fits nothing where there is none."""
    return re.compile("|".join(translate(one) for one in ([wanted] if isinstance(wanted, str) else wanted)) or "(?!)")
