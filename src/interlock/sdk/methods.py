"""Conversion of operations to methods: their parameters are those of their request, the same in both shells.

One class of descriptors serves both: a resource's link blocks or is awaited, and so do the results of its methods.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypeVar, overload

from interlock.protocol.resources import Command
from interlock.sdk.exchange import Flow, RequestSpec, RetryPolicy
from interlock.sdk.follower import Following, StreamItem, download, follow
from interlock.sdk.pages import ListPage, every, run
from interlock.sdk.place import fresh_key

if TYPE_CHECKING:
    from interlock.sdk.awaiting_link import AsyncLink
    from interlock.sdk.blocking_link import BlockingLink

P = ParamSpec("P")
T = TypeVar("T")
LinkT = TypeVar("LinkT", bound="BlockingLink | AsyncLink")


class ApiResource(Generic[LinkT]):
    """A part of the API. The results of its methods depend on its link: a `BlockingLink` returns, an `AsyncLink` is
    awaited."""

    def __init__(self, link: LinkT) -> None:
        self._link = link

    @property
    def link(self) -> LinkT:
        """Return the link to its gateway."""
        return self._link


Blocking: TypeAlias = "ApiResource[BlockingLink]"
Awaiting: TypeAlias = "ApiResource[AsyncLink]"


class _Method(Generic[P, T]):
    def __init__(self, ask: Callable[P, RequestSpec[T]]) -> None:
        self.ask = ask


class SingleRequest(_Method[P, T]):
    """A method with one request and one response."""

    @overload
    def __get__(self, owner: Blocking, kind: type[Any] | None = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, owner: Awaiting, kind: type[Any] | None = None) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, owner: Blocking | Awaiting, kind: type[Any] | None = None) -> Callable[P, Any]:
        """Bind it to a resource."""

        @functools.wraps(self.ask)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return owner.link.answer(self.ask(*args, **kwargs))

        return call


class Driven(Generic[P, T]):
    """A method with several requests and one result. `begin` returns a function that creates the flow from the retry
    policy."""

    def __init__(self, begin: Callable[P, Callable[[RetryPolicy], Flow[T]]]) -> None:
        self.begin = begin

    @overload
    def __get__(self, owner: Blocking, kind: type[Any] | None = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, owner: Awaiting, kind: type[Any] | None = None) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, owner: Blocking | Awaiting, kind: type[Any] | None = None) -> Callable[P, Any]:
        """Bind it to a resource."""

        @functools.wraps(self.begin)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return owner.link.drive(self.begin(*args, **kwargs)(owner.link.retries))

        return call


class ToEnd(Generic[P]):
    """A method that submits, and waits for the end."""

    def __init__(self, ask: Callable[P, RequestSpec[Command]]) -> None:
        self.ask = ask

    @overload
    def __get__(self, owner: Blocking, kind: type[Any] | None = None) -> Callable[P, Command]: ...
    @overload
    def __get__(self, owner: Awaiting, kind: type[Any] | None = None) -> Callable[P, Coroutine[Any, Any, Command]]: ...
    def __get__(self, owner: Blocking | Awaiting, kind: type[Any] | None = None) -> Callable[P, Any]:
        """Bind it to a resource."""

        @functools.wraps(self.ask)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return owner.link.drive(run(self.ask(*args, **kwargs).with_key(fresh_key()), owner.link.retries))

        return call


class Every(Generic[P, T]):
    """The items of all pages of a list, fetched as they are read."""

    def __init__(self, ask: Callable[P, RequestSpec[ListPage[T]]]) -> None:
        self.ask = ask

    @overload
    def __get__(self, owner: Blocking, kind: type[Any] | None = None) -> Callable[P, Generator[T]]: ...
    @overload
    def __get__(self, owner: Awaiting, kind: type[Any] | None = None) -> Callable[P, AsyncGenerator[T]]: ...
    def __get__(self, owner: Blocking | Awaiting, kind: type[Any] | None = None) -> Callable[P, Any]:
        """Bind it to a resource."""

        @functools.wraps(self.ask)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return owner.link.stream(every(self.ask(*args, **kwargs), owner.link.retries))

        return call


class EventMethod(Generic[P, T]):
    """Events that continue by themselves over lost connections, which appear as Lost and Reattached."""

    def __init__(self, following: Callable[P, Following[T]]) -> None:
        self.ask = following

    @overload
    def __get__(self, owner: Blocking, kind: type[Any] | None = None) -> Callable[P, Generator[StreamItem[T]]]: ...
    @overload
    def __get__(self, owner: Awaiting, kind: type[Any] | None = None) -> Callable[P, AsyncGenerator[StreamItem[T]]]: ...
    def __get__(self, owner: Blocking | Awaiting, kind: type[Any] | None = None) -> Callable[P, Any]:
        """Bind it to a resource."""

        @functools.wraps(self.ask)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return owner.link.stream(follow(self.ask(*args, **kwargs), owner.link.retries))

        return call


class Pieces(Generic[P]):
    """A long response, piece by piece."""

    def __init__(self, ask: Callable[P, RequestSpec[bytes]]) -> None:
        self.ask = ask

    @overload
    def __get__(self, owner: Blocking, kind: type[Any] | None = None) -> Callable[P, Generator[bytes]]: ...
    @overload
    def __get__(self, owner: Awaiting, kind: type[Any] | None = None) -> Callable[P, AsyncGenerator[bytes]]: ...
    def __get__(self, owner: Blocking | Awaiting, kind: type[Any] | None = None) -> Callable[P, Any]:
        """Bind it to a resource."""

        @functools.wraps(self.ask)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return owner.link.stream(download(self.ask(*args, **kwargs), owner.link.retries))

        return call
