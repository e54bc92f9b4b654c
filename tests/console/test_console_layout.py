"""Every screen of the console on a desk: fields beside each other are level, and a list keeps its distance from the
field above it, whichever view was opened first (J-3)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.console.screens import NAMES, SIZES, config, show

from proof.processes.stack import Stack

pytestmark = [pytest.mark.needs("chromium", "console"), pytest.mark.filterwarnings("ignore"), pytest.mark.req("J-3")]
GAP_PX = 8
UNEVEN = """() => [...document.querySelectorAll('.filters')].flatMap((filters) => {
    const boxes = [...filters.querySelectorAll('input:not([type=checkbox]), select')]
        .map((one) => [one, one.getBoundingClientRect()]).filter(([, box]) => box.height > 0);
    return boxes.filter(([, box], at) => boxes.slice(0, at).some(([, before]) =>
        box.top < before.bottom && before.top < box.bottom &&
        Math.abs(box.top - before.top) + Math.abs(box.height - before.height) > 1)).map(([one]) => one.outerHTML);
})"""
TOUCHING = """least => [...document.querySelectorAll('input[type=search]')].filter((field) => {
    const card = document.querySelector('.cards a');
    return card.getBoundingClientRect().top - field.getBoundingClientRect().bottom < least;
}).map((field) => field.outerHTML)"""


@pytest.fixture(scope="module")
def stack_config() -> str:
    """Agents that do what they are asked for."""
    return config()


@pytest.mark.parametrize("name", NAMES)
def test_fields_beside_each_other_are_level(
    page: Any, stack: Stack, screens: dict[str, tuple[str, str]], name: str
) -> None:
    page.set_viewport_size(SIZES[-1])
    show(page, stack, screens[name])
    assert page.evaluate(UNEVEN) == []


@pytest.mark.parametrize("name", ["sessions", "decided"])
def test_a_list_keeps_its_distance_from_the_search_above_it(
    page: Any, stack: Stack, screens: dict[str, tuple[str, str]], name: str
) -> None:
    show(page, stack, screens[name])
    assert page.evaluate(TOUCHING, GAP_PX) == []
