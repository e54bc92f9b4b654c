"""The package as it is installed."""

import interlock


def test_the_package_names_its_version() -> None:
    assert interlock.__version__.count(".") == 2
