"""An engine's view of other gateways: none if it works alone, a cluster if several share a ledger."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from interlock.ports.ledger import LaneName, Ledger

Hold = tuple[LaneName, int]
"""A lane and the epoch under which it is held."""


class Elsewhere(Exception):
    """Raised if the lane belongs to another gateway: the request must be sent there. Nothing was done here."""

    def __init__(self, instance_id: str) -> None:
        super().__init__(f"the gateway {instance_id} has it")
        self.instance_id = instance_id


class LaneMoved(Exception):
    """Raised if the lane moved to another gateway while a request waited in it: nothing was done, so it is retried."""


class Room(Protocol):
    """The engine's interface to the cluster."""

    shared: bool
    """Whether other gateways may work on the same ledger."""
    instance_id: str
    """This gateway's id among them; "" if it is alone."""

    async def take(self, lane: LaneName, runner_id: str | None = None) -> int:
        """Take ownership of a lane, a session of this runner's if it is named: returns its new epoch. Raises Elsewhere,
        LedgerError."""
        ...

    async def begin(self, lane: LaneName, runner_id: str) -> int | None:
        """Take ownership of a lane that never had an owner: returns its epoch, or None if no other gateway could take
        it before its first commit: then that commit begins it. Raises Elsewhere, LedgerError."""
        ...

    @property
    def begins(self) -> bool:
        """Return whether calling `begin_new` is worthwhile."""
        ...

    async def begin_new(self, lane: LaneName, runner_id: str) -> int | None:
        """Take ownership of a lane that has had none, quickly: returns its epoch, or None if it has had one, cannot be
        taken here, or is taken as quickly by `begin`. Raises LedgerError."""
        ...

    def give_back(self, lane: LaneName, epoch: int) -> None:
        """Release a lane that is not needed any more. Never blocks."""
        ...

    def pass_on(self, lane: LaneName, epoch: int) -> None:
        """Release a lane for another gateway to continue, unless one has taken it already. Never blocks."""
        ...

    def hold(self, tenant_id: str, name: str) -> AbstractAsyncContextManager[Hold | None]:
        """Hold a name of a tenant's exclusively; what is committed with the hold is refused once another gateway holds
        the name. None without other gateways. Raises Elsewhere."""
        ...

    async def leads(self, duty: str) -> bool:
        """Return whether this gateway currently has a duty that one does for all. Raises LedgerError."""
        ...

    def hint(self, kind: str, what: bytes = b"") -> None:
        """Notify the other gateways of a change of data that they may cache. Never blocks; may get lost."""
        ...

    def on_hint(self, kind: str, receive: Callable[[bytes], Awaitable[None] | None]) -> None:
        """Call `receive` for each hint of this kind from another gateway, and with b"" if one may have been lost."""
        ...


class Alone(Room):
    """A single gateway, which owns everything."""

    shared = False
    instance_id = ""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def take(self, lane: LaneName, runner_id: str | None = None) -> int:
        return await self._ledger.take(lane)

    async def begin(self, lane: LaneName, runner_id: str) -> int | None:
        return None

    @property
    def begins(self) -> bool:
        return False

    async def begin_new(self, lane: LaneName, runner_id: str) -> int | None:
        return None

    def give_back(self, lane: LaneName, epoch: int) -> None:
        """Do nothing: no other gateway could want it."""

    def pass_on(self, lane: LaneName, epoch: int) -> None:
        """Do nothing: there is no other gateway."""

    @asynccontextmanager
    async def hold(self, tenant_id: str, name: str) -> AsyncGenerator[Hold | None]:
        yield None

    async def leads(self, duty: str) -> bool:
        return True

    def hint(self, kind: str, what: bytes = b"") -> None:
        """Do nothing: there are no other gateways."""

    def on_hint(self, kind: str, receive: Callable[[bytes], Awaitable[None] | None]) -> None:
        """Do nothing: there are no other gateways."""
