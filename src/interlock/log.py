"""Logs: one JSON object per line, on standard error or in a file of the state directory, without the values of
variables."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import Any, TextIO, cast

import structlog

from interlock.command.redaction import Redaction, RedactionRule


class _Unbreakable:
    """A stream that drops a line that cannot be written: a closed pipe or a full disk must not end the work that it
    reports."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, line: str) -> None:
        """Write a line if possible."""
        with contextlib.suppress(OSError, ValueError):
            self._file.write(line)

    def flush(self) -> None:
        """Flush if possible."""
        with contextlib.suppress(OSError, ValueError):
            self._file.flush()


class _InForce:
    """The redaction rules that currently apply to lines."""

    redaction = Redaction()


def redact_by(rules: Sequence[RedactionRule]) -> None:
    """Redact later lines by these rules."""
    _InForce.redaction = Redaction(rules)


def configure(path: Path | None = None, rules: Sequence[RedactionRule] = ()) -> TextIO:
    """Send the logs of this process to `path` (appended, mode 0600), or to standard error; returns the stream that is
    written to.

    Secrets, and text that matches `rules`, are redacted in every text that is not an id (K-4). A traceback names files,
    lines and calls, without the values in its frames, since they may be keys (K-4).
    """
    redact_by(rules)

    def redacted(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return cast("MutableMapping[str, Any]", _InForce.redaction.value(event))

    file = _open(path) if path is not None else sys.stderr
    exceptions = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.ExceptionRenderer(exceptions),
            redacted,
            structlog.processors.JSONRenderer(default=str),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", _Unbreakable(file))),
        cache_logger_on_first_use=False,
    )
    return file


def as_text(line: str) -> str:
    """Format a line of a log for people: time, level if it is above info, event, and the other fields, a text with
    control characters as JSON.

    Any other line is returned unchanged."""
    try:
        event = cast("dict[str, Any]", json.loads(line))
        at, level, what = (str(event.pop(name)) for name in ("timestamp", "level", "event"))
    except (ValueError, KeyError, AttributeError, TypeError):
        return line
    frames = event.pop("exception", None)
    if frames:
        event["error"] = "; ".join(f"{frame.get('exc_type')}: {frame.get('exc_value')}" for frame in frames)
    rest = "".join(f"  {name}={value if isinstance(value, str) and value.isprintable() else json.dumps(value)}"
                   for name, value in event.items())
    return f"{at[11:19]} {'' if level == 'info' else level + ': '}{what}{rest}\n"


def _open(path: Path) -> TextIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    return os.fdopen(descriptor, "a", buffering=1, encoding="utf-8")
