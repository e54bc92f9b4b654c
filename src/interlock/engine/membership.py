"""What an engine knows of others beside it: nothing where it works alone, a cluster where several share a ledger."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from interlock.ports.ledger import LaneName, Ledger

Hold = tuple[LaneName, int]
"""A lane and the epoch that it is held under."""


class Elsewhere(Exception):
    """The lane is another gateway's: whatever was asked is asked there. Nothing was done here."""

    def __init__(self, instance_id: str) -> None:
        super().__init__(f"the gateway {instance_id} has it")
        self.instance_id = instance_id


class LaneMoved(Exception):
    """The lane went to another gateway while this waited in it: nothing was done, so it is asked again."""


class Room(Protocol):
    """The engine's side of what gateways do together."""

    shared: bool
    """Whether others may work on the same ledger."""
    instance_id: str
    """Who this one is among them; "" where it is alone."""

    async def take(self, lane: LaneName, runner_id: str | None = None) -> int:
        """Become the owner of a lane, a session of this runner's if it is named: returns its new epoch. Raises
        Elsewhere, LedgerError."""
        ...

    async def begin(self, lane: LaneName, runner_id: str) -> int | None:
        """Become the owner of a lane that no one ever had: returns its epoch, or None if there is no one else who
        could take it before its first commit: then that one begins it. Raises Elsewhere, LedgerError."""
        ...

    @property
    def begins(self) -> bool:
        """Whether `begin_new` is worth asking."""
        ...

    async def begin_new(self, lane: LaneName, runner_id: str) -> int | None:
        """Become the owner of a lane that has had none, quickly: returns its epoch, or None if it has had one, is not
        to be had here, or is had as quickly by `begin`. Raises LedgerError."""
        ...

    def give_back(self, lane: LaneName, epoch: int) -> None:
        """Need a lane no more. Never blocks."""
        ...

    def pass_on(self, lane: LaneName, epoch: int) -> None:
        """Let another gateway go on with a lane, unless one has taken it already. Never blocks."""
        ...

    def hold(self, tenant_id: str, name: str) -> AbstractAsyncContextManager[Hold | None]:
        """Be the one who does something for a tenant under a name; what is committed with the hold is refused once
        another one has the name. None without others. Raises Elsewhere."""
        ...

    async def leads(self, duty: str) -> bool:
        """Whether a duty that one gateway does for all is this one's now. Raises LedgerError."""
        ...

    def hint(self, kind: str, what: bytes = b"") -> None:
        """Notify the others of a change of something that they may remember. Never blocks; may get lost."""
        ...

    def on_hint(self, kind: str, receive: Callable[[bytes], Awaitable[None] | None]) -> None:
        """Call `receive` for each hint of this kind from another gateway, and with b"" when one may have been lost."""
        ...


class Alone(Room):
    """One gateway: everything is its own."""

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
        """No one else could want it."""

    def pass_on(self, lane: LaneName, epoch: int) -> None:
        """There is no other gateway."""

    @asynccontextmanager
    async def hold(self, tenant_id: str, name: str) -> AsyncGenerator[Hold | None]:
        yield None

    async def leads(self, duty: str) -> bool:
        return True

    def hint(self, kind: str, what: bytes = b"") -> None:
        """Do nothing: there are no others."""

    def on_hint(self, kind: str, receive: Callable[[bytes], Awaitable[None] | None]) -> None:
        """Do nothing: there are no others."""
