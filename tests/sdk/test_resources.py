"""The methods of the library (Y-14): each is described once, and both clients have every one of them."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from interlock.sdk import AsyncInterlock, Interlock, resources
from interlock.sdk.methods import Driven, EventMethod, Every, Pieces, SingleRequest, ToEnd

pytestmark = pytest.mark.req("Y-14")
ROOMS = {name: kind for name, kind in vars(resources).items() if name.endswith("Methods") and isinstance(kind, type)}
METHODS = [(owner, name, method) for owner, kind in ROOMS.items() for name, method in vars(kind).items()
           if isinstance(method, (SingleRequest, Driven, ToEnd, Every, EventMethod, Pieces))]


def made_by(method: Any) -> Any:
    return method.begin if isinstance(method, Driven) else method.ask


@pytest.mark.parametrize(("owner", "name", "method"), METHODS, ids=[f"{owner}.{name}" for owner, name, _ in METHODS])
def test_each_method_is_described_by_the_request_that_it_makes(owner: str, name: str, method: Any) -> None:
    text = inspect.getdoc(made_by(method))
    assert text
    assert text.rstrip().endswith(".")
    assert getattr(made_by(method), "__annotations__", {}).get("return")


def test_both_clients_have_every_resource_with_the_same_docstring() -> None:
    with Interlock("http://127.0.0.1:9", "ilk_k") as blocking:
        awaiting = AsyncInterlock("http://127.0.0.1:9", "ilk_k")
        rooms = {name for name in vars(blocking) if not name.startswith("_")}
        assert rooms == {name for name in vars(awaiting) if not name.startswith("_")}
        assert len(rooms) == len(ROOMS) - 1, "the gateway's own methods are the client's"
        for name in rooms:
            assert type(getattr(blocking, name)).__doc__ == type(getattr(awaiting, name)).__doc__


def test_a_list_can_be_read_by_page_and_completely() -> None:
    paged = {owner for owner, name, method in METHODS if isinstance(method, Every)}
    assert {"CommandMethods", "ApprovalMethods", "SessionMethods"} <= paged
