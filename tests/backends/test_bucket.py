"""A bucket of an S3-compatible store: called at its own address, and its error codes are read (E-5)."""

from __future__ import annotations

import pytest

pytest.importorskip("boto3")

from botocore.exceptions import ClientError, EndpointConnectionError

from interlock.backends.bucket import ATTEMPTS, Bucket, code_of, connect


def test_it_is_asked_at_its_own_address_and_only_so_often() -> None:
    client = connect(Bucket("b", endpoint="http://127.0.0.1:9", region="eu-1"))

    assert (client.meta.endpoint_url, client.meta.region_name) == ("http://127.0.0.1:9", "eu-1")
    assert client.meta.config.retries["total_max_attempts"] == ATTEMPTS
    client.close()


def test_the_stores_own_word_is_read_and_silence_has_none() -> None:
    assert code_of(ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")) == "NoSuchKey"
    assert code_of(ClientError({}, "GetObject")) == ""
    assert code_of(EndpointConnectionError(endpoint_url="http://x")) == ""
    assert code_of(ValueError("x")) == ""
