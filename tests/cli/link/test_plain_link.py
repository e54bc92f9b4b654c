"""A list calls a gateway on this machine without an event loop, and as the library would (Y-18, M-1)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from cli.scripted_server import Answer, ScriptedServer, scripted_server
from interlock.app.own_servers import free_port
from interlock.cli.config.place import Where
from interlock.cli.link import gateway_link
from interlock.cli.link.gateway_link import GatewayLink, ask_gateway
from interlock.cli.link.plain_link import PlainLink
from interlock.cli.verb_error import Trouble
from interlock.sdk import exchange as flows
from interlock.sdk.exchange import ConnectionCut, HttpReply, RequestSpec

pytestmark = pytest.mark.req("Y-18")
PATH = "/v1/commands?limit=2&state=a+b"


@pytest.fixture
def gateway() -> Generator[ScriptedServer]:
    with scripted_server() as made:
        yield made


def sent(link: PlainLink, spec: RequestSpec[bytes]) -> HttpReply | ConnectionCut:
    def flow() -> flows.Flow[HttpReply | ConnectionCut]:
        return (yield flows.Send(spec))
    return link.drive(flow())


LIST = RequestSpec("GET", "/v1/commands", bytes, query={"limit": "2", "state": "a b"})


def test_requests_share_a_connection_until_the_gateway_ends_it(gateway: ScriptedServer) -> None:
    gateway.answers += [Answer(200, {"n": 1}), Answer(503, {"n": 2}, {"Retry-After": "7", "Connection": "close"}),
                        Answer(200, {"n": 3})]
    link = PlainLink(gateway.url, lambda: "ilk_k", None)
    replies = [sent(link, LIST) for _ in range(3)]
    link.close()
    assert replies == [HttpReply(200, b'{"n": 1}'), HttpReply(503, b'{"n": 2}', "7"), HttpReply(200, b'{"n": 3}')]
    assert [one[:3] for one in gateway.asked] == [("GET", PATH, "Bearer ilk_k")] * 3
    ports = [one.port for one in gateway.asked]
    assert ports[0] == ports[1] != ports[2]


def test_a_broken_off_answer_is_distinguished_from_an_absent_gateway(gateway: ScriptedServer) -> None:
    gateway.answers.append(None)
    link = PlainLink(gateway.url, lambda: "ilk_k", None)
    lost = sent(link, LIST)
    assert isinstance(lost, ConnectionCut)
    assert lost.broke_off
    link.move_to(f"http://127.0.0.1:{free_port()}")
    assert sent(link, LIST) == ConnectionCut("Connection refused", broke_off=False)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        link.move_to(f"https://127.0.0.1:{silent.getsockname()[1]}")
        closing = threading.Thread(target=lambda: silent.accept()[0].close())
        closing.start()
        assert isinstance(sent(link, LIST), ConnectionCut), "no TLS is spoken there"
        closing.join()


def test_a_flow_sleeps_by_the_clock_that_it_gets(gateway: ScriptedServer) -> None:
    rested: list[float] = []
    link = PlainLink(gateway.url, lambda: "", None, rested.append, lambda: 5.0)

    def flow() -> flows.Flow[float]:
        yield flows.Rest(1.5)
        return (yield flows.Now())

    assert (link.drive(flow()), rested) == (5.0, [1.5])
    with pytest.raises(AssertionError, match="of a stream"):
        link.drive(_of_a_stream())


def _of_a_stream() -> flows.Flow[None]:
    yield flows.ReadMore()


def asked(gateway: ScriptedServer, state: Path, use: Callable[[GatewayLink], object] = lambda _: None) -> bytes:
    (state / "owner.key").write_text("ilk_test\n")

    async def ask(link: GatewayLink) -> bytes:
        use(link)
        return await link.get("/v1/commands")

    return ask_gateway(Where(state=state, url=gateway.url), ask)


@pytest.mark.req("M-1")
def test_a_broken_off_answer_is_requested_again_and_a_refusal_gives_one_sentence(
    gateway: ScriptedServer, tmp_path: Path
) -> None:
    gateway.answers += [None, Answer(200, {})]
    seen: list[bool] = []
    assert asked(gateway, tmp_path, lambda link: seen.append(link.is_plain)) == b"{}"
    assert (seen, len(gateway.asked)) == ([True], 2)
    gateway.answers.append(Answer(403, {"code": "Forbidden", "detail": "No.", "hint": "Ask."}))
    with pytest.raises(Trouble, match="No") as refused:
        asked(gateway, tmp_path)
    assert refused.value.code == "Forbidden"
    gateway.server.server_close()
    with pytest.raises(Trouble, match="does not answer") as away:
        asked(gateway, tmp_path)
    assert away.value.code == "Unreachable"


def test_a_flow_that_needs_an_event_loop_is_not_a_single_request(gateway: ScriptedServer, tmp_path: Path) -> None:
    (tmp_path / "owner.key").write_text("ilk_test\n")

    class Waiting:
        def __await__(self) -> Generator[None]:
            yield

    async def waits(_: GatewayLink) -> None:
        await Waiting()

    with pytest.raises(AssertionError, match="event loop"):
        ask_gateway(Where(state=tmp_path, url=gateway.url), waits)


@pytest.mark.req("G-3")
@pytest.mark.parametrize("plain", [True, False])
def test_a_gateway_that_stays_silent_is_reported_after_one_wait(
        plain: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It accepts connections and never answers. The read is not repeated: each attempt would wait as long."""
    monkeypatch.setattr(gateway_link, "STATE_TIMEOUT_S", 0.05)
    monkeypatch.setenv("INTERLOCK_KEY", "ilk_k")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = Where(state=tmp_path, url=f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(Trouble, match="it accepted the connection and sent no answer in time") as caught:
            ask_gateway(where, lambda link: link.get("/v1/status"), retries=False, plain=plain)
        assert caught.value.code == "Unreachable"
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()


@pytest.mark.req("N-3", "G-3")
@pytest.mark.parametrize(("retries", "limit_s"), [(True, 60.0), (False, 10.0)])
def test_the_limit_of_an_answer_is_that_of_the_connection(
        gateway: ScriptedServer, tmp_path: Path, retries: bool, limit_s: float) -> None:
    gateway.answers.append(Answer(200, {}))
    (tmp_path / "owner.key").write_text("ilk_test\n")
    limits: list[float | None] = []

    async def ask(link: GatewayLink) -> None:
        await link.get("/v1/commands")
        assert link._plain is not None
        assert link._plain._connection is not None
        limits.append(link._plain._connection.sock.gettimeout())

    ask_gateway(Where(state=tmp_path, url=gateway.url), ask, retries=retries)
    assert limits == [limit_s]


@pytest.mark.req("G-3")
def test_a_gateway_that_accepts_no_connection_in_time_is_not_called_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    def times_out(_: HTTPConnection) -> None:
        raise TimeoutError("timed out")

    monkeypatch.setattr(HTTPConnection, "connect", times_out)
    assert sent(PlainLink("http://127.0.0.1:1", lambda: "", None), LIST) == ConnectionCut("timed out", broke_off=False)
