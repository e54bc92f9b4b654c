"""The connection to a gateway: its address, the key for it, and requests whose refusals are one sentence (G-3, F-1)."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

import msgspec

from interlock.cli.config.place import OWNER_KEY_FILE, Where, option_for, running_gateway, up_is_starting, up_process
from interlock.cli.display.progress import waiting_for
from interlock.cli.display.terminal import say
from interlock.cli.link import contexts, renewal, trust
from interlock.cli.link.api_key import checked_key, key_of
from interlock.cli.link.contexts import Context
from interlock.cli.link.gateway_reply import decoded, refusal, understood
from interlock.cli.link.gateway_url import checked_url
from interlock.cli.verb_error import Trouble
from interlock.protocol.problems import PROBLEMS, full_sentence
from interlock.sdk.exchange import (
    ANSWER_TIMEOUT_S,
    NO_ANSWER,
    ConnectionCut,
    Flow,
    Give,
    HttpReply,
    Open,
    ReadMore,
    RequestSpec,
    Rest,
    RetryPolicy,
    Send,
    retry_delay_s,
)
from interlock.sdk.place import KeySource, trusting_none

if TYPE_CHECKING:
    import httpx2

    from interlock.cli.link.plain_link import PlainLink
    from interlock.sdk.awaiting_link import AsyncLink

T = TypeVar("T")

RETRY_POLICY = RetryPolicy()
"""When, and how often, a request is repeated: the library's policy, so that both behave alike (M-1, K-3)."""
WAIT_SHOWN_S = 2.0
"""A longer delay that the gateway requests is announced."""
READ_ATTEMPTS = 4
"""Maximum number of attempts of a read whose response was cut off."""
LIST_MAX = 10_000
"""Maximum number of rows that a list shows, or a prefix is matched against."""
LIST_PAGE = 500
STATE_TIMEOUT_S = 10.0
"""Time limit of the answer for verbs that show the current state (`status`, `doctor`)."""

LOOPBACK = {"127.0.0.1", "::1", "localhost"}


class Address(NamedTuple):
    """The gateway's address, the key for it, and the process that its file names."""

    url: str
    key: str
    pid: int | None = None
    context: Context | None = None
    """The context, if the gateway was found through a login."""
    ca: Path | None = None
    """The CA that was named for the gateway."""
    state: Path | None = None
    """The state directory, if the gateway was found there."""


def locate(where: Where) -> Address:
    """Find the gateway: `--on`, `--url`, their variables, the context in use, otherwise the one that runs on the state
    directory. A login that ends soon is renewed first. Raises Trouble."""
    state = where.directory()
    if where.url is not None:
        checked_url(where.url)  # An empty one, of a variable that is not set, names no other gateway.
    context = contexts.chosen(where)
    running = running_gateway(state)
    if context is not None:
        return _logged_in(context, where)
    named = where.url or os.environ.get("INTERLOCK_URL")
    if named and where.on is None:
        url = checked_url(named)
        own = running is not None and checked_url(running.url) == url
        login = None if own or os.environ.get("INTERLOCK_KEY") is not None else contexts.of_url(state, url)
        return _logged_in(login, where) if login is not None else Address(url, key_of(state), ca=where.ca)
    if running is None and up_is_starting(state):
        raise Trouble("Unreachable", f"The gateway on {state} is still starting.", "Try again in a few seconds.")
    if running is None:
        raise Trouble("Unreachable", f"No gateway runs on {state}.", start_remedy(state))
    return Address(checked_url(running.url), key_of(state), running.pid, ca=where.ca, state=state)


def _logged_in(context: Context, where: Where) -> Address:
    """Return the address of a context, with its credential renewed if it ends soon."""
    ca = where.ca or (Path(context.ca) if context.ca else None)
    key = os.environ.get("INTERLOCK_KEY")
    if key is not None:
        return Address(context.url, checked_key(key), context=context, ca=ca)
    fresh = renewal.fresh(context, where.directory())
    return Address(fresh.url, fresh.credential, context=fresh, ca=ca)


def renewed_key(address: Address, where: Where) -> str | KeySource:
    """Return the key for the library: if it is a login that ends, a function that is called for each request, and
    renews the login in time."""
    context = address.context
    if context is None or context.renewal is None or os.environ.get("INTERLOCK_KEY") is not None:
        return address.key
    held = [address]

    def key() -> str:
        last = held[0].context
        if last is not None and renewal.is_due(last):
            with suppress(Trouble):  # The gateway refuses the ended credential, and that is reported.
                held[0] = locate(where)
        return held[0].key

    return key


def start_remedy(state: Path | None) -> str:
    """Return the remedy for a gateway that does not answer: a running `interlock up` restarts it by itself."""
    up = up_process(state) if state is not None else None
    if up is None:
        return "Start one with: interlock up" + (option_for(state) if state is not None else "")
    return f"`interlock up` (process {up}) restarts it; try again in a few seconds, or see: interlock logs gateway"


def _restart_remedy(address: Address) -> str:
    """Return the remedy for a gateway of this host that is busy or stopped: nothing restarts it before it ends."""
    then = "`interlock up` restarts it" if address.state is not None and up_process(address.state) is not None \
        else "start another with: interlock up"
    return f"See: interlock logs gateway. If it stays so, end it with `kill -9 {address.pid}`; {then}."


def _key_remedy(address: Address) -> str:
    """Return the remedy for a key that the gateway does not accept, by where the key is from."""
    if os.environ.get("INTERLOCK_KEY") is not None:
        return "Correct $INTERLOCK_KEY, or unset it to use your login or the state directory's key."
    if address.context is not None:
        return f"Log in again with: interlock login --on {address.context.name}"
    return f"The key is that of {OWNER_KEY_FILE} in the state directory: name the gateway's with --state, or set " \
        "$INTERLOCK_KEY."


def unreachable(address: Address, why: str) -> Trouble:
    """Return the error that the gateway does not answer, with how to start one."""
    who = f" (process {address.pid})" if address.pid is not None else ""
    remedy = trust.remedy(why) or ("Check that this machine reaches it; `interlock contexts` lists others."
                                     if address.context is not None
                                     else _restart_remedy(address) if address.pid is not None and why == NO_ANSWER
                                     else start_remedy(address.state))
    return Trouble("Unreachable", f"The gateway at {address.url}{who} does not answer: {why}.", remedy)


class GatewayLink:
    """Requests to one gateway, sent by the library; this class decides what is printed about them, and how long a
    person waits. It looks the gateway up again after a restart elsewhere."""

    def __init__(self, where: Where, transport: httpx2.AsyncBaseTransport | None = None, *,
                 sleep: Callable[[float], Awaitable[None]] | None = None,
                 clock: Callable[[], float] = time.monotonic, retries: bool = True, streams: bool = True) -> None:
        """Create the link. Without `retries`, a refusal that asks for a retry is the result, and an answer is waited
        for only `STATE_TIMEOUT_S`, for verbs that show the current state. Without `streams`, requests to this machine
        are sent without an event loop: see `ask_gateway`."""
        self._where = where
        self._retries = retries
        self._answer_timeout_s = ANSWER_TIMEOUT_S if retries else STATE_TIMEOUT_S
        self._shown = set[str]()
        """Sentences of refusals that were printed while the request is repeated."""
        self.address = locate(where)
        host = urlsplit(self.address.url).hostname
        self._transport, self._sleep, self._clock = transport, sleep, clock
        if urlsplit(self.address.url).scheme == "http" and host not in LOOPBACK:
            say(f"warning: the key goes to {host} in the clear; use https", "bold", "warning:")
        self._tls = trust.tls(self.address.url, where.directory(), self.address.ca)
        self._opened: AsyncLink | None = None
        self._plain: PlainLink | None = None
        if not streams and host in LOOPBACK and transport is None:
            from interlock.cli.link.plain_link import PlainLink

            self._plain = PlainLink(self.address.url, self._credential, self._tls,
                                    answer_timeout_s=self._answer_timeout_s)

    @property
    def _link(self) -> AsyncLink:
        """Return the library's link, which is imported at its first use."""
        if self._opened is None:
            import asyncio

            from interlock.sdk.awaiting_link import AsyncLink

            tls = self._tls or (trusting_none() if urlsplit(self.address.url).hostname in LOOPBACK else True)
            self._opened = AsyncLink(self.address.url, self._credential, RETRY_POLICY, in_clear=True, tls=tls,
                                     transport=self._transport, sleep=self._sleep or asyncio.sleep, clock=self._clock,
                                     answer_timeout_s=self._answer_timeout_s)
        return self._opened

    @property
    def is_plain(self) -> bool:
        """Return whether its requests never wait for an event loop."""
        return self._plain is not None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._plain is not None:
            self._plain.close()
        if self._opened is not None:
            await self._opened.close()

    @property
    def is_local(self) -> bool:
        """Return whether the gateway was found in the state directory of this machine."""
        return self.address.pid is not None

    def find_again(self) -> None:
        """Look the gateway's address up again: a restarted gateway may listen elsewhere."""
        with suppress(Trouble):  # The gateway has not announced its address yet; the next attempt reads it again.
            self._go_to(locate(self._where))

    def _go_to(self, address: Address) -> None:
        self.address = address
        if self._plain is not None:
            self._plain.move_to(address.url)
        if self._opened is not None:
            self._opened.move_to(address.url)

    def _credential(self) -> str:
        """Return the key of the next request. A login that ends soon is renewed, since a verb may run longer than a
        token is valid. Raises Trouble."""
        context = self.address.context
        if context is not None and renewal.is_due(context):
            self._go_to(locate(self._where))
        return self.address.key

    # --- reading ---
    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        """Read a resource's JSON. Raises Trouble."""
        return await self.raw(RequestSpec("GET", path, bytes, query=params or {}, accept="*/*"))

    async def read(self, path: str, kind: type[T], params: Mapping[str, str] | None = None) -> T:
        """Read a resource. Raises Trouble."""
        return decoded(await self.get(path, params), kind, path)

    async def pages(self, path: str, params: Mapping[str, str] | None = None, most: int = LIST_MAX) \
            -> list[msgspec.Raw]:
        """Read at most `most` rows of a list over its cursor pages, in the gateway's order. Raises Trouble."""
        found: list[msgspec.Raw] = []
        parameters = {**(params or {}), "limit": str(min(LIST_PAGE, most))}
        while True:
            page = decoded(await self.get(path, parameters), dict[str, msgspec.Raw], path)
            rows, cursor = _rows(page, path)
            found += rows
            # A page of a search may be empty while there are more; the same cursor twice would never end.
            if cursor is None or len(found) >= most or cursor == parameters.get("cursor"):
                return found[:most]
            parameters["cursor"] = cursor

    async def list(self, path: str, kind: type[T], params: Mapping[str, str] | None = None, most: int = LIST_MAX) \
            -> list[T]:
        """Read a list of resources. Raises Trouble."""
        return [decoded(bytes(raw), kind, path) for raw in await self.pages(path, params, most)]

    # --- changing ---
    async def send(self, path: str, body: Any, method: str = "POST") -> bytes:
        """Send a change under a new idempotency key, which is the same in every retry (M-1).

        Raises Trouble; `Unreachable` means that it is unknown whether the change was made.
        """
        return await self.raw(RequestSpec(method, path, bytes, body=msgspec.json.encode(body), accept="*/*"))

    # --- requests of the library ---
    async def ask(self, request: RequestSpec[T]) -> T:
        """Send a request of `sdk.requests`, and return its decoded response. Raises Trouble."""
        return understood(request, await self.raw(request))

    async def raw(self, request: RequestSpec[Any]) -> bytes:
        """Send a request of `sdk.requests`, and return its response as received, to be printed. A change is sent under
        a new idempotency key, which is the same in every retry (M-1).

        Raises Trouble; `Unreachable` means that it is unknown whether a change was made.
        """
        flow = self.asking(request.with_key("cli-" + secrets.token_hex(16)))
        return await self._link.drive(flow) if self._plain is None else self._plain.drive(flow)

    def follow(self, flow: Flow[None]) -> AsyncGenerator[Any]:
        """Perform the exchanges of a stream's flow, and yield its items."""
        return self._link.stream(flow)

    async def download(self, path: str) -> AsyncGenerator[bytes]:
        """Read a long response in pieces. Raises Trouble, also if it was cut off: what was received is then
        incomplete."""
        async for piece in self.follow(self._downloading(RequestSpec("GET", path, bytes, accept="*/*"))):
            yield piece

    # --- flows ---
    def asking(self, request: RequestSpec[Any]) -> Flow[bytes]:
        """Send until there is a response, and print why the request is repeated. Raises Trouble."""
        attempt = 0
        while True:
            attempt += 1
            waiting_for(f"waiting for the gateway at {self.address.url}")
            reply: HttpReply | ConnectionCut = yield Send(request)
            wait_s = self._wait_s(request, reply, attempt)
            waiting_for("")
            if wait_s is None:
                return self.accepted(request, reply).body
            yield Rest(wait_s)
            if isinstance(reply, ConnectionCut):
                self.find_again()

    def _downloading(self, request: RequestSpec[bytes]) -> Flow[None]:
        self.accepted(request, (yield Open(request)))
        while True:
            piece: bytes | ConnectionCut = yield ReadMore()
            if isinstance(piece, ConnectionCut):
                raise Trouble("Unreachable", f"The answer to {request.path} broke off: {piece.why}.", "Try again.")
            if not piece:
                return
            yield Give(piece)

    def accepted(self, request: RequestSpec[Any], reply: HttpReply | ConnectionCut) -> HttpReply:
        """Return an answer that is not a refusal. Raises Trouble."""
        if isinstance(reply, ConnectionCut):
            raise unreachable(self.address, reply.why)
        if not 200 <= reply.status < 300 and reply.status not in request.also:
            refused = refusal(reply.status, reply.body, request.path, reply.retry_after)
            if refused.code == "Unauthorized" and refused.remedy == PROBLEMS["Unauthorized"].hint:
                raise Trouble(refused.code, refused.sentence, _key_remedy(self.address))
            raise refused
        return reply

    def _wait_s(self, request: RequestSpec[Any], reply: HttpReply | ConnectionCut, attempt: int) -> float | None:
        """Return the delay in seconds before the request is repeated; None if this is the response. A change is
        repeated as the library does it. A read is repeated only if its response was cut off: one of several gateways
        behind one address has died, and another can respond."""
        if isinstance(reply, ConnectionCut):
            if not request.changes:
                return RETRY_POLICY.pause(attempt) if reply.broke_off and attempt < READ_ATTEMPTS else None
            if attempt == 1:
                say("the connection to the gateway was lost; sending it again", "bold", "lost;")
            return retry_delay_s(request, reply, attempt, RETRY_POLICY)
        wait_s = retry_delay_s(request, reply, attempt, RETRY_POLICY) if self._retries else None
        if wait_s is None:
            return None
        refused = refusal(reply.status, reply.body, request.path)
        if (wait_s > WAIT_SHOWN_S or refused.code == "Unavailable") and refused.sentence not in self._shown:
            self._shown.add(refused.sentence)
            say(f"{full_sentence(refused.sentence)} Sending it again in {wait_s:.0f} s.")
        return wait_s


def ask_gateway(where: Where, ask: Callable[[GatewayLink], Coroutine[Any, Any, T]], *, retries: bool = True,
                plain: bool = True) -> T:
    """Send requests to a gateway one after another, and return the result. For a gateway on this machine the event loop
    is not imported, since that takes longer than a list's requests (Y-18). Reading a stream, sending a file and
    sleeping need one: then `plain` is False. Raises Trouble."""
    link = GatewayLink(where, retries=retries, streams=not plain)

    async def work() -> T:
        async with link:
            return await ask(link)

    if link.is_plain:
        return _completed(work())
    import asyncio

    return asyncio.run(work())


def _completed(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends to its end."""
    try:
        work.send(None)
    except StopIteration as over:
        return over.value
    work.close()
    raise AssertionError("it waits for an event loop, so it is not one of single requests")


def _rows(page: dict[str, msgspec.Raw], path: str) -> tuple[list[msgspec.Raw], str | None]:
    """Return the rows and the next cursor of a page, which has one list beside `next_cursor` and `has_more`."""
    for raw in page.values():
        if bytes(raw).lstrip()[:1] == b"[":
            rows = decoded(bytes(raw), list[msgspec.Raw], path)
            if not decoded(bytes(page.get("has_more", msgspec.Raw(b"false"))), bool, path):
                return rows, None
            return rows, decoded(bytes(page.get("next_cursor", msgspec.Raw(b"null"))), str, path)
    raise Trouble("UpstreamError", f"The answer to {path} holds no list.", "Check the URL of the gateway.")
