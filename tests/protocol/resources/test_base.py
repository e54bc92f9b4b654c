"""The two kinds of struct that REST has: a shown one omits absent fields, a received one forbids unknown fields."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.protocol.resources.base import Actor, Body, Resource


class Shown(Resource, frozen=True, kw_only=True):
    name: str
    note: str | None = None


class Received(Body, frozen=True, kw_only=True):
    name: str
    note: str | None = None


def test_a_shown_struct_omits_absent_fields_and_ignores_unknown_ones() -> None:
    assert msgspec.json.encode(Shown(name="a")) == b'{"name":"a"}'
    assert msgspec.json.decode(b'{"name":"a","newer":1}', type=Shown) == Shown(name="a")


@pytest.mark.req("F-1")
def test_an_unknown_field_of_a_body_is_an_error_that_names_it() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `nmae`"):
        msgspec.json.decode(b'{"name":"a","nmae":1}', type=Received)


@pytest.mark.parametrize("actor", [{"type": "user"}, {"id": "ann"}, {"type": "runner", "id": "r"},
                                   {"type": "user", "id": 7}])
def test_an_actor_is_a_person_or_an_agent_with_an_id(actor: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(actor, Actor)


def test_neither_can_be_changed_once_it_is_made() -> None:
    for made in (Shown(name="a"), Received(name="a")):
        with pytest.raises(AttributeError):
            made.name = "b"  # type: ignore[misc]
