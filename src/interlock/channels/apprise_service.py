"""Notify approvers through a service that Apprise supports, such as Discord, mail or an SMS gateway: one way, with the
same notice as by ntfy (O-11)."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from interlock.channels.notice import TEST_TEXT, TEST_TITLE, TITLE, link_to, text_of
from interlock.ports.channel import ApprovalNotice, Channel, NotAsked
from interlock.protocol.extras import install

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT_S = 30.0
MESSAGE_BYTES = 4_096


class AppriseChannel(Channel):
    """Sends to one Apprise URL. Apprise makes its own connections, in a separate thread of this channel: a service that
    does not reply delays no other channel."""

    def __init__(self, url: str, *, details: bool, public_url: str | None) -> None:
        """Raises ValueError with one sentence, which never contains the URL: it includes the service's secrets."""
        try:
            import apprise
        except ImportError:
            raise ValueError(f"Apprise is not installed. Install it: {install('apprise')}") from None
        library: Any = apprise  # The package is untyped.
        service: Any = library.Apprise.instantiate(
            url, asset=library.AppriseAsset(async_mode=False, plugin_paths=[]), suppress_exceptions=True)
        if service is None:
            raise ValueError("the URL is not one that Apprise can use; its documentation lists the services")
        self.scheme = url.split(":", 1)[0].lower()
        self._notify: Callable[..., bool] = service.notify
        self._details = details
        self._public_url = public_url
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="apprise")

    async def ask(self, delivery_id: str, at_ms: int, asking: ApprovalNotice) -> None:
        """Send a notice. Raises NotAsked."""
        link = link_to(self._public_url, asking.approval_id)
        await self._send(TITLE, text_of(asking, link, details=self._details, max_bytes=MESSAGE_BYTES))

    async def test(self, delivery_id: str, at_ms: int) -> None:
        """Send a notice that names no approval. Raises NotAsked."""
        await self._send(TEST_TITLE, TEST_TEXT)

    async def _send(self, title: str, body: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                sent = await loop.run_in_executor(self._thread, lambda: self._notify(body=body, title=title))
        except TimeoutError:
            raise NotAsked(f"Apprise had no reply from {self.scheme} within {TIMEOUT_S:.0f} s") from None
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything; its text may contain the URL
            raise NotAsked(f"Apprise failed with {type(error).__name__} for {self.scheme}") from None
        if not sent:
            raise NotAsked(f"Apprise could not send to {self.scheme}; its reason is in the gateway's log")
