"""A transcript's file as an earlier process left it, and how much of it is read."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from interlock.ports.transcripts import TranscriptHeader
from interlock.protocol.records import TranscriptLine

HEADER = TranscriptHeader("S1", "shell", "/w", "2026-01-01T00:00:00.000Z", "t1")


def line(entry_id: str, parent: str | None = None) -> TranscriptLine:
    body = msgspec.json.encode({"type": "custom", "id": entry_id, "parentId": parent, "timestamp": ""})
    return TranscriptLine(tenant_id="t1", session_id="S1", entry_id=entry_id, line=body)


def damaged(file: Path, tail: bytes) -> bytes:
    """Lay down a file that an earlier process left, with `tail` at its end; returns the content before it."""
    whole = b'{"type":"session","version":3,"id":"S1"}\n' + line("a").line + b"\n"
    file.parent.mkdir(parents=True)
    file.write_bytes(whole + tail)
    return whole


def long_file(file: Path, entries: int) -> None:
    """Lay down a sound file that an earlier process left: a chain of entries of 1 KiB."""
    file.parent.mkdir(parents=True, exist_ok=True)
    padding = b'"custom","data":"' + b"x" * 1024 + b'"'
    chain = [line(f"e{at}", f"e{at - 1}" if at else None).line.replace(b'"custom"', padding) for at in range(entries)]
    file.write_bytes(b'{"type":"session","version":3,"id":"S1"}\n' + b"\n".join(chain) + b"\n")


class ReadBytes:
    """Counts the bytes that are read of one file."""

    def __init__(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._file = file
        self._pread = os.pread
        monkeypatch.setattr(os, "pread", self._counted)

    def _counted(self, fd: int, size: int, at: int) -> bytes:
        data = self._pread(fd, size, at)
        if os.fstat(fd).st_ino == self._file.stat().st_ino:
            self.count += len(data)
        return data
