"""The sentence about installing an absent part names an existing extra, and no package index."""

import tomllib
from pathlib import Path
from typing import get_args

import pytest

from interlock.protocol.extras import Extra, install

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("extra", get_args(Extra))
def test_each_named_extra_exists(extra: Extra) -> None:
    assert extra in PROJECT["optional-dependencies"]
    assert f"'.[{extra}]'" in install(extra)


def test_no_package_index_is_used_for_the_projects_name() -> None:
    assert f"install {PROJECT['name']}" not in install("cluster")
