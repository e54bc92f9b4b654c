"""On three gateways (INTERLOCK_TEST_CLUSTER=1) only the proofs that use them run; the others would be repeated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proof.processes.stack import CLUSTER, Stack

HERE = Path(__file__).resolve().parent
MARK = "on_cluster"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not CLUSTER:
        return
    repeated = [item for item in items if item.path.is_relative_to(HERE) and not item.get_closest_marker(MARK)]
    config.hook.pytest_deselected(items=repeated)
    items[:] = [item for item in items if item not in repeated]


@pytest.fixture(autouse=True)
def marked_if_on_cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test without the mark has no stack that would be three gateways, so nothing is lost if it is left out there."""
    shared: list[Path] = []
    set_up = Stack.__init__

    def noted(stack: Stack, place: Path, *args: Any, on_file: bool = False, **options: Any) -> None:
        if not on_file:
            shared.append(place)
        set_up(stack, place, *args, on_file=on_file, **options)

    if request.node.get_closest_marker(MARK) is None:
        monkeypatch.setattr(Stack, "__init__", noted)
    yield
    assert not shared, f"mark it with {MARK}: it has a stack that is three gateways under INTERLOCK_TEST_CLUSTER=1"
