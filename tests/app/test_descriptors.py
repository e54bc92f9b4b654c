"""The limit of open files that a process is started with, and how it is raised."""

from __future__ import annotations

import resource
from collections.abc import Generator

import pytest

from interlock.app.descriptors import DESCRIPTORS_WANTED, raise_limit


@pytest.fixture
def hard() -> Generator[int]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_low_limit_is_raised_and_the_former_one_returned(hard: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    assert raise_limit() == 512
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, DESCRIPTORS_WANTED), hard)


def test_a_high_limit_is_kept(hard: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, DESCRIPTORS_WANTED), hard))
    assert raise_limit() == min(hard, DESCRIPTORS_WANTED)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, DESCRIPTORS_WANTED)
