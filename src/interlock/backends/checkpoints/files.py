"""Checkpoints in append-only files, one per tenant (U-3)."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, unquote

from interlock.command.audit.audit_lines import parse_checkpoint_line
from interlock.durable_files import sync_directory
from interlock.ports.checkpoints import CheckpointSink

MAX_LINE_BYTES = 16_384
"""No checkpoint's line is longer."""
SUFFIX = ".checkpoints"
ASIDE = ".set-aside-"
"""Before a number, the suffix of a file that was set aside."""


class CheckpointFiles(CheckpointSink):
    """`<folder>/<tenant>.checkpoints`, a line each. See `interlock.ports.checkpoints.CheckpointSink`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, tenant_id: str) -> Path:
        """Return the path of a tenant's checkpoints."""
        return self._folder / (quote(tenant_id, safe="") + SUFFIX)

    def append(self, tenant_id: str, line: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.path(tenant_id)
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            _cut_torn_line(descriptor)
            os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            sync_directory(self._folder)

    def lines(self, tenant_id: str) -> list[bytes]:
        try:
            whole = self.path(tenant_id).read_bytes()
        except FileNotFoundError:
            return []
        return whole.splitlines(keepends=True)

    def newest(self, tenant_id: str, after: int) -> list[bytes]:
        kept = self.lines(tenant_id)
        if len(kept) > 1 and not kept[-1].endswith(b"\n") and parse_checkpoint_line(kept[-1]) is None:
            return kept[-2:-1]
        return kept[-1:]

    def set_aside(self, tenant_id: str) -> None:
        path = self.path(tenant_id)
        if not path.exists():
            return
        number = 1 + sum(1 for _ in self._folder.glob(f"{path.name}{ASIDE}*"))
        path.rename(path.with_name(f"{path.name}{ASIDE}{number}"))
        sync_directory(self._folder)

    def tenants(self) -> list[str]:
        return sorted(unquote(path.name.removesuffix(SUFFIX)) for path in self._folder.glob("*" + SUFFIX))


def _cut_torn_line(descriptor: int) -> None:
    """Remove the rest of a line that a power cut truncated and that was never acknowledged."""
    end = os.fstat(descriptor).st_size
    if end and os.pread(descriptor, 1, end - 1) != b"\n":
        start = max(0, end - MAX_LINE_BYTES)
        os.ftruncate(descriptor, start + os.pread(descriptor, end - start, start).rfind(b"\n") + 1)
