"""Lists over their pages, and waiting for a command's end, as flows (C-5, S-1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from interlock.protocol.api.commands import GET_COMMAND, GET_STATUS
from interlock.protocol.limits import WAIT_MAX_S
from interlock.protocol.resources import Command
from interlock.sdk.exchange import Flow, Give, Now, RequestSpec, RetryPolicy, exchange
from interlock.sdk.problems import StillRunning
from interlock.sdk.requests.base import read

ItemT_co = TypeVar("ItemT_co", covariant=True)


class ListPage(Protocol[ItemT_co]):
    """A page of a list."""

    @property
    def items(self) -> Sequence[ItemT_co]: ...

    @property
    def next_cursor(self) -> str | None: ...

    @property
    def has_more(self) -> bool: ...


def every(ask: RequestSpec[ListPage[ItemT_co]], retries: RetryPolicy) -> Flow[None]:
    """Yield the items of all pages, in the gateway's order. Raises InterlockError."""
    while True:
        page = yield from exchange(ask, retries)
        for item in page.items:
            yield Give(item)
        if not page.has_more or page.next_cursor is None:
            return
        ask = ask.with_query(cursor=page.next_cursor)


def wait(command_id: str, *, within_s: float | None = None) -> Callable[[RetryPolicy], Flow[Command]]:
    """Wait until a command has ended. Returns its final state. Raises StillRunning after `within_s`."""
    return lambda retries: wait_for(command_id, within_s, retries)


def wait_for(command_id: str, within_s: float | None, retries: RetryPolicy) -> Flow[Command]:
    """Wait until the command has ended. Returns its final state. Raises StillRunning after `within_s`."""
    began: float = yield Now()
    status = read(GET_STATUS, command_id)
    cursor: str | None = None
    while True:
        now: float = yield Now()
        left = WAIT_MAX_S if within_s is None else max(0, min(WAIT_MAX_S, int(within_s - (now - began))))
        page = yield from exchange(status.with_query(wait=str(left), **({"since": cursor} if cursor else {})), retries)
        cursor = page.next_cursor
        if page.terminal:
            return (yield from exchange(read(GET_COMMAND, command_id), retries))
        now = yield Now()
        if within_s is not None and now - began >= within_s:
            raise StillRunning(command_id, page.state)


def run(ask: RequestSpec[Command], retries: RetryPolicy) -> Flow[Command]:
    """Submit, and wait for the end. Raises InterlockError."""
    command = yield from exchange(ask, retries)
    return (yield from wait_for(command.id, None, retries))


