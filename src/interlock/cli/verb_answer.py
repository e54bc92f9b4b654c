"""A verb's work after its options are read: send one request, and print the gateway's response.

A verb's module has the parts that differ: the request, which the library creates (`sdk.requests`), and the text that
people read of the response. For a list that is a `ListTable`, for a change usually one sentence. A verb with several
requests sends them with `ask_gateway`, and prints the last response, the rows it found, or a value made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from interlock.cli.config.place import Where
from interlock.cli.display.columns import PLAIN, Layout
from interlock.cli.display.terminal import print_json, print_table, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import GatewayLink, ask_gateway
from interlock.cli.link.gateway_reply import decoded, understood
from interlock.sdk.exchange import RequestSpec

T = TypeVar("T")

LookedUp = Callable[[GatewayLink], Coroutine[Any, Any, RequestSpec[T]]]
"""Creates a request after looking up at the gateway what it needs: the id of an object that is named by a beginning or
@last."""


@dataclass(frozen=True, kw_only=True)
class ListTable(Generic[T]):
    """The table that people read of a list's response: `rows` returns the cells of each row, in the order of the
    headings."""

    header: Sequence[str]
    rows: Callable[[T], Sequence[Sequence[str]]]
    layout: Layout = PLAIN
    """How the table fits a narrow terminal."""
    empty: str = ""
    """The sentence in place of an empty table: that there is nothing, and how to create the first."""

    def show(self, answer: T) -> None:
        """Print the table, or the sentence if there are no rows."""
        rows = self.rows(answer)
        if rows or not self.empty:
            print_table(rows, self.header, self.layout)
        else:
            say(self.empty, "dim")


@dataclass(frozen=True)
class VerbAnswer(Generic[T]):
    """The gateway's response to a request, as received."""

    request: RequestSpec[T]
    raw: bytes
    link: GatewayLink
    """The closed link; it still has the gateway's address."""

    def value(self) -> T:
        """Decode the response. Raises Trouble if it did not come from a gateway."""
        return understood(self.request, self.raw)

    def print(self, show: Callable[[T], None], *, json: bool) -> int:
        """Print the response: as received with `json`, otherwise by `show`. Returns the exit status. Raises Trouble."""
        if json:
            print_json(self.raw)
        else:
            show(self.value())
        return ExitStatus.DONE


@dataclass(frozen=True)
class FoundRows(Generic[T]):
    """The rows of a list, read over its pages, as received; `name` is their member in the JSON document."""

    name: str
    kind: type[T]
    raw: Sequence[msgspec.Raw]

    def values(self) -> list[T]:
        """Decode the rows. Raises Trouble if they did not come from a gateway."""
        return [decoded(bytes(row), self.kind, self.name) for row in self.raw]

    def print(self, show: Callable[[list[T]], None], *, json: bool) -> int:
        """Print the rows: as received with `json`, otherwise by `show`. Returns the exit status. Raises Trouble."""
        if json:
            print_json(msgspec.json.encode({self.name: self.raw}))
        else:
            show(self.values())
        return ExitStatus.DONE


async def answered(link: GatewayLink, request: RequestSpec[T]) -> VerbAnswer[T]:
    """Send one of several requests; returns its response. Raises Trouble."""
    return VerbAnswer(request, await link.raw(request), link)


def ask(where: Where, request: RequestSpec[T] | LookedUp[T], *, plain: bool = True) -> VerbAnswer[T]:
    """Send a request; returns its response. `plain` as for `ask_gateway`. Raises Trouble."""
    async def send(link: GatewayLink) -> VerbAnswer[T]:
        return await answered(link, await request(link) if callable(request) else request)

    return ask_gateway(where, send, plain=plain)


def print_answer(where: Where, request: RequestSpec[T] | LookedUp[T], show: Callable[[T], None], *, json: bool,
                 plain: bool = True) -> int:
    """Send a request and print its response: as received with `json`, otherwise by `show`. Returns the exit status.
    Raises Trouble."""
    return ask(where, request, plain=plain).print(show, json=json)


def print_value(value: T, show: Callable[[T], None], *, json: bool) -> int:
    """Print the result of several requests: as one document with `json`, otherwise by `show`. Returns the exit
    status."""
    if json:
        print_json(msgspec.json.encode(value))
    else:
        show(value)
    return ExitStatus.DONE
