"""`AsyncInterlock`: the API as methods to be awaited; `resources` lists the methods, `requests` builds each request."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Self, Unpack

import httpx2

from interlock.protocol.resources import ExecutePayload
from interlock.sdk.awaiting_link import AsyncLink, AsyncWatch
from interlock.sdk.exchange import RetryPolicy
from interlock.sdk.place import KeySource
from interlock.sdk.prompt_stream import OnApproval, PromptPart, PromptTarget, prompt_stream
from interlock.sdk.requests import commands
from interlock.sdk.resources import GatewayMethods, GatewayResources

_RETRY_POLICY = RetryPolicy()


class AsyncInterlock(GatewayResources[AsyncLink]):
    __doc__ = GatewayMethods.__doc__

    def __init__(self, url: str | None = None, key: str | KeySource | None = None, *,
                 retries: RetryPolicy = _RETRY_POLICY, in_clear: bool = False, tls: ssl.SSLContext | bool = True,
                 transport: httpx2.AsyncBaseTransport | None = None) -> None:
        super().__init__(AsyncLink(url, key, retries, in_clear=in_clear, tls=tls, transport=transport))

    def stream(self, prompt: str | ExecutePayload, *, on_approval: OnApproval | None = None,
               **target: Unpack[PromptTarget]) -> AsyncGenerator[PromptPart]:
        """Send an agent a prompt, and yield typed parts of its work; the last one is `EndPart` (Y-14).

        Args: `target` as for `commands.submit`. `on_approval` is called with each pending approval or question of this
        prompt: True allows, False denies, a text answers a question, None leaves it to another approver.
        Raises: InterlockError. If the reader stops reading, the prompt continues.
        Example: `for part in gateway.stream("ls", agent="shell"): print(part)`.
        """
        return self.link.stream(prompt_stream(commands.submit(prompt, **target), on_approval, self.link.retries))

    def watch(self) -> AsyncWatch:
        """Follow any number of streams over one connection."""
        return AsyncWatch(self.link)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self.link.close()
