"""A bucket of an S3-compatible store, as everything here that keeps something in one asks it."""

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
"""What a request that the store did not answer well raises."""


class Bucket(NamedTuple):
    """Where it is: credentials are those that the environment gives to every S3 program."""

    name: str
    prefix: str = "interlock"
    endpoint: str | None = None
    region: str | None = None


def connect(bucket: Bucket) -> Any:
    """Make what asks the store; it does not ask yet. Raises what botocore's own settings lack."""
    settings = Config(connect_timeout=CONNECT_TIMEOUT_S, read_timeout=READ_TIMEOUT_S,
                      max_pool_connections=CONNECTIONS,
                      retries={"total_max_attempts": ATTEMPTS, "mode": "standard"})
    return cast("Any", boto3).client("s3", endpoint_url=bucket.endpoint, region_name=bucket.region, config=settings)


def code_of(error: Exception) -> str:
    """The store's own word for what went wrong, "" where it did not answer."""
    if not isinstance(error, ClientError):
        return ""
    return str(cast("dict[str, Any]", error.response).get("Error", {}).get("Code", ""))
