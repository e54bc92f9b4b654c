"""Checkpoints in an S3-compatible store under an object lock: not even the gateway's host can remove one (U-3).

There is one object per checkpoint, `PREFIX/TENANT/SIZE.checkpoint`, SIZE with leading zeros so that names sort as the
log grows. The store refuses to overwrite or delete it before its time is over (Object Lock, mode COMPLIANCE).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote

from botocore.exceptions import BotoCoreError, ClientError

from interlock.backends.bucket import Bucket, Failure, code_of, connect
from interlock.command.audit.audit_lines import parse_checkpoint_line
from interlock.ports.checkpoints import CheckpointSink
from interlock.ports.clock import Clock

SUFFIX = ".checkpoint"
SIZE_DIGITS = 20
_PRESENT = {"PreconditionFailed", "412", "ConditionalRequestConflict"}


class LockedCheckpoints(CheckpointSink):
    """See `interlock.ports.checkpoints.CheckpointSink`. A failure of the store is an OSError with one sentence."""

    def __init__(self, bucket: Bucket, clock: Clock, lock_days: int = 365) -> None:
        self._bucket = bucket
        self._clock = clock
        self._lock_days = lock_days
        self._store = connect(bucket)

    def append(self, tenant_id: str, line: bytes) -> None:
        found = parse_checkpoint_line(line)
        if found is None:
            raise OSError("What is to be kept is not a checkpoint.")
        name = f"{self._folder(tenant_id)}{found.size:0{SIZE_DIGITS}d}{SUFFIX}"
        until = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC) + timedelta(days=self._lock_days)
        try:
            self._store.put_object(Bucket=self._bucket.name, Key=name, Body=line, IfNoneMatch="*",
                                   ChecksumAlgorithm="SHA256", ContentType="application/json",
                                   ObjectLockMode="COMPLIANCE", ObjectLockRetainUntilDate=until)
        except ClientError as error:
            if code_of(error) not in _PRESENT:
                raise _refused(error, self._bucket) from None
            if self._read(name) != line:
                raise OSError(f"{self._bucket.name} holds another checkpoint under {name}: the log was rolled back or "
                              "rewritten, or another gateway writes there.") from None
        except BotoCoreError as error:
            raise _refused(error, self._bucket) from None

    def lines(self, tenant_id: str) -> list[bytes]:
        return [self._read(name) for name in self._names(self._folder(tenant_id)) if name.endswith(SUFFIX)]

    def newest(self, tenant_id: str, after: int) -> list[bytes]:
        folder = self._folder(tenant_id)
        since = f"{folder}{after:0{SIZE_DIGITS}d}{SUFFIX}" if after >= 0 else ""
        names = [name for name in self._names(folder, since) if name.endswith(SUFFIX)]
        return [self._read(max(names))] if names else []

    def set_aside(self, tenant_id: str) -> None:
        if self._names(self._folder(tenant_id)):
            raise OSError(f"{self._bucket.name} keeps checkpoints of this log as it was, under {self._bucket.prefix}, "
                          "and cannot be taken back: name another s3_prefix under [audit], and start again.")

    def tenants(self) -> list[str]:
        names = self._names(self._bucket.prefix + "/")
        return sorted({unquote(name.removeprefix(self._bucket.prefix + "/").split("/")[0]) for name in names})

    def _folder(self, tenant_id: str) -> str:
        return f"{self._bucket.prefix}/{quote(tenant_id, safe='')}/"

    def _names(self, folder: str, after: str = "") -> list[str]:
        try:
            pages = self._store.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket.name, Prefix=folder, **({"StartAfter": after} if after else {}))
            return [str(entry["Key"]) for page in pages for entry in page.get("Contents", ())]
        except Failure as error:
            raise _refused(error, self._bucket) from None

    def _read(self, name: str) -> bytes:
        try:
            return bytes(self._store.get_object(Bucket=self._bucket.name, Key=name)["Body"].read())
        except Failure as error:
            raise _refused(error, self._bucket) from None


class Both(CheckpointSink):
    """A sink that stores each checkpoint in the locked store first, then in the file that is read: the file never has
    one that the store lacks."""

    def __init__(self, locked: CheckpointSink, near: CheckpointSink) -> None:
        self._locked = locked
        self._near = near

    def append(self, tenant_id: str, line: bytes) -> None:
        self._locked.append(tenant_id, line)
        self._near.append(tenant_id, line)

    def lines(self, tenant_id: str) -> list[bytes]:
        """Return the file's; if it is gone, the store's: what was signed is the evidence, wherever it is stored."""
        return self._near.lines(tenant_id) or self._locked.lines(tenant_id)

    def newest(self, tenant_id: str, after: int) -> list[bytes]:
        """Return the file's, and the store's if that has a later one, which a writer of the file cannot remove."""
        near = self._near.newest(tenant_id, after)
        known = parse_checkpoint_line(near[0]) if near else None
        return [*near, *self._locked.newest(tenant_id, max(after, known.size if known is not None else -1))]

    def set_aside(self, tenant_id: str) -> None:
        self._locked.set_aside(tenant_id)
        self._near.set_aside(tenant_id)

    def tenants(self) -> list[str]:
        return sorted({*self._near.tenants(), *self._locked.tenants()})


def _refused(error: Exception, bucket: Bucket) -> OSError:
    return OSError(f"The bucket {bucket.name} did not take or give a checkpoint: {code_of(error) or error}")
