"""The sinks of the gateway's checkpoints: a file, and a bucket under an object lock if the config names one (U-3)."""

from __future__ import annotations

from pathlib import Path

from interlock.backends.checkpoints.files import CheckpointFiles
from interlock.config import AuditSection, ConfigError
from interlock.gateway.audit.audit_state import CHECKPOINTS_NAME
from interlock.ports.checkpoints import CheckpointSink
from interlock.ports.clock import Clock
from interlock.protocol.extras import install


def open_sink(state: Path, section: AuditSection, clock: Clock) -> CheckpointSink:
    """Join the sinks. Raises ConfigError if the S3 extra is not installed, or finds no region."""
    near = CheckpointFiles(state / CHECKPOINTS_NAME)
    if section.s3_bucket is None:
        return near
    try:  # A large import that few gateways need.
        from interlock.backends.bucket import Bucket
        from interlock.backends.checkpoints.object_lock import Both, LockedCheckpoints
    except ModuleNotFoundError:
        raise ConfigError([f"[audit]: s3_bucket needs the extra s3: {install('s3')}."]) from None
    bucket = Bucket(section.s3_bucket, section.s3_prefix, section.s3_endpoint, section.s3_region)
    try:
        return Both(LockedCheckpoints(bucket, clock, section.lock_days), near)
    except Exception as error:  # noqa: BLE001 - whatever its own settings lack, the person gets one sentence
        raise ConfigError([f"[audit]: the store cannot be asked: {error}."]) from None
