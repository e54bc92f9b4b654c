"""Outgoing requests with httpx2: the name is resolved once, checked, and the checked address is used."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interlock.backends.outgoing.addresses import Fence, TargetUrl, is_address, taken_apart
from interlock.ports.outbound_http import OutboundResponse, Outgoing, Unreached, UrlRefused

if TYPE_CHECKING:
    from types import ModuleType

MAX_ADDRESSES = 32
"""A name with more addresses than this is refused."""

REASONS = {"ConnectError": "no connection was made", "ReadError": "it broke the connection off",
           "RemoteProtocolError": "it broke the connection off", "WriteError": "it broke the connection off"}
"""The library's errors in plain words."""

Resolve = Callable[[str, int], Awaitable[list[str]]]


async def look_up(host: str, port: int) -> list[str]:
    """Resolve a name with the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _library() -> ModuleType:
    """Load the library with the first request: it takes a seventh of a gateway's start, and most gateways send none."""
    import httpx2

    return httpx2


def _reason(error: BaseException) -> str:
    """Return why a request failed, without the error's own text, which may contain a header."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ssl.SSLCertVerificationError):
            return f"its certificate does not verify ({found.verify_message})"
        if isinstance(found, ssl.SSLError):
            return "it does not speak TLS as this side does"
        if isinstance(found, ConnectionRefusedError):
            return "it refuses the connection"
        found = found.__cause__ or found.__context__
    return REASONS.get(type(error).__name__, type(error).__name__)


class HttpOutgoing(Outgoing):
    """Outgoing requests over HTTP; see `interlock.ports.outbound_http.Outgoing`. `allowed` lists internal networks that
    may be reached."""

    def __init__(self, allowed: Sequence[str] = (), resolve: Resolve = look_up,
                 tls: ssl.SSLContext | None = None) -> None:
        self._fence = Fence(allowed)
        self._resolve = resolve
        self._tls = tls

    def check(self, url: str) -> None:
        target = taken_apart(url)
        self._fence.check_scheme(target)
        if is_address(target.host):
            self._fence.check(target, target.host)

    async def send(self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None,
                   max_bytes: int, timeout_s: float) -> OutboundResponse:
        target = taken_apart(url)
        self._fence.check_scheme(target)
        library: Any = await asyncio.to_thread(_library)
        try:
            async with asyncio.timeout(timeout_s):
                address = await self._address(target)
                return await self._ask(library, method, target, address, headers, body, max_bytes)
        except TimeoutError:
            raise Unreached(f"{target.host} did not answer within {timeout_s:g} s.") from None
        except library.HTTPError as error:
            raise Unreached(f"{target.host} cannot be asked: {_reason(error)}.") from None

    async def _address(self, target: TargetUrl) -> str:
        """Resolve the name; one internal address among several is an attack, and refuses them all."""
        if is_address(target.host):
            found = [target.host]
        else:
            try:
                found = await self._resolve(target.host, target.port)
            except OSError:
                raise Unreached(f"The name {target.host} is not known.") from None
        if not 0 < len(found) <= MAX_ADDRESSES:
            raise UrlRefused(f"{target.host} has {len(found)} addresses.")
        for address in found:
            if not is_address(address):
                raise UrlRefused(f"{target.host} has an address of one link only.")
            self._fence.check(target, address)
        return found[0]

    async def _ask(self, library: Any, method: str, target: TargetUrl, address: str, headers: Mapping[str, str],
                   body: bytes | None, max_bytes: int) -> OutboundResponse:
        pinned = f"[{address}]" if ":" in address else address
        extensions = {"sni_hostname": target.host} if target.scheme == "https" else {}
        async with (
            library.AsyncClient(trust_env=False, follow_redirects=False, verify=self._tls or True) as http,
            http.stream(method, f"{target.scheme}://{pinned}:{target.port}{target.path}", content=body,
                        headers={**headers, "Host": target.authority, "Accept-Encoding": "identity"},
                        extensions=extensions) as response,
        ):
            taken = bytearray()
            async for chunk in response.aiter_raw():
                taken += chunk
                if len(taken) > max_bytes:
                    raise Unreached(f"The answer of {target.host} is larger than {max_bytes} bytes.")
            return OutboundResponse(response.status_code, bytes(taken), response.headers.get("retry-after"))
