"""Checkpoints in an S3-compatible store under an object lock: nobody takes one back, not even the gateway's host (U-3).

One object a checkpoint, `PREFIX/TENANT/SIZE.checkpoint`, SIZE with leading zeros so that names sort as the log grows.
The store refuses to overwrite or delete it before its time is over (Object Lock, mode COMPLIANCE).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast
from urllib.parse import quote, unquote

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from interlock.command.audit_lines import parse_checkpoint_line
from interlock.ports.checkpoints import CheckpointSink
from interlock.ports.clock import Clock

SUFFIX = ".checkpoint"
SIZE_DIGITS = 20
CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 10
ATTEMPTS = 2
_PRESENT = {"PreconditionFailed", "412", "ConditionalRequestConflict"}


class Place(NamedTuple):
    """Where checkpoints go: credentials are those that the environment gives to every S3 program."""

    bucket: str
    prefix: str = "interlock"
    endpoint: str | None = None
    region: str | None = None
    lock_days: int = 365


class LockedCheckpoints(CheckpointSink):
    """See `interlock.ports.checkpoints.CheckpointSink`. A failure of the store is an OSError with one sentence."""

    def __init__(self, place: Place, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        settings = Config(connect_timeout=CONNECT_TIMEOUT_S, read_timeout=READ_TIMEOUT_S,
                          retries={"total_max_attempts": ATTEMPTS, "mode": "standard"})
        self._store = cast("Any", boto3).client("s3", endpoint_url=place.endpoint, region_name=place.region,
                                                config=settings)

    def append(self, tenant_id: str, line: bytes) -> None:
        found = parse_checkpoint_line(line)
        if found is None:
            raise OSError("What is to be kept is no checkpoint.")
        name = f"{self._folder(tenant_id)}{found.size:0{SIZE_DIGITS}d}{SUFFIX}"
        until = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC) + timedelta(days=self._place.lock_days)
        try:
            self._store.put_object(Bucket=self._place.bucket, Key=name, Body=line, IfNoneMatch="*",
                                   ChecksumAlgorithm="SHA256", ContentType="application/json",
                                   ObjectLockMode="COMPLIANCE", ObjectLockRetainUntilDate=until)
        except ClientError as error:
            if _code(error) not in _PRESENT:
                raise _told(error, self._place) from None
            if self._read(name) != line:
                raise OSError(f"{self._place.bucket} holds another checkpoint under {name}: the log was rolled back or "
                              "rewritten, or another gateway writes there.") from None
        except BotoCoreError as error:
            raise _told(error, self._place) from None

    def lines(self, tenant_id: str) -> list[bytes]:
        return [self._read(name) for name in self._names(self._folder(tenant_id)) if name.endswith(SUFFIX)]

    def tenants(self) -> list[str]:
        names = self._names(self._place.prefix + "/")
        return sorted({unquote(name.removeprefix(self._place.prefix + "/").split("/")[0]) for name in names})

    def _folder(self, tenant_id: str) -> str:
        return f"{self._place.prefix}/{quote(tenant_id, safe='')}/"

    def _names(self, folder: str) -> list[str]:
        try:
            pages = self._store.get_paginator("list_objects_v2").paginate(Bucket=self._place.bucket, Prefix=folder)
            return [str(entry["Key"]) for page in pages for entry in page.get("Contents", ())]
        except (ClientError, BotoCoreError) as error:
            raise _told(error, self._place) from None

    def _read(self, name: str) -> bytes:
        try:
            return bytes(self._store.get_object(Bucket=self._place.bucket, Key=name)["Body"].read())
        except (ClientError, BotoCoreError) as error:
            raise _told(error, self._place) from None


class Both(CheckpointSink):
    """Keeps each checkpoint in the locked store first, then in the file that is read: the file never has one that the
    store lacks."""

    def __init__(self, locked: CheckpointSink, near: CheckpointSink) -> None:
        self._locked = locked
        self._near = near

    def append(self, tenant_id: str, line: bytes) -> None:
        self._locked.append(tenant_id, line)
        self._near.append(tenant_id, line)

    def lines(self, tenant_id: str) -> list[bytes]:
        """The file's; where it is gone, the store's: what was signed is the evidence, wherever it lies."""
        return self._near.lines(tenant_id) or self._locked.lines(tenant_id)

    def tenants(self) -> list[str]:
        return sorted({*self._near.tenants(), *self._locked.tenants()})


def _code(error: ClientError) -> str:
    return str(cast("dict[str, Any]", error.response).get("Error", {}).get("Code", ""))


def _told(error: Exception, place: Place) -> OSError:
    why = _code(error) or str(error) if isinstance(error, ClientError) else str(error)
    return OSError(f"The bucket {place.bucket} did not take or give a checkpoint: {why}")
