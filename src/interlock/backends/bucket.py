"""Access to a bucket of an S3-compatible store, shared by all backends that store objects in one."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 10
ATTEMPTS = 2
CONNECTIONS = 16
"""Requests to the store at the same time."""
Failure = (ClientError, BotoCoreError)
"""Raised by requests that the store did not complete."""


class Bucket(NamedTuple):
    """The location of a bucket: credentials are those of the environment, as for every S3 program."""

    name: str
    prefix: str = "interlock"
    endpoint: str | None = None
    region: str | None = None


def connect(bucket: Bucket) -> Any:
    """Create the store's client, without a request. Raises if botocore's own settings are incomplete."""
    settings = Config(connect_timeout=CONNECT_TIMEOUT_S, read_timeout=READ_TIMEOUT_S,
                      max_pool_connections=CONNECTIONS,
                      retries={"total_max_attempts": ATTEMPTS, "mode": "standard"})
    return cast("Any", boto3).client("s3", endpoint_url=bucket.endpoint, region_name=bucket.region, config=settings)


def code_of(error: Exception) -> str:
    """Return the store's own error code; "" if it did not answer."""
    if not isinstance(error, ClientError):
        return ""
    return str(cast("dict[str, Any]", error.response).get("Error", {}).get("Code", ""))
