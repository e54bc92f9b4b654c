"""The way to a gateway: where it is, the key for it, and requests whose refusals are one sentence (G-3, F-1)."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from interlock.cli import contexts, renewal, trust
from interlock.cli.api_key import checked_key, key_of
from interlock.cli.contexts import Context
from interlock.cli.device_grant import trust_remedy
from interlock.cli.gateway_reply import decoded, refusal
from interlock.cli.gateway_url import checked_url
from interlock.cli.place import Where, gateway_file
from interlock.cli.runner_line import up_is_starting
from interlock.cli.terminal import say
from interlock.cli.verb_error import Trouble
from interlock.protocol.problems import full_sentence
from interlock.sdk.credential import credential_headers
from interlock.sdk.exchange import (
    ANSWER_TIMEOUT_S,
    CONNECT_TIMEOUT_S,
    STREAM_SILENCE_S,
    ConnectionCut,
    HttpReply,
    Manners,
    RequestSpec,
    patience,
)
from interlock.sdk.place import KeySource, trusting_none

T = TypeVar("T")

MANNERS = Manners()
"""How often and after how long a request is sent again: the library's rule, so that both do the same (M-1, K-3)."""
WAIT_SHOWN_S = 2.0
"""A longer wait that the gateway asks for is announced."""
READ_ATTEMPTS = 4
"""A question whose answer breaks off is asked this often."""
LIST_MAX = 10_000
"""The most that a list shows or a prefix is looked for in."""
LIST_PAGE = 500
UPLOAD_BYTES = 1024 * 1024
"""A file is sent in pieces of this size."""

LOOPBACK = {"127.0.0.1", "::1", "localhost"}


class Address(NamedTuple):
    """Where the gateway is, the key for it, and the process that is said to be it."""

    url: str
    key: str
    pid: int | None = None
    context: Context | None = None
    """Which login it is, if it is one."""
    ca: Path | None = None
    """The CA that was named for it."""


def locate(where: Where) -> Address:
    """Find the gateway: `--on`, `--url`, their variables, the context in use, else the one that runs on the state
    directory. A login that ends soon is renewed first. Raises Trouble."""
    state = where.directory()
    context = contexts.chosen(where)
    running = gateway_file(state)
    if context is not None:
        return _logged_in(context, where)
    named = where.url or os.environ.get("INTERLOCK_URL")
    if named and where.on is None:
        url = checked_url(named)
        own = running is not None and checked_url(running.url) == url
        login = None if own or os.environ.get("INTERLOCK_KEY") is not None else contexts.of_url(state, url)
        return _logged_in(login, where) if login is not None else Address(url, key_of(state), ca=where.ca)
    if running is None and up_is_starting(state):
        raise Trouble("Unreachable", f"The gateway on {state} is still starting.", "Try again in some seconds.")
    if running is None:
        raise Trouble("Unreachable", f"No gateway runs on {state}.", "Start one with: interlock up")
    return Address(checked_url(running.url), key_of(state), running.pid, ca=where.ca)


def _logged_in(context: Context, where: Where) -> Address:
    """The address of a context, with its credential renewed if it ends soon. Raises Trouble."""
    ca = where.ca or (Path(context.ca) if context.ca else None)
    given = os.environ.get("INTERLOCK_KEY")
    if given is not None:
        return Address(context.url, checked_key(given), context=context, ca=ca)
    fresh = renewal.fresh(context, where.directory())
    return Address(fresh.url, fresh.credential, context=fresh, ca=ca)


def renewed_key(address: Address, where: Where) -> str | KeySource:
    """The key for the library: that of a login that ends is asked for at each request, and renewed in time."""
    context = address.context
    if context is None or context.renewal is None or os.environ.get("INTERLOCK_KEY") is not None:
        return address.key
    held = [address]

    def key() -> str:
        last = held[0].context
        if last is not None and renewal.is_due(last):
            with suppress(Trouble):  # The gateway refuses the one that has ended, which is then reported.
                held[0] = locate(where)
        return held[0].key

    return key


def unreachable(address: Address, error: Exception) -> Trouble:
    """Say that no one answers, and how to start one."""
    who = f" (process {address.pid})" if address.pid is not None else ""
    why = str(error).strip() or type(error).__name__
    remedy = trust_remedy(error) or ("Check that this machine reaches it; `interlock contexts` lists others."
                                     if address.context is not None else "Start one with: interlock up")
    return Trouble("Unreachable", f"The gateway at {address.url}{who} does not answer: {why}.", remedy)


class GatewayLink:
    """Requests to one gateway. Finds it again when it was restarted elsewhere."""

    def __init__(self, where: Where, transport: httpx2.AsyncBaseTransport | None = None, *,
                 sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, patient: bool = True) -> None:
        """Without `patient` a refusal that asks to come again is the answer: what is wrong now is what was asked."""
        self._where = where
        self._patient = patient
        self._sleep = sleep
        self._shown = set[str]()
        """Sentences of refusals that were printed while the request is sent again."""
        self.address = locate(where)
        host = urlsplit(self.address.url).hostname
        if urlsplit(self.address.url).scheme == "http" and host not in LOOPBACK:
            say(f"warning: the key goes to {host} in the clear; use https", "bold", "warning:")
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            transport=transport,
            # A proxy of the environment is for the world, never for this machine.
            trust_env=host not in LOOPBACK,
            verify=trust.tls(self.address.url, where.directory(), self.address.ca) or (
                trusting_none() if host in LOOPBACK else True),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    @property
    def is_local(self) -> bool:
        """Whether the gateway was found in the state directory of this machine."""
        return self.address.pid is not None

    def find_again(self) -> None:
        """Look where the gateway is now: one that was restarted may listen elsewhere."""
        try:
            self.address = locate(self._where)
        except Trouble:
            return  # It has not said yet where it is; the next attempt asks again.

    # --- reading ---
    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """Read a resource's JSON. Raises Trouble."""
        return (await self._ask("GET", path, params=params)).content

    async def read(self, path: str, kind: type[T], params: Mapping[str, str] | None = None) -> T:
        """Read a resource. Raises Trouble."""
        return decoded(await self.get(path, params), kind, path)

    async def pages(self, path: str, params: Mapping[str, str] | None = None, most: int = LIST_MAX) \
            -> list[msgspec.Raw]:
        """Read a list over its cursor pages, at most `most` of it, in the gateway's order. Raises Trouble."""
        found: list[msgspec.Raw] = []
        asked = {**(params or {}), "limit": str(min(LIST_PAGE, most))}
        while True:
            page = decoded(await self.get(path, asked), dict[str, msgspec.Raw], path)
            rows, cursor = _rows(page, path)
            found += rows
            # A page of a search may be empty while there are more; the same cursor again would never end.
            if cursor is None or len(found) >= most or cursor == asked.get("cursor"):
                return found[:most]
            asked["cursor"] = cursor

    async def list(self, path: str, kind: type[T], params: Mapping[str, str] | None = None, most: int = LIST_MAX) \
            -> list[T]:
        """Read a list of resources. Raises Trouble."""
        return [decoded(bytes(raw), kind, path) for raw in await self.pages(path, params, most)]

    # --- changing ---
    async def send(self, path: str, body: Any, method: str = "POST") -> bytes:
        """Send a change under a fresh idempotency key, which stays the same however often it must be sent (M-1).

        Raises Trouble; `Unreachable` means that no one knows whether it was taken.
        """
        return await self._change(method, path, "application/json", lambda: msgspec.json.encode(body))

    async def upload(self, path: str, file: Path, media: str, params: Mapping[str, str]) -> bytes:
        """Send a file as a change's body, piece by piece, as `send` sends a body. Raises Trouble."""
        return await self._change("POST", path, media, lambda: _pieces(file), params)

    async def _change(self, method: str, path: str, media: str, body: Callable[[], bytes | AsyncIterator[bytes]],
                      params: Mapping[str, str] | None = None) -> bytes:
        """`body` makes what is sent, once for each attempt."""
        key = "cli-" + secrets.token_hex(16)
        headers = {"Content-Type": media, "Idempotency-Key": key}
        asked: RequestSpec[bytes] = RequestSpec(method, path, bytes, key=key)
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._once(method, path, content=body(), headers=headers, params=params)
            except httpx2.TransportError as error:
                if attempt == 1:
                    say("the connection to the gateway was lost; sending it again", "bold", "lost;")
                wait_s = patience(asked, ConnectionCut(str(error)), attempt, MANNERS)
                if wait_s is None:
                    raise unreachable(self.address, error) from None
                await self._sleep(wait_s)
                self.find_again()
            else:
                if not await self._waited(asked, response, attempt):
                    return _accepted(response, path).content

    # --- streams ---
    @asynccontextmanager
    async def stream(self, path: str, cursor: str | None) -> AsyncGenerator[httpx2.Response]:
        """Open a server-sent stream behind a cursor (S-1). Raises httpx2.TransportError, and Trouble for a refusal."""
        headers = {"Accept": "text/event-stream"}
        if cursor is not None:
            headers["Last-Event-ID"] = cursor
        await self._renewed()
        request = self._request("GET", path, headers=headers)
        request.extensions["timeout"] = httpx2.Timeout(STREAM_SILENCE_S, connect=CONNECT_TIMEOUT_S).as_dict()
        response = await self._http.send(request, stream=True)
        try:
            if response.status_code >= 400:
                raise refusal(response.status_code, await response.aread(), path,
                              response.headers.get("Retry-After"))
            yield response
        finally:
            await response.aclose()

    async def download(self, path: str) -> AsyncIterator[bytes]:
        """Read a long answer in pieces. Raises httpx2.TransportError, and Trouble for a refusal."""
        await self._renewed()
        response = await self._http.send(self._request("GET", path), stream=True)
        try:
            if response.status_code >= 400:
                raise refusal(response.status_code, await response.aread(), path)
            async for chunk in response.aiter_bytes():
                yield chunk
        finally:
            await response.aclose()

    # --- inside ---
    def _request(self, method: str, path: str, *, params: Mapping[str, str] | None = None,
                 content: bytes | None = None, headers: Mapping[str, str] | None = None) -> httpx2.Request:
        return self._http.build_request(
            method, self.address.url + path, params=dict(params) if params else None, content=content,
            headers={**credential_headers(self.address.key), **(headers or {})},
        )

    async def _once(self, method: str, path: str, **what: Any) -> httpx2.Response:
        await self._renewed()
        return await self._http.send(self._request(method, path, **what))

    async def _renewed(self) -> None:
        """Renew a login that ends soon: what runs for hours outlives many a token. Raises Trouble."""
        context = self.address.context
        if context is not None and renewal.is_due(context):
            self.address = await asyncio.to_thread(locate, self._where)

    async def _ask(self, method: str, path: str, **what: Any) -> httpx2.Response:
        """Ask what changes nothing. An answer that broke off is asked for again: of several gateways behind one address
        the one that had the question has died, and another has the answer."""
        asked: RequestSpec[bytes] = RequestSpec(method, path, bytes)
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._once(method, path, **what)
            except (httpx2.RemoteProtocolError, httpx2.ReadError) as error:
                if attempt >= READ_ATTEMPTS:
                    raise unreachable(self.address, error) from None
                await self._sleep(MANNERS.pause(attempt))
                self.find_again()
            except httpx2.TransportError as error:
                raise unreachable(self.address, error) from None
            else:
                if not await self._waited(asked, response, attempt):
                    return _accepted(response, path)

    async def _waited(self, asked: RequestSpec[bytes], response: httpx2.Response, attempt: int) -> bool:
        """Wait as long as a refusal asks for; False if this is the answer, and nothing is sent again."""
        if not self._patient:
            return False
        reply = HttpReply(response.status_code, response.content, response.headers.get("Retry-After"))
        wait_s = patience(asked, reply, attempt, MANNERS)
        if wait_s is None:
            return False
        refused = refusal(reply.status, reply.body, asked.path)
        if (wait_s > WAIT_SHOWN_S or refused.code == "Unavailable") and refused.sentence not in self._shown:
            self._shown.add(refused.sentence)
            say(f"{full_sentence(refused.sentence)} Sending it again in {wait_s:.0f} s.")
        await self._sleep(wait_s)
        return True


async def _pieces(file: Path) -> AsyncIterator[bytes]:
    opened = await asyncio.to_thread(file.open, "rb")
    with opened:
        while piece := await asyncio.to_thread(opened.read, UPLOAD_BYTES):
            yield piece


def _accepted(response: httpx2.Response, path: str) -> httpx2.Response:
    if response.status_code >= 400:
        raise refusal(response.status_code, response.content, path, response.headers.get("Retry-After"))
    return response


def _rows(page: dict[str, msgspec.Raw], path: str) -> tuple[list[msgspec.Raw], str | None]:
    """A page is one list beside `next_cursor` and `has_more`."""
    for raw in page.values():
        if bytes(raw).lstrip()[:1] == b"[":
            rows = decoded(bytes(raw), list[msgspec.Raw], path)
            if not decoded(bytes(page.get("has_more", msgspec.Raw(b"false"))), bool, path):
                return rows, None
            return rows, decoded(bytes(page.get("next_cursor", msgspec.Raw(b"null"))), str, path)
    raise Trouble("UpstreamError", f"The answer to {path} holds no list.", "Check the URL of the gateway.")
