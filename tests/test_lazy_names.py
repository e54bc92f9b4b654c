"""Names that are imported when they are first used: the same as if they had been imported at once (Y-18)."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from interlock.lazy_names import lazy_names


@pytest.mark.parametrize("package", ["interlock.sdk", "interlock.config"])
def test_every_public_name_of_a_lazy_package_exists(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in vars(module), "the second look finds it in the package itself"


def test_an_unknown_name_is_an_attribute_error() -> None:
    lookup = lazy_names("interlock.sdk", {"interlock.sdk.exchange": ("RetryPolicy",)})
    with pytest.raises(AttributeError, match=r"module 'interlock.sdk' has no attribute 'Manner'"):
        lookup("Manner")


@pytest.mark.req("Y-18")
@pytest.mark.parametrize(("words", "absent"), [
    ("import interlock.sdk.exchange", ["interlock.sdk.resources"]),
    ("import interlock.config.directory", ["interlock.config.sections"]),
    ("import interlock.cli.groups as g; g.runner", ["interlock.cli.tasks.lists"]),
    ("import interlock.cli.groups as g; g.keys", ["interlock.cli.agents.agents"]),
    ("import interlock.cli.dispatch, interlock.cli.first_page", ["msgspec", "cyclopts"]),
    ("import interlock.cli.operations.gateway_status, interlock.cli.tasks.lists, interlock.cli.link.plain_link",
     ["httpx2", "asyncio"]),
    ("import interlock.cli.host.up", ["httpx2"]),
    ("import interlock.cli.host.processes as p; p.load_structlog(); import interlock.app.gateway",
     ["rich", "joserfc", "interlock.gateway.a2a.facade", "httpx2"]),
    ("import interlock.cli.host.processes as p; p.load_structlog(); import interlock.app.runner", ["rich", "httpx2"]),
])
def test_a_verb_loads_only_what_it_uses(words: str, absent: list[str]) -> None:
    shown = subprocess.run([sys.executable, "-c", f"{words}\nimport sys; print({set(absent)!r} & sys.modules.keys())"],
                           check=True, capture_output=True, text=True)
    assert shown.stdout == "set()\n"


@pytest.mark.req("Y-18")
def test_rich_is_available_to_later_users() -> None:
    words = "import interlock.cli.host.processes as p; p.load_structlog(); "\
            "from rich.cells import cell_len; print(cell_len('a'))"
    assert subprocess.run([sys.executable, "-c", words], check=True, capture_output=True, text=True).stdout == "1\n"
