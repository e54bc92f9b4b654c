"""A bucket of an S3-compatible store: called at its own address, and its error codes are read (E-5)."""

from __future__ import annotations

import pytest

pytest.importorskip("boto3")

from botocore.exceptions import ClientError, EndpointConnectionError

from interlock.backends.bucket import ATTEMPTS, Bucket, code_of, connect


def test_a_bucket_is_requested_at_its_own_address_with_bounded_attempts() -> None:
    client = connect(Bucket("b", endpoint="http://127.0.0.1:9", region="eu-1"))

    assert (client.meta.endpoint_url, client.meta.region_name) == ("http://127.0.0.1:9", "eu-1")
    assert client.meta.config.retries["total_max_attempts"] == ATTEMPTS
    client.close()


def test_the_stores_error_is_read_and_an_empty_response_has_none() -> None:
    assert code_of(ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")) == "NoSuchKey"
    assert code_of(ClientError({}, "GetObject")) == ""
    assert code_of(EndpointConnectionError(endpoint_url="http://x")) == ""
    assert code_of(ValueError("x")) == ""
