"""Requests of `up` to the gateway that it started, sent with the standard library only.

`up` sends a few requests at its start and runs as long as its gateway. The HTTP library of the other verbs would occupy
9 MB during that time (Y-18).
"""

from __future__ import annotations

import asyncio
import http.client
import secrets
import ssl
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from interlock.cli.access.console_link import CODES, CONSOLE, link_for
from interlock.cli.link import trust
from interlock.cli.link.api_key import key_of
from interlock.cli.link.gateway_reply import decoded, refusal
from interlock.cli.verb_error import Trouble
from interlock.protocol.access import BrowserCode
from interlock.protocol.answers import NodeList
from interlock.protocol.api.gateway import LIST_NODES
from interlock.protocol.resources import Node

T = TypeVar("T")

NODES = LIST_NODES.at()
TIMEOUT_S = 30.0
REPLY_BYTES = 4 * 1024 * 1024
"""A longer reply is not read to its end."""
NOT_YET = frozenset({429, 503})
"""Statuses of a gateway that listens and is not ready, or has had too many requests."""


class OwnGateway:
    """The gateway at `url`, called with the key and the certificate of its state directory."""

    def __init__(self, url: str, state: Path) -> None:
        self._url = url
        self._state = state

    async def nodes(self) -> list[Node]:
        """Return the runners; none as long as the gateway is not ready. Raises Trouble."""
        try:
            status, body = await asyncio.to_thread(self._ask, "GET", NODES)
        except (ConnectionError, TimeoutError, http.client.HTTPException):
            return []
        return [] if status in NOT_YET else _accepted(status, body, NODES, NodeList).nodes

    async def console_link(self, shown: str | None = None) -> str | None:
        """Create a link that logs a browser in, for the gateway's own URL or for `shown`; None if the gateway has no
        console. Raises Trouble."""
        try:
            status, body = await asyncio.to_thread(self._ask, "GET", CONSOLE)
            if status == http.HTTPStatus.NOT_FOUND:
                return None
            status, body = await asyncio.to_thread(self._ask, "POST", CODES, {})
        except (ConnectionError, TimeoutError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        return link_for(shown or self._url, _accepted(status, body, CODES, BrowserCode).code)

    def _ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Send one request. Raises Trouble if the certificate is not the gateway's, ConnectionError, TimeoutError,
        HTTPException."""
        parts = urlsplit(self._url)
        host = str(parts.hostname)
        tls = trust.tls(self._url, self._state)
        link = (http.client.HTTPConnection(host, parts.port, timeout=TIMEOUT_S) if tls is None
                else http.client.HTTPSConnection(host, parts.port, timeout=TIMEOUT_S, context=tls))
        headers = {"Authorization": f"Bearer {key_of(self._state)}", "Accept": "application/json"}
        if body is not None:
            headers |= {"Content-Type": "application/json", "Idempotency-Key": "cli-" + secrets.token_hex(16)}
        try:
            link.request(method, path, None if body is None else msgspec.json.encode(body), headers)
            reply = link.getresponse()
            return reply.status, reply.read(REPLY_BYTES)
        except ssl.SSLError as error:
            raise self._unreachable(error) from None
        finally:
            link.close()

    def _unreachable(self, error: Exception) -> Trouble:
        why = str(error).strip() or type(error).__name__
        return Trouble("Unreachable", f"The gateway at {self._url} does not answer: {why}.",
                       "Look at its log in the state directory.")


def _accepted(status: int, body: bytes, path: str, kind: type[T]) -> T:
    """Decode a reply. Raises Trouble for a refusal, or a reply that did not come from a gateway."""
    if status >= http.HTTPStatus.BAD_REQUEST:
        raise refusal(status, body, path)
    return decoded(body, kind, path)
