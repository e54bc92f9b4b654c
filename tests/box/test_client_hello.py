"""The server name of a real ClientHello, and of data that only looks like one (H-19)."""

from __future__ import annotations

import ssl

import pytest

from interlock.box.client_hello import NotTls, server_name

pytestmark = pytest.mark.req("H-19")


def hello(name: str | None) -> bytes:
    """The first bytes of a TLS client of Python's own."""
    context = ssl.create_default_context()
    context.check_hostname = name is not None
    if name is None:
        context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(("asked", "found"), [("api.example.com", "api.example.com"), ("API.Example.com",
                         "api.example.com"), ("xn--bcher-kva.example", "xn--bcher-kva.example"), (None, "")])
def test_the_server_name_is_read(asked: str | None, found: str) -> None:
    assert server_name(hello(asked)) == found


def test_an_incomplete_hello_is_waited_for() -> None:
    whole = hello("api.example.com")
    assert {server_name(whole[:size]) for size in range(len(whole))} == {None}
    assert server_name(whole + b"more") == "api.example.com"


def test_a_hello_of_several_records_is_joined() -> None:
    whole = hello("api.example.com")
    body = whole[5:]
    records = b"".join(b"\x16\x03\x01" + len(body[at:at + 7]).to_bytes(2, "big") + body[at:at + 7]
                       for at in range(0, len(body), 7))
    assert server_name(records) == "api.example.com"
    assert server_name(records[:-1]) is None


def with_names(*names: bytes) -> bytes:
    """A ClientHello that names these servers, and nothing else."""
    listed = b"".join(b"\0" + len(name).to_bytes(2, "big") + name for name in names)
    extension = len(listed).to_bytes(2, "big") + listed
    extensions = b"\0\0" + len(extension).to_bytes(2, "big") + extension
    body = b"\3\3" + bytes(32) + b"\0" + b"\0\2\0\1" + b"\1\0" + len(extensions).to_bytes(2, "big") + extensions
    message = b"\1" + len(body).to_bytes(3, "big") + body
    return b"\x16\3\1" + len(message).to_bytes(2, "big") + message


def test_two_names_are_refused() -> None:
    assert server_name(with_names(b"a.example")) == "a.example"
    with pytest.raises(NotTls, match="more than one server"):
        server_name(with_names(b"a.example", b"b.example"))


@pytest.mark.parametrize("data", [
    b"GET / HTTP/1.1\r\n", b"SSH-2.0-x", b"\x16\x02", b"\x16\x03\x01\x00\x00", b"\x17\x03\x03\x00\x01x",
    b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", b"\x16\x03\x01\x00\x04\x01\xff\xff\xff",
    b"\x16\x03\x01\x00\x07\x01\x00\x00\x03abc", with_names(b"\xff.example"),
])
def test_a_message_that_is_not_a_client_hello_is_refused(data: bytes) -> None:
    with pytest.raises(NotTls):
        server_name(data)
