"""Paths beside the table of operations (F-2): each with its refusals, and none of the table's."""

from __future__ import annotations

import re
from typing import Any

import pytest

from interlock.gateway.rest.raw_paths import RAW_PATHS
from interlock.protocol.answers import COMPONENTS
from interlock.protocol.api.table import OPERATIONS
from interlock.protocol.problems import PROBLEMS

pytestmark = pytest.mark.req("F-2")
METHODS = [(path, method, operation) for path, item in RAW_PATHS.items() for method, operation in item.items()
           if isinstance(operation, dict) and "operationId" in operation]


def test_no_raw_path_or_name_is_in_the_table_of_operations() -> None:
    assert {f"/v1{one.path}" for one in OPERATIONS}.isdisjoint(RAW_PATHS)
    names = [operation["operationId"] for _, _, operation in METHODS]
    assert len(set(names)) == len(names)
    assert {one.name for one in OPERATIONS}.isdisjoint(names)


@pytest.mark.parametrize(("path", "method", "operation"), METHODS, ids=[path for path, _, _ in METHODS])
def test_each_refusal_is_a_known_code_of_that_status(path: str, method: str, operation: dict[str, Any]) -> None:
    for status, answer in operation["responses"].items():
        if "application/problem+json" not in answer.get("content", {}):
            continue
        codes = re.findall(r"`(\w+)`", answer["description"])
        assert codes, (path, status)
        assert {PROBLEMS[code].status for code in codes} == {int(status)}, (method, codes)
        assert answer["content"]["application/problem+json"]["schema"] == {"$ref": COMPONENTS + "Problem"}


def test_a_websocket_declares_its_refusals() -> None:
    sockets = {path: item["x-websocket"] for path, item in RAW_PATHS.items() if "x-websocket" in item}
    assert set(sockets) == {"/v1/stream", "/acp", "/rawp"}
    assert all(set(one["refusals"]) <= set(PROBLEMS) for one in sockets.values())
    assert all(path == "/rawp" or "Forbidden" in one["refusals"] for path, one in sockets.items())
