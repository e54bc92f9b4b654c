"""The storage of large objects: a directory of the state, or a bucket that several gateways share (E-5)."""

from __future__ import annotations

from pathlib import Path

from interlock.backends.objects.directory import DirectoryObjects
from interlock.backends.objects.relocation import MovedObjects
from interlock.config import ConfigError, ObjectsSection
from interlock.ports.clock import Entropy
from interlock.ports.objects import Objects
from interlock.protocol.extras import install

OBJECTS_NAME = "objects"


def open_objects(state: Path, section: ObjectsSection, entropy: Entropy) -> Objects:
    """Open the store. Objects in the directory from before there was a bucket stay readable. Raises ObjectsError, and
    ConfigError if the S3 extra is not installed or finds no region."""
    directory = state / OBJECTS_NAME
    if section.s3_bucket is None:
        return DirectoryObjects(directory)
    try:  # A heavy import that a single gateway does not need.
        from interlock.backends.bucket import Bucket
        from interlock.backends.objects.bucket import BucketObjects
    except ModuleNotFoundError:
        raise ConfigError([f"[objects]: s3_bucket needs the extra s3: {install('s3')}."]) from None
    bucket = Bucket(section.s3_bucket, section.s3_prefix, section.s3_endpoint, section.s3_region)
    try:
        objects = BucketObjects(bucket, entropy)
    except Exception as error:  # noqa: BLE001 - whatever its own settings lack, the person gets one sentence
        raise ConfigError([f"[objects]: the store cannot be asked: {error}."]) from None
    return MovedObjects(objects, DirectoryObjects(directory)) if directory.is_dir() else objects
