"""Ids: made from time and randomness that are passed in, so that tests and recovery can predict them."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol.identifiers import AGENT_ID, command_stream, session_stream, tenant_stream, ulid, uuid4

INSTANT = st.integers(0, 2**48 - 1)


@pytest.mark.req("C-0")
@given(INSTANT, INSTANT, st.binary(min_size=10, max_size=10), st.binary(min_size=10, max_size=10))
def test_a_ulid_sorts_by_time_then_randomness(one: int, other: int, this: bytes, that: bytes) -> None:
    first, second = ulid(one, this), ulid(other, that)
    assert len(first) == 26
    assert set(first) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")
    assert (first < second) == ((one, this) < (other, that))
    assert (first == second) == ((one, this) == (other, that))


@pytest.mark.req("C-0")
def test_a_ulid_has_the_form_of_its_specification() -> None:
    assert ulid(1_469_918_176_385, bytes(10)) == "01ARYZ6S41" + "0" * 16
    assert ulid(2**48 - 1, b"\xff" * 10) == "7" + "Z" * 25


@pytest.mark.req("W-1")
@given(st.binary(min_size=16, max_size=16))
def test_a_uuid_is_of_version_4_and_keeps_the_rest(entropy: bytes) -> None:
    written = uuid4(entropy)
    read = uuid.UUID(written)
    assert (read.version, read.variant, str(read)) == (4, uuid.RFC_4122, written)
    assert uuid.UUID(bytes=entropy, version=4) == read


@pytest.mark.req("S-1")
@given(st.text(), st.text())
def test_streams_of_different_things_never_share_a_name(one: str, other: str) -> None:
    names = {session_stream(one), command_stream(one), tenant_stream(one)}
    assert len(names) == 3
    assert (session_stream(one) == session_stream(other)) == (one == other)


@pytest.mark.req("R-2")
@pytest.mark.parametrize(
    ("name", "good"),
    [("a", True), ("0", True), ("my-agent_2", True), ("a" * 64, True), ("a" * 65, False), ("", False), ("A", False),
     ("-a", False), ("_a", False), ("a b", False), ("a:b", False), ("a\n", False), ("é", False)],
)
def test_agent_ids_have_the_specified_form(name: str, good: bool) -> None:
    assert (AGENT_ID.fullmatch(name) is not None) is good
