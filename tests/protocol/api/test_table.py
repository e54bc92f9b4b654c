"""The table of operations (F-2): every module's rows, in one order, each of a form that routing can serve."""

from __future__ import annotations

import re
from typing import Any

import pytest

from interlock.protocol.access import GIVEN_ROLES
from interlock.protocol.api import commands, upkeep
from interlock.protocol.api.operation import NO_ROLES, SSE, Operation
from interlock.protocol.api.table import OPERATIONS
from interlock.protocol.problems import PROBLEMS

pytestmark = pytest.mark.req("F-2")
every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=[one.name for one in OPERATIONS])


def test_modules_are_in_the_order_of_the_document() -> None:
    assert OPERATIONS[0] is next(one for one in vars(commands).values() if isinstance(one, Operation))
    assert OPERATIONS[-1] in vars(upkeep).values()


@every_operation
def test_a_read_is_a_safe_method_and_a_change_has_an_idempotency_key(operation: Operation[Any]) -> None:
    assert operation.method in ("GET", "POST", "PATCH", "PUT", "DELETE")
    assert (operation.method == "GET") <= (operation.body is None)
    if operation.keyed:
        assert hasattr(operation.body, "idempotency_key")


@every_operation
def test_a_path_is_plain_segments_and_each_name_once(operation: Operation[Any]) -> None:
    assert re.fullmatch(r"(?:/(?:[a-z0-9-]+|\{[a-z_]+\}))+", operation.path)
    names = re.findall(r"\{(\w+)\}", operation.path)
    assert len(set(names)) == len(names)
    assert operation.at(*("a/b" for _ in names)).count("a%2Fb") == len(names)


@every_operation
def test_roles_and_codes_are_known(operation: Operation[Any]) -> None:
    assert operation.roles <= {*GIVEN_ROLES, "runner"}
    assert (operation.roles == NO_ROLES) == operation.public
    assert set(operation.codes) <= set(PROBLEMS)
    assert not operation.secret or operation.keyed


@every_operation
def test_a_streaming_operation_declares_the_content_of_its_events(operation: Operation[Any]) -> None:
    assert operation.streams == (SSE in operation.media)
    assert not operation.events or operation.streams
