"""The redaction of text that leaves the gateway: always of secrets, and of what the config's rules match (K-4).

The patterns are RE2's: they take time in proportion to the text, whatever the pattern and whatever the text.
"""

from __future__ import annotations

import re as _re
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import msgspec
import re2

_RE2: Any = re2
_RE2_ERROR: type[Exception] = _RE2.error
MAX_RULES = 100
MAX_PATTERN_CHARS = 1_000
_GROUP = _re.compile(r"\\([0-9])")
NAME = _re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")

_IDS = frozenset({
    "id", "type", "kind", "state", "code", "level", "event", "seq", "n", "at", "timestamp", "digest", "hash", "cursor",
    "next_cursor", "sha256", "instance",
})  # fmt: skip


def _filled(replacement: str, found: Any) -> str:
    """Insert the groups into a replacement. RE2's own expansion corrupts letters beyond ASCII."""
    return _GROUP.sub(lambda number: found.group(int(number[1])) or "", replacement)


def _compiled(regex: str) -> Any:
    options = _RE2.Options()
    options.log_errors = False
    return _RE2.compile(regex, options)


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


class RedactionRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[[redaction.rules]]`: what `regex` matches is replaced; `\\1` in the replacement is the first group."""

    name: str
    regex: str
    replacement: str = ""

    def __post_init__(self) -> None:
        if NAME.fullmatch(self.name) is None:
            raise ValueError('name: use a-z, 0-9, "-" and "_", at most 64')
        if not 0 < len(self.regex) <= MAX_PATTERN_CHARS:
            raise ValueError(f"regex: from 1 to {MAX_PATTERN_CHARS} characters")
        try:
            compiled = _compiled(self.regex)
        except _RE2_ERROR as error:
            raise ValueError(f"regex: not of RE2's syntax: {_reason(error)}") from None
        if any(int(number) > compiled.groups for number in _GROUP.findall(self.replacement)):
            raise ValueError("replacement: it names a group that the pattern does not have")
        if compiled.search("") is not None:
            raise ValueError("regex: it matches the empty text, and so would stand between any two characters")


SHIPPED = (
    RedactionRule(name="credential", regex=r"\b(il[krt]_)[A-Za-z0-9_-]{8,}", replacement=r"\1..."),
    RedactionRule(name="bearer", regex=r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}", replacement=r"\1 ..."),
    RedactionRule(name="jwt", regex=r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*", replacement="(token)"),
    RedactionRule(name="private-key", replacement="(private key)",
                  regex=r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----"),
)
"""Interlock's own credentials, those of headers, tokens of issuers, private keys: always redacted, whatever the
config."""


class Redaction:
    """The shipped rules, then a config's, applied in order."""

    def __init__(self, rules: Sequence[RedactionRule] = ()) -> None:
        self._rules = [(_compiled(rule.regex), rule.replacement or f"(redacted: {rule.name})")
                       for rule in (*SHIPPED, *rules)]

    def text(self, text: str) -> str:
        """Redact a text."""
        if not text.isascii():
            # Half of a surrogate pair cannot be searched, nor encoded.
            text = text.encode("utf-8", "replace").decode()
        for pattern, replacement in self._rules:
            text = pattern.sub(partial(_filled, replacement), text)
        return text

    def value(self, value: Any, key: str = "") -> Any:
        """Redact the texts of a JSON value, except ids, which are recognised by their key."""
        if isinstance(value, str):
            return value if is_id(key) else self.text(value)
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value).items()
            return {self.text(name): self.value(member, name) for name, member in members}
        if isinstance(value, list | tuple):
            return [self.value(member, key) for member in cast("Sequence[Any]", value)]
        return value


def is_id(key: str) -> bool:
    """Return whether the value of a key is an id, and so must not change."""
    return key in _IDS or key.endswith(("_id", "_ids", "_at", "_sha256"))


SECRETS = Redaction()
"""The shipped rules only, applied to errors."""
