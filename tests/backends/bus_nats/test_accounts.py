"""Identity of a gateway and of the bus: TLS, passwords, tokens, NKeys, credentials."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from certificates import Certificates, certificates
from interlock.app.own_servers import OwnServer, free_port, start_nats
from interlock.backends.bus_nats import link as link_module
from interlock.backends.bus_nats.bus import open_bus
from interlock.backends.bus_nats.places import read_places
from interlock.ports.bus import BusError
from nats_accounts import Operator, identity

pytestmark = pytest.mark.anyio
Start = Callable[..., Awaitable[str]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "RECONNECT_WAIT_S", 0.02)


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """`await start(*options)`: a server of the test's own, by its host and port."""
    async with AsyncExitStack() as ends:
        async def started(*options: str) -> str:
            server: OwnServer = await asyncio.to_thread(start_nats, tmp_path / "nats", options=options)
            ends.push_async_callback(asyncio.to_thread, server.stop, signal.SIGTERM)
            return server.url.removeprefix("nats://")

        yield started


@pytest.fixture
def paper(tmp_path: Path) -> Certificates:
    return certificates(tmp_path / "tls", "127.0.0.1")


async def works(address: str) -> bool:
    """Whether a request over the bus is answered."""
    bus = await open_bus(read_places(address), "t")
    try:
        async def echo(body: bytes) -> bytes:
            return body

        await bus.serve("echo", echo)
        return await bus.request("echo", b"heard", 10_000) == b"heard"
    finally:
        await bus.close()


async def refused(address: str) -> str:
    """The sentence with which a gateway would not start."""
    with pytest.raises(BusError) as raised:
        await open_bus(read_places(address), "t")
    sentence = str(raised.value)
    assert sentence.startswith("--bus: ")
    assert "\n" not in sentence
    return sentence


async def test_a_user_and_password_with_any_characters_are_used(start: Start) -> None:
    there = await start("--user", "u", "--pass", "p@ss/w:rd")
    assert await works(f"nats://u:p%40ss%2Fw%3Ard@{there}")
    for wrong in (f"nats://u:no@{there}", f"nats://{there}"):
        message = await refused(wrong)
        assert "refuses this gateway (Authorization Violation)" in message
        assert "user and password" in message
        assert "u:no" not in message


async def test_a_token_is_in_the_address_or_in_a_file(start: Start, tmp_path: Path) -> None:
    there = await start("--auth", "s3cret")
    (tmp_path / "token").write_text("s3cret\n")
    assert await works(f"nats://s3cret@{there}")
    assert await works(f"nats://{there}?token={tmp_path / 'token'}")
    assert "Authorization Violation" in await refused(f"nats://other@{there}")


async def test_an_nkey_is_a_file_with_its_seed(start: Start, tmp_path: Path) -> None:
    known, stranger = identity(), identity()
    (tmp_path / "server.conf").write_text(f"authorization {{ users = [ {{ nkey: {known.public} }} ] }}")
    there = await start("-c", str(tmp_path / "server.conf"))
    for name, one in (("known", known), ("stranger", stranger)):
        (tmp_path / name).write_text(one.seed + "\n")
    assert await works(f"nats://{there}?nkey={tmp_path / 'known'}")
    assert "file that credentials, nkey or token names" in await refused(f"nats://{there}?nkey={tmp_path / 'stranger'}")


async def test_a_credentials_file_has_a_jwt_and_its_seed(start: Start, tmp_path: Path) -> None:
    ours, theirs = Operator(), Operator()
    there = await start("-c", str(ours.config(tmp_path / "server.conf")))
    assert await works(f"nats://{there}?credentials={ours.credentials(tmp_path / 'ours.creds')}")
    assert "Authorization Violation" in await refused(
        f"nats://{there}?credentials={theirs.credentials(tmp_path / 'theirs.creds')}")


async def test_a_certificate_of_a_named_authority_is_trusted_and_another_is_not(
    start: Start, paper: Certificates
) -> None:
    there = await start("--tls", "--tlscert", str(paper.cert), "--tlskey", str(paper.key))
    assert await works(f"tls://{there}?ca={paper.ca}")
    assert await works(f"nats://{there}?ca={paper.ca}")
    for untrusted in (f"tls://{there}", f"nats://{there}"):
        assert "is not trusted" in await refused(untrusted)
    assert "name its authority with ?ca=FILE, and the server as its certificate does" in await refused(
        f"tls://{there.replace('127.0.0.1', 'localhost')}?ca={paper.ca}")


async def test_a_server_may_want_a_certificate_of_the_gateway(start: Start, paper: Certificates) -> None:
    there = await start("--tlsverify", "--tlscert", str(paper.cert), "--tlskey", str(paper.key), "--tlscacert",
                        str(paper.ca))
    assert await works(f"tls://{there}?ca={paper.ca}&cert={paper.cert}&key={paper.key}")
    without = read_places(f"tls://{there}?ca={paper.ca}")
    # By TLS 1.3 the server refuses after its handshake: its alert arrives, or the end of the connection overtakes it.
    try:
        bus = await open_bus(without, "t")
    except BusError as refusal:
        assert "?cert=FILE&key=FILE" in str(refusal)  # noqa: PT017 - without a refusal the other branch holds.
    else:
        assert not bus.connected()
        await bus.close()
    assert "?cert=FILE&key=FILE" in without.reason(ConnectionResetError("Connection lost"))


async def test_nothing_is_sent_in_clear_to_a_server_of_a_tls_address(
    start: Start, paper: Certificates
) -> None:
    """A man in the middle could have removed TLS from the server's first message."""
    there = await start("--user", "u", "--pass", "secret")
    message = await refused(f"tls://u:secret@{there}?ca={paper.ca}")
    assert "does not ask for TLS" in message
    assert "secret" not in message
    connections: list[bytes] = []

    async def stripped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","version":"2.10.0","max_payload":1048576,"auth_required":true}\r\n')
        connections.append(await reader.read())
        writer.close()

    liar = await asyncio.start_server(stripped, "127.0.0.1", 0)
    port = liar.sockets[0].getsockname()[1]
    await refused(f"tls://u:secret@127.0.0.1:{port}?ca={paper.ca}")
    liar.close()
    await liar.wait_closed()
    assert set(connections) == {b""}


async def test_a_running_gateway_that_is_refused_keeps_retrying(tmp_path: Path) -> None:
    """A password that is changed on the servers first must not end the gateways."""
    port = free_port()

    async def begin(password: str) -> OwnServer:
        return await asyncio.to_thread(start_nats, tmp_path, port=port, options=["--user", "u", "--pass", password])

    server = await begin("one")
    bus = await open_bus(read_places(f"nats://u:one@127.0.0.1:{port}"), "t")
    gap = asyncio.Event()
    bus.on_gap(gap.set)
    await asyncio.to_thread(server.stop, signal.SIGKILL)
    server = await begin("two")
    while "authentication error" not in (tmp_path / "nats.log").read_text():
        await asyncio.sleep(0)
    assert not bus.connected()
    await asyncio.to_thread(server.stop, signal.SIGKILL)
    server = await begin("one")
    await asyncio.wait_for(gap.wait(), 20)
    assert bus.connected()
    await bus.close()
    await asyncio.to_thread(server.stop, signal.SIGTERM)


@pytest.mark.parametrize("text", [
    "", "localhost", "http://a", "nats://", "nats://a:port", "nats://a:4222,", "nats://a?password=x", "nats://a?ca=/none",
    "nats://who:secret@a:b", "nats://u:secret@a,nats://v:secret@b", "ws://a",
])
def test_an_invalid_address_is_refused_in_one_sentence_without_secrets(text: str) -> None:
    with pytest.raises(BusError) as raised:
        read_places(text)
    assert str(raised.value).startswith("--bus: ")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(("name", "content", "expected"), [
    ("credentials", "nothing of the kind", "no .creds file"),
    ("credentials", "-----BEGIN NATS USER JWT-----\nx\n-----BEGIN USER NKEY SEED-----\nSUx\n", "no NKey's seed"),
    ("credentials", "-----BEGIN NATS USER JWT-----", "no .creds file"),
    ("nkey", "SUNOTASEED", "no NKey's seed"), ("nkey", "", "no NKey's seed"),
    ("token", "", "no token"), ("token", "two words", "no token"), ("token", "t\u00e4", "cannot be read"),
    ("key", "", "name that with cert"), ("ca", "no certificate", "certificate cannot be used"),
])
def test_a_wrong_credentials_file_is_reported_before_anything_starts(
    tmp_path: Path, name: str, content: str, expected: str
) -> None:
    (tmp_path / "file").write_text(content)
    with pytest.raises(BusError, match=expected):
        read_places(f"nats://a?{name}={tmp_path / 'file'}")


def test_one_account_is_sufficient(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    with pytest.raises(BusError, match="one account"):
        read_places(f"nats://u:p@a?token={tmp_path / 'token'}")


def test_an_address_names_servers_and_files(tmp_path: Path) -> None:
    creds = Operator().credentials(tmp_path / "me.creds")
    places = read_places(f"nats://a:4222, tls://b?credentials={creds}")
    assert places.servers == ["nats://a:4222", "tls://b"]
    assert places.tls is not None
    assert places.account == ("credentials", str(creds))
    same = read_places("nats://u:p%40@a:4222,nats://u:p%40@b")
    assert (same.servers, same.user, same.password) == (["nats://a:4222", "nats://b"], "u", "p@")
    assert same.shown() == "nats://a:4222,nats://b:4222"
